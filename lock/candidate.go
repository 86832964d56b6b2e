package lock

import (
	"context"
	"fmt"
	"iter"

	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Candidate describes a candidate of an election, from the candidate's entry. The zero Candidate
// means no candidate.
type Candidate struct {
	Leads    bool   // the candidate leads now
	Value    string // the last one given to Campaign or Proclaim
	Priority int    // see [Election.WithPriority]
	Token    Token  // fencing token of the leadership, present or future
	Entry    string // path of its node
	Owner    string // see [WithOwner]
	Host     string
	PID      int
}

// candidateOf returns the candidate of an entry. It returns the zero Candidate if entry is nil or
// is not a candidate's.
func (e *Election) candidateOf(entry *znode.Entry) (c Candidate) {
	if entry == nil || !entry.Leased() {
		return c
	}
	r := &entry.Record
	value, ok := r.Metadata[znode.ValueKey]
	if !ok { // the entry is a mutex's
		return c
	}
	return Candidate{
		Leads: r.Granted(), Value: value, Priority: int(entry.Priority()),
		Token: Token{access.Token{Czxid: entry.Stat.Czxid, Sequence: entry.TokenSequence(), Incarnation: r.Incarnation}},
		Entry: e.r.client.queue.Path(e.r.name) + "/" + entry.Node, Owner: r.Owner, Host: r.Host, PID: r.PID,
	}
}

// Leader asks ZooKeeper for the leader. If there is none it returns [ErrNoLeader]. A candidate
// whose lease and grace are over does not count as the leader, even before its entry is purged.
// Leader waits out an outage until ctx ends, and fails with [ErrDenied] if an ACL forbids the read.
func (e *Election) Leader(ctx context.Context) (leader Candidate, err error) {
	err = e.query(ctx, func(ctx context.Context, r queue.Request) error {
		entry, err := e.r.client.queue.NewWatcher(r).Holder(ctx, true)
		if leader = e.candidateOf(entry); err == nil && !leader.Leads {
			err = ErrNoLeader
		}
		return err
	})
	return leader, err
}

// Candidates returns the live candidates, the leader included, in the order in which they joined.
// If priorities differ, candidates may lead in another order. Without candidates the result is
// empty. Candidates reads the entries one by one, and omits entries that an ACL forbids to read.
// Calls on the same Election remember what the last one has read: if the clocks of ZooKeeper's
// leaders differ, only a second look can show that a candidate has died.
// Its errors are those of Leader, except [ErrNoLeader].
func (e *Election) Candidates(ctx context.Context) (all []Candidate, err error) {
	err = e.query(ctx, func(ctx context.Context, r queue.Request) error {
		entries, err := e.r.client.queue.Candidates(ctx, r, &e.seen)
		for _, entry := range entries {
			if c := e.candidateOf(&entry); c != (Candidate{}) {
				all = append(all, c)
			}
		}
		return err
	})
	return all, err
}

// query runs ask as a call of the client, for which Close waits. ask reads the election's state.
func (e *Election) query(ctx context.Context, ask func(context.Context, queue.Request) error) error {
	r, err := e.r.request(ctx, znode.Exclusive)
	if err != nil {
		return err
	}
	c := e.r.client
	bound, end, err := c.enter(ctx, "election", r.Lock)
	if err != nil {
		return err
	}
	defer end()
	if err := ask(bound, r); err != nil {
		return zkconn.Reveal(fmt.Errorf("election %q: %w", r.Lock, err))
	}
	return nil
}

// Observe yields the leader: now, and whenever the leader or its value changes. While there is no
// leader, it yields the zero [Candidate]. It continues over reconnects and new sessions. If ctx
// ends, the client closes, or Leader would fail with another error than [ErrNoLeader], Observe
// yields the zero Candidate with the error, and ends.
//
// If several changes happen during the loop's body, Observe yields only the last one. The tokens of
// the yielded leaders never fall, unless the servers lose their data. The loop watches one node,
// and reads it at each renewal of the leader. During an outage of this client it yields nothing, so
// the last value may be stale.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		var w *queue.Watcher
		var told Candidate
		for first := true; ; {
			var leader Candidate
			err := e.query(ctx, func(ctx context.Context, r queue.Request) error {
				if w == nil {
					w = e.r.client.queue.NewWatcher(r)
				} else if err := w.Await(ctx); err != nil {
					return err
				}
				entry, err := w.Holder(ctx, first)
				leader = e.candidateOf(entry)
				return err
			})
			if err != nil {
				yield(Candidate{}, err)
				return
			}
			if (first || leader != told) && !yield(leader, nil) {
				return
			}
			first, told = false, leader
		}
	}
}
