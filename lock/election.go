package lock

import (
	"context"
	"fmt"
	"maps"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// MaxPriority is the highest priority of a candidate, see [WithPriority].
const MaxPriority = znode.MaxPermits

// Election has candidates of which at most one leads at any time. As [Mutex] it is a name
// and some settings, and has no state. It is a mutex whose holder all clients can read: the
// candidates wait in its queue, each with a value, such as an address. A [Mutex] of the same
// name keeps candidates out, and while it is held no candidate leads.
//
//	                          the leader                      waiting candidates
//	session lost, expired     goes on leading                 keep their places
//	lease not renewed         leads no more; others may       are purged after the grace, and
//	                          lead after the grace            queue again
//	Client.Close              leads no more, and the next     withdraw
//	                          one leads
//	context ends, in          has no effect any more          withdraw; others lead
//	Campaign
//	Leadership.Resign         leads no more, and the next     one of them leads at once
//	                          one leads
//	a higher priority comes   goes on leading                 give way to it
//	Client.Revoke             is told by Revoked, and decides  nothing
//
// To learn the leader you need no candidate: [Election.Leader] and [Election.Observe] make no
// entry, and no candidate sees them.
type Election struct{ r recipe }

// Election returns the election of that name, as [Client.Mutex] does. It takes
// [WithPriority], and neither [WithBarging] nor [WithoutRenewal]: the policy's max_hold
// limits how long a candidate leads.
func (c *Client) Election(name string, opts ...LockOption) *Election {
	e := &Election{c.recipe(znode.Mutex, name, append([]LockOption{elects}, opts...))}
	switch {
	case e.r.err != nil:
	case e.r.barging:
		e.r.err = invalid("option", "WithBarging", "is for a Mutex, and not for an Election")
	case e.r.fixed:
		e.r.err = invalid("option", "WithoutRenewal", "is not for an Election: a leader renews its lease")
	}
	return e
}

// elects lets the options of an election have a priority.
var elects = lockOption(func(s *settings) error {
	s.elects = true
	return nil
})

// Name returns the name of the election.
func (e *Election) Name() string { return e.r.name }

// Validate returns what is wrong with the name or an option, as [Mutex.Validate] does.
func (e *Election) Validate() error { return e.r.validate() }

// Campaign stands for election with a value, and waits until it leads: from then on all
// clients can see that. Value and metadata ([WithMetadata]) are UTF-8 and have 4 KiB
// together. It fails as [Mutex.Lock] does. It is not
// re-entrant: the context of a leadership, or of a [Mutex] of the same name, is an
// [ErrInvalid] while that lasts.
func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	r, err := e.r.request(ctx, znode.Exclusive)
	if err != nil {
		return nil, err
	}
	if own, ok := ctx.Value(reentry{e.r.client, r.Lock}).(*queue.Entry); ok && own.Err() == nil {
		return nil, invalid("context", r.Lock, "is that of a hold of the same name, for which the candidate would wait")
	}
	if r.Terms.Metadata, err = withValue(e.r.metadata, value); err != nil {
		return nil, err
	}
	r.Priority = int32(max(1, e.r.priority))
	h, err := e.r.client.take(ctx, r, acquire)
	if err != nil {
		return nil, err
	}
	return &Leadership{h}, nil
}

// withValue returns the metadata of a candidate with that value.
func withValue(m map[string]string, value string) (map[string]string, error) {
	with := map[string]string{znode.ValueKey: value}
	maps.Copy(with, m)
	with[znode.ValueKey] = value
	if err := znode.CheckMetadata(with); err != nil {
		return nil, invalid("value", fmt.Sprintf("%.40q", value), "%v", err)
	}
	return with, nil
}

// Leadership is the hold of a leader. Its methods are those of a [Hold]. It ends before
// another candidate leads, and its token is higher than those of all leaders before. It
// cannot be detached.
type Leadership struct{ *Hold }

// leads reports whether a hold is that of a candidate.
func (h *Hold) leads() bool {
	_, ok := h.e.Described()[znode.ValueKey]
	return ok
}

// Resign gives the leadership back. It is [Hold.Unlock].
func (l *Leadership) Resign() error { return l.Unlock() }

// Proclaim changes the value, and waits until all clients can see it. If ctx ends before, the
// next renewal tells it. A leadership that has ended returns why.
func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	if err := l.check(ctx, "proclaim"); err != nil {
		return err
	}
	m, err := withValue(l.e.Described(), value)
	if err == nil {
		err = l.e.Describe(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("proclaim %q: %w", l.Name(), err)
	}
	return nil
}
