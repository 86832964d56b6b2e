package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

var (
	// ErrMoved is the cause with which the context of a function ends when the shard is to be given
	// back: another member is to own it, or this member leaves.
	ErrMoved = errors.New("the shard is to be given back")
	// ErrNumber says that the group has another number of shards. The message has both numbers.
	ErrNumber = errors.New("the group has another number of shards")
)

// Defaults of [Options].
const (
	DefaultDrainTimeout = 30 * time.Second
	DefaultHandover     = 10 * time.Second
)

// markKey is the key of the metadata of a shard's hold: the member's id, and the number of shards.
const markKey = "shard"

// Func is the work on one shard. Its context ends when the shard is to be given back, with
// [ErrMoved], or when the shard is lost, with the reasons of a lost hold ([lock.LostError]). The
// shard is given back when Func has returned. If Func returns before its context has ended, with an
// error or without, it is called again after a second; if that happens again, after up to a minute.
type Func func(ctx context.Context, s Owned) error

// Options are the settings of a member. The zero value has all defaults.
type Options struct {
	// Weight is the member's weight: one of weight 2 has twice as many shards as one of weight 1.
	// From 1 to MaxWeight; 0 means the default, 1.
	Weight int
	// Name is shown by tools; at most MaxName bytes. Default none.
	Name string
	// DrainTimeout is the time after which a function that has not returned, although its shard is
	// to be given back or was lost, is logged, and does not hold back further moves. Default
	// DefaultDrainTimeout.
	DrainTimeout time.Duration
	// Handover is the longest time for which a member that leaves owns its shards until other
	// members are ready for them. Default DefaultHandover.
	Handover time.Duration
	// Log receives warnings: of functions that fail or do not return, and of shards that cannot be
	// locked. Default none.
	Log *slog.Logger
	// Lock has options for the election and for the shards' mutexes, such as [lock.WithTTL].
	Lock []lock.LockOption
}

// Group is a member of a group of shards. All methods are safe for concurrent use.
type Group struct {
	locks    *lock.Client
	tree     admin.Tree
	election *lock.Election
	name     string
	me       record
	opts     Options
	f        Func

	ctx      context.Context         // for all calls; ends when all shards are given back
	stop     context.CancelFunc      // ends ctx
	campaign context.Context         // ends when the member leaves, with errLeft, or has broken off, with the reason
	withdraw context.CancelCauseFunc // ends campaign
	tasks    sync.WaitGroup          // goroutines of ctx
	done     chan struct{}           // closed when the member has left

	mu       sync.Mutex
	plan     *plan   // the newest that was seen; nil: none yet
	slots    []*slot // by shard; nil: idle
	released bool    // all shards are to be given back
	crash    string  // the panic of a function; "": none
}

// errLeft is the reason of a campaign's end that is no error.
var errLeft = errors.New("the member leaves")

// Run joins the group and calls f for each shard that this member owns, each in a goroutine of its
// own, until ctx ends. Then the member leaves, see [Group.Leave]. Run returns when all functions
// have returned: call it before [lock.Client.Close] and let it return. Each call of Run is a member
// of its own.
//
// Run always returns an error. It matches the cause of ctx's end, or is an error that waiting cannot
// mend: [lock.ErrInvalid], [lock.ErrClosed], [ErrNumber], or that of the plan's election, such as
// [lock.ErrDenied] or [lock.ErrKind]. Another error of a single shard is logged, and the shard is
// tried again after up to a minute.
//
// If f panics, all shards are given back, and Run panics when the other functions have returned, or
// after the DrainTimeout. A shard on which f always panics can so end one replica after the other.
func Run(ctx context.Context, locks *lock.Client, group string, shards int, f Func, opts Options) error {
	g, err := join(ctx, locks, group, shards, f, opts)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { g.withdraw(errLeft) })()
	<-g.done
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.crash != "" {
		panic(g.crash)
	}
	if err := g.Err(); err != nil {
		return err
	}
	return fmt.Errorf("shards %q: %w", group, context.Cause(ctx))
}

// Join joins the group without a function: use [Group.Owned] in a loop. ctx is for the call; the
// member stays until [Group.Leave]. It fails as [Run] does.
func Join(ctx context.Context, locks *lock.Client, group string, shards int, opts Options) (*Group, error) {
	await := func(ctx context.Context, _ Owned) error {
		<-ctx.Done()
		return nil
	}
	return join(ctx, locks, group, shards, await, opts)
}

func join(ctx context.Context, locks *lock.Client, group string, shards int, f Func, opts Options) (*Group, error) {
	g, err := newGroup(ctx, locks, group, shards, f, opts)
	if err == nil {
		err = g.persist(ctx, "group of shards not read; tried again", func() error { return g.admit(ctx) })
	}
	if err != nil {
		return nil, err
	}
	g.ctx, g.stop = context.WithCancel(context.WithValue(context.WithoutCancel(ctx), inside{locks, group}, true))
	g.campaign, g.withdraw = context.WithCancelCause(g.ctx)
	context.AfterFunc(g.campaign, g.end)
	g.tasks.Go(func() { g.fail(g.persist(g.ctx, "plan of shards not read; tried again", g.observe)) })
	g.tasks.Go(g.candidacy)
	return g, nil
}

func newGroup(ctx context.Context, locks *lock.Client, group string, shards int, f Func, opts Options) (*Group, error) {
	switch {
	case locks == nil:
		return nil, invalid("client", "nil", "must come from lock.Dial or lock.New")
	case ctx == nil:
		return nil, invalid("context", "nil", "must not be nil")
	case f == nil:
		return nil, invalid("function", "nil", "must not be nil")
	case ctx.Value(inside{locks, group}) != nil: // it would re-enter the shards' locks
		return nil, invalid("context", group, "belongs to a function of the same group")
	case shards < 1 || shards > MaxShards:
		return nil, invalid("shards", shards, "must be within 1..%d", MaxShards)
	case opts.Weight < 0 || opts.Weight > MaxWeight:
		return nil, invalid("weight", opts.Weight, "must be within 1..%d, or 0 for the default, 1", MaxWeight)
	case len(opts.Name) > MaxName:
		return nil, invalid("name", opts.Name, "must have at most %d bytes", MaxName)
	case opts.DrainTimeout < 0 || opts.Handover < 0:
		return nil, invalid("timeout", min(opts.DrainTimeout, opts.Handover), "must be positive, or 0 for the default")
	}
	opts.DrainTimeout = cmp.Or(opts.DrainTimeout, DefaultDrainTimeout)
	opts.Handover = cmp.Or(opts.Handover, DefaultHandover)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	g := &Group{
		locks: locks, tree: admin.New(locks), name: group, opts: opts, f: f,
		election: locks.Election(group+planName, opts.Lock...),
		me:       record{Reads: format, ID: newID(), Shards: shards, Weight: max(1, opts.Weight), Name: opts.Name},
		slots:    make([]*slot, shards),
		done:     make(chan struct{}),
	}
	g.opts.Log = opts.Log.With("group", group, "member", g.me.ID)
	g.opts.Lock = append(slices.Clone(opts.Lock), lock.WithMetadata(map[string]string{markKey: fmt.Sprintf("%s/%d", g.me.ID, shards)}))
	return g, errors.Join(g.election.Validate(), g.mutex(shards-1).Validate(), g.roomForPlan())
}

// roomForPlan returns an error if the client's metadata leaves no room for the longest plan.
func (g *Group) roomForPlan() error {
	longest := len(encode(g.me, nil)) + idSize*Room(len(g.slots)) + 2*len(g.slots) + 40 // format, time and punctuation
	full := lock.WithMetadata(map[string]string{".": strings.Repeat(".", longest)})
	if err := g.locks.Election(g.name+planName, append(slices.Clone(g.opts.Lock), full)...).Validate(); err != nil {
		return fmt.Errorf("no room for a plan of %d bytes beside the client's metadata: %w", longest, err)
	}
	return nil
}

const planName = "/plan" // of the election, below the group

// mutex returns the lock of a shard.
func (g *Group) mutex(i int) *lock.Mutex {
	return g.locks.Mutex(g.name+"/"+strconv.Itoa(i), g.opts.Lock...)
}

// invalid returns a lock.ErrInvalid that names the argument, its value and the rule.
func invalid(argument string, value any, rule string, args ...any) error {
	return fmt.Errorf("%w: %s %v: %s", lock.ErrInvalid, argument, value, fmt.Sprintf(rule, args...))
}

// admit returns an error if this member cannot join the group as it is.
func (g *Group) admit(ctx context.Context) error {
	present, err := candidates(ctx, g.election)
	if err != nil {
		return err
	}
	for _, c := range present {
		if c.number != len(g.slots) {
			return g.number(c.number, "member "+c.ID)
		}
	}
	if room := Room(len(g.slots)); len(present) >= room {
		return invalid("members", len(present)+1, "a group of %d shards has room for %d", len(g.slots), room)
	}
	return nil
}

// number returns an ErrNumber.
func (g *Group) number(theirs int, of string) error {
	return fmt.Errorf("shards %q: %w: %d of %s instead of %d", g.name, ErrNumber, theirs, of, len(g.slots))
}

// observe takes note of each new plan, until an error.
func (g *Group) observe() error {
	for leader, err := range g.election.Observe(g.ctx) {
		r, p, foreign := decode(leader.Value)
		switch {
		case err != nil:
			return err
		case leader.Value == "": // no leader
		case foreign != nil:
			g.opts.Log.Warn("plan of shards not readable; the last one stays", "error", foreign)
		case p != nil && r.Shards != len(g.slots):
			return g.number(r.Shards, "the leader "+r.ID)
		case p != nil:
			g.change(func() { g.plan = p })
		}
	}
	return nil // not reached: Observe ends with an error
}

// fail ends the membership because of an error that waiting cannot mend.
func (g *Group) fail(err error) {
	g.withdraw(fmt.Errorf("shards %q: %w", g.name, err))
	g.release()
}

// release begins to give all shards back.
func (g *Group) release() { g.change(func() { g.released = true }) }

// end leaves the group, when the campaign has ended: others take over, see settle, or the Handover ends.
func (g *Group) end() {
	defer time.AfterFunc(g.opts.Handover, g.release).Stop()
	g.change(func() {})
	<-g.ctx.Done()
	g.tasks.Wait()
	close(g.done)
}

// Leave leaves the group and waits until that is done, or ctx ends; then it goes on in the
// background. The member withdraws first, and owns its shards until the plan does without it and
// other members are ready for them, at most for Options.Handover; if it is alone, not at all. Then
// the contexts of its shards end, and each is given back when it is not in use any more. Leave
// returns why the group has broken off, or nil. Call it before [lock.Client.Close], with a context that
// has not ended.
func (g *Group) Leave(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "nil", "must not be nil")
	}
	g.withdraw(errLeft)
	select {
	case <-g.done:
		return g.Err()
	case <-ctx.Done():
		return fmt.Errorf("leave shards %q: %w", g.name, context.Cause(ctx))
	}
}

// Done returns a channel that is closed when the member has left: after [Group.Leave], or because
// of an error, see [Group.Err].
func (g *Group) Done() <-chan struct{} { return g.done }

// Err returns the error that has ended the membership, as [Run] returns it; nil if there is none.
func (g *Group) Err() error {
	if err := context.Cause(g.campaign); err != errLeft { //nolint:errorlint // it is never wrapped
		return err
	}
	return nil
}

// Members returns the members: live candidates, in the order in which they joined.
func (g *Group) Members(ctx context.Context) ([]Member, error) {
	s, err := read(ctx, g.locks, g.election, g.name, true)
	return s.Members, err
}
