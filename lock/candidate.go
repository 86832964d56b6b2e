package lock

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// ErrNoLeader says that nobody leads: see [Election.Leader].
var ErrNoLeader = errors.New("nobody leads")

// Candidate is one who stands for election, as its entry tells. The zero Candidate is
// nobody.
type Candidate struct {
	Leads    bool   // it was elected
	Value    string // as it was given to Campaign, or proclaimed since
	Priority int    // see [WithPriority]
	Token    Token  // that its leadership has, or will have
	Entry    string // path of its node
	Owner    string // see [WithOwner]
	Host     string
	PID      int
}

// candidateOf is the candidate whose entry was read, nobody if it is none.
func (e *Election) candidateOf(entry *znode.Entry) (c Candidate) {
	if entry == nil || !entry.Leased() {
		return c
	}
	r := &entry.Record
	value, ok := r.Metadata[znode.ValueKey]
	if !ok { // a mutex
		return c
	}
	return Candidate{
		Leads: r.Granted(), Value: value, Priority: int(entry.Priority()),
		Token: Token{Czxid: entry.Stat.Czxid, Sequence: entry.TokenSequence(), Incarnation: r.Incarnation},
		Entry: e.r.client.queue.Path(e.r.name) + "/" + entry.Node, Owner: r.Owner, Host: r.Host, PID: r.PID,
	}
}

// Leader returns who leads, or [ErrNoLeader]. It asks ZooKeeper, and takes nobody for the
// leader whose lease and grace are over, whether it was purged or not. It waits out an
// outage until ctx ends, and fails with [ErrDenied] where an ACL does not let it read.
func (e *Election) Leader(ctx context.Context) (leader Candidate, err error) {
	err = e.look(ctx, func(ctx context.Context, r queue.Request) error {
		w := e.r.client.queue.NewWatcher(r)
		defer w.Close()
		entry, err := w.Holder(ctx, true)
		if leader = e.candidateOf(entry); err == nil && !leader.Leads {
			err = ErrNoLeader
		}
		return err
	})
	return leader, err
}

// Candidates returns who stands for election and lives, the leader included, in the order
// in which they came: that is not that of their turns where priorities differ. It reads
// them one after the other. It fails as Leader does.
func (e *Election) Candidates(ctx context.Context) (all []Candidate, err error) {
	err = e.look(ctx, func(ctx context.Context, r queue.Request) error {
		entries, err := e.r.client.queue.Candidates(ctx, r)
		for _, entry := range entries {
			if c := e.candidateOf(&entry); c != (Candidate{}) {
				all = append(all, c)
			}
		}
		return err
	})
	return all, err
}

// look asks something of ZooKeeper.
func (e *Election) look(ctx context.Context, ask func(context.Context, queue.Request) error) error {
	r, err := e.recipe().request(ctx, znode.Exclusive)
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
		return fmt.Errorf("election %q: %w", r.Lock, err)
	}
	return nil
}

// Observe tells who leads: now, and whenever that or its value changes; nobody too, as the
// zero [Candidate]. It goes on over reconnects and new sessions, and ends, with the error
// that says why and nobody, when ctx ends, the client closes, or Leader would fail. What
// changes while the loop's body runs is seen after it, the last state always. Tokens never
// fall.
//
// An observer watches one node, and is told by a read of each of the leader's renewals. In
// an outage of its own it tells nothing, so that what it told last may be over.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		var w *queue.Watcher
		var told Candidate
		for first := true; ; {
			var leader Candidate
			err := e.look(ctx, func(ctx context.Context, r queue.Request) error {
				if w == nil {
					w = e.r.client.queue.NewWatcher(r)
				} else if err := w.Await(ctx); err != nil {
					return err
				}
				entry, err := w.Holder(ctx, first)
				leader = e.candidateOf(entry)
				return err
			})
			if first && w != nil {
				defer w.Close()
			}
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
