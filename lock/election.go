package lock

import (
	"context"
	"fmt"
	"iter"
	"maps"

	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Election elects a leader: at most one of its candidates leads at any time. Like a [Mutex] it has
// a name and settings, and no state. It is a mutex whose holder all clients can read. The
// candidates wait in its queue, each with a value, such as an address. While a [Mutex] of the same
// name is held, no candidate leads.
//
//	                          the leader                      waiting candidates
//	session lost, expired     goes on leading                 keep their places
//	lease not renewed         leads no more; the next one     are purged after the grace, and
//	                          may lead after the grace        queue again
//	Client.Close              leads no more, and the next     withdraw
//	                          one leads
//	context of Campaign       has no effect                   withdraw
//	ends
//	Leadership.Resign         leads no more, and the next     one of them leads at once
//	                          one leads
//	a higher priority joins   goes on leading                 yield to it
//	Client.Revoke             Revoked receives the request;   nothing
//	                          your program decides
//
// A client can look up the leader without being a candidate: [Election.Leader] and
// [Election.Observe] create no entry.
type Election struct {
	named
	priority int             // of its candidates; 0: none given
	seen     queue.Sightings // of Candidates
}

// Election returns the election of that name, as [Client.Mutex] does. MaxHold of the policy, or
// [WithMaxHold], limits the time that a candidate leads.
func (c *Client) Election(name string, opts ...LockOption) *Election {
	e := &Election{named: named{c.recipe(znode.Mutex, name, opts)}}
	if e.r.err == nil { // there must be room for a value
		if _, err := withValue(e.r.metadata, ""); err != nil {
			e.r.err = fmt.Errorf("lock %q: %w", name, err)
		}
	}
	return e
}

// WithPriority returns an election of the same name and settings whose candidates have the priority n,
// from 1, the default, to [MaxPriority]. The next leader is a waiting candidate of the highest priority;
// among equals, the first one. A leader goes on leading when a candidate of a higher priority joins. To
// have that candidate lead at once, request the leader's release by [Client.Revoke].
//
// A candidate yields if its turn comes while a candidate of a higher priority waits: it queues again,
// behind all present candidates. Meanwhile no client takes it for the leader. If the candidate of the
// higher priority then withdraws, candidates of equal priority may be ahead of the one that yielded. If
// the candidate of the higher priority dies, no candidate leads until its TTL and the grace are over, as
// after the death of a leader.
func (e *Election) WithPriority(n int) *Election {
	with := &Election{named: e.named, priority: n}
	if with.r.err == nil && (n < 1 || n > MaxPriority) {
		with.r.err = fmt.Errorf("lock %q: %w", e.r.name, invalid("priority", n, "must be within 1..%d", MaxPriority))
	}
	return with
}

// Campaign joins the election with a value. It waits until the candidate leads and all clients can
// see that. The value and the metadata ([WithMetadata]) are UTF-8, together at most 4 KiB and 64
// pairs; the value counts as the pair of the key "election.value". Campaign fails as [Mutex.Lock]
// does. It is not re-entrant: with the context of a leadership, or of a held [Mutex], of the same
// name it fails with [ErrInvalid].
func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	return e.campaign(ctx, value, acquire)
}

// TryCampaign returns the leadership if no other contender is in the way: no candidate leads or waits.
// Otherwise it returns a [HeldError], as [Mutex.TryLock] does. Its other errors are those of Campaign.
func (e *Election) TryCampaign(ctx context.Context, value string) (*Leadership, error) {
	return e.campaign(ctx, value, try)
}

// Do runs f while the candidate leads, for one term: it campaigns, runs f and resigns. The context of f
// ends with ctx, or when the leadership is lost. Do returns the errors of f and of [Leadership.Resign],
// joined. If [Election.Campaign] fails, Do returns its error and does not run f.
func (e *Election) Do(ctx context.Context, value string, f func(context.Context) error) error {
	return runHeld(ctx, func() (*Leadership, error) { return e.Campaign(ctx, value) }, f)
}

func (e *Election) campaign(ctx context.Context, value string, how how) (*Leadership, error) {
	r, err := e.r.request(ctx, znode.Exclusive)
	if err != nil {
		return nil, err
	}
	if own, ok := ctx.Value(reentry{e.r.client, r.Lock}).(*queue.Entry); ok && own.Err() == nil {
		return nil, invalid("context", r.Lock, "belongs to a hold of the same name: the candidate would wait for itself")
	}
	if r.Terms.Metadata, err = withValue(e.r.metadata, value); err != nil {
		return nil, err
	}
	r.Priority = int32(max(1, e.priority))
	h, err := e.r.client.take(ctx, r, how)
	if err != nil {
		return nil, err
	}
	return &Leadership{&h.hold}, nil
}

// withValue returns m with the value of a candidate added. It fails if the result is not allowed as
// metadata.
func withValue(m map[string]string, value string) (map[string]string, error) {
	with := map[string]string{znode.ValueKey: value}
	maps.Copy(with, m)
	with[znode.ValueKey] = value
	if err := znode.CheckMetadata(with); err != nil {
		return nil, invalid("value", fmt.Sprintf("%.40q", value), "%v", err)
	}
	return with, nil
}

// Leadership is the hold of a leader. It has the methods of all holds, see [Hold], but cannot be
// detached. It ends before another candidate leads, and its token is higher than those of all earlier
// leaders. A [Mutex.Lock] of the same name, with the context of the leadership, returns another handle
// on it.
type Leadership struct{ *hold }

// leads reports whether the hold is a leadership.
func (h *hold) leads() bool {
	_, ok := h.e.TermsNow().Metadata[znode.ValueKey]
	return ok
}

// Resign ends the leadership. It is [Leadership.Unlock].
func (l *Leadership) Resign() error { return l.Unlock() }

// Proclaim changes the value, and waits until all clients can see it. The limits are those of
// [Election.Campaign]. If ctx ends first, the next renewal writes the value. If the leadership has
// ended, Proclaim returns the reason.
func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	if err := l.check(ctx, "proclaim"); err != nil {
		return err
	}
	m, err := withValue(l.e.TermsNow().Metadata, value)
	if err == nil {
		err = l.e.Describe(ctx, m)
	}
	if err != nil {
		return zkconn.Reveal(fmt.Errorf("proclaim %q: %w", l.Name(), err))
	}
	return nil
}

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
