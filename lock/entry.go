package lock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// timerSlack is how late a timer may fire and a hold still end in time.
const timerSlack = 5 * time.Millisecond

// lease is what an acknowledged write of an entry gives its owner.
type lease struct {
	sent instant       // before the write was handed over
	ttl  time.Duration // that it carried
}

// end is until when others surely respect the lease, on the local monotonic
// clock (protocol: Hold, renew, lose). The leader stamped the write after it was
// sent, so everybody else counts from later. The margin covers the error of our
// clock's rate, the millisecond that Mtime is rounded by, and a late timer.
func (l lease) end() time.Duration {
	return l.sent.mono + l.ttl - l.ttl/rateError - time.Millisecond - timerSlack
}

// state is where an entry stands in its life. It only moves forward.
type state uint8

const (
	queued state = iota // waits for its turn
	held                // granted
	ended               // unlocked, withdrawn, lost or gone
)

// errGone is why a waiter's entry ended that somebody removed.
var errGone = errors.New("own entry is gone")

// entry is one contender's node in ZooKeeper and the lease that it carries, from
// its create on. All changes of its life go through the methods here. They are
// safe for concurrent use.
type entry struct {
	client *Client
	lock   string // name of the lock
	parent string // path of the lock
	path   string
	znode.Name
	settings

	// As found when it joined; not changed after.
	czxid         int64
	parentVersion int32 // of the parent's data
	alone         bool  // no other child was there
	keep          bool  // the parent is to stay

	looked bool // others were there when the parent was read as its turn came; not changed once it is granted

	// Owned by the renewer.
	due   time.Duration // monotonic time of the next tick
	index int32         // in the renewer's queue; -1: not in it

	mu       sync.Mutex
	state    state
	recorded bool                    // the grant stands in the node
	lapsed   bool                    // unlocked when the lease may have run out already
	handles  int32                   // holds that were given out on this entry and not yet unlocked
	version  int32                   // of the data that the last acknowledged write left
	asked    uint32                  // writes that somebody waits for
	answered uint32                  // those of them that were acknowledged
	values   context.Context         // whose values the hold's context keeps
	ctx      context.Context         // of the hold; made when somebody asks for it
	cancel   context.CancelCauseFunc // of ctx
	ttl      time.Duration           // that the next write carries
	lease    lease                   // of the last acknowledged write
	session  int64                   // that it was made in
	renewAt  time.Duration           // monotonic time
	doubted  time.Duration           // monotonic time since when the machine may have slept through the end of the lease; 0: not
	limit    time.Duration           // monotonic time at which max_hold ends the hold; 0: never
	granted  time.Duration           // monotonic time
	acquired int64                   // Unix ms of ensemble time; 0: not granted
	writing  *write                  // in flight, or of unknown outcome
	why      error                   // ended: the reason
	changed  chan struct{}           // closed at the next change; nil if nobody looks
}

// write is an attempt to write an entry's record, or several with the same bytes.
type write struct {
	data     []byte
	ttl      time.Duration
	acquired int64
	asked    uint32  // it answers all that was asked for up to here
	first    instant // before the first attempt
}

// newEntry returns the entry of a node that was created with the given record.
func newEntry(c *Client, lock string, s settings, path string, name znode.Name, sent instant, session int64) *entry {
	parent := c.path(lock)
	if strings.HasPrefix(path, parent) { // one string for as long as the entry lives
		parent = path[:len(parent)]
		lock = parent[len(parent)-len(lock):]
	}
	return &entry{
		client: c, lock: lock, parent: parent, path: path, Name: name, settings: s, index: -1,
		keep: s.KeepParent, ttl: s.TTL, lease: lease{sent, s.TTL}, session: session, renewAt: sent.mono + c.renewAfter(s.TTL),
	}
}

// renewAfter is how long after a write the next one is due.
func (c *Client) renewAfter(ttl time.Duration) time.Duration { return c.cfg.jitter(ttl/3, ttl/30) }

// record encodes what stands in an entry: its expiry is counted from the latest
// that the leader's clock may show, but a window that is wide, for want of a
// young sample, makes it no later than a quarter of the grace.
func (c *Client) record(s *settings, ttl time.Duration, acquired int64, now instant) []byte {
	r := znode.Record{
		Owner: c.cfg.owner, Host: c.cfg.host, PID: c.pid, Metadata: s.metadata,
		TTL: ttl.Milliseconds(), AcquiredAt: acquired,
	}
	if w, zxid := c.clock.at(now); zxid != 0 {
		r.ExpiresAt = (min(w.upper, w.lower+s.Grace/4) + ttl).Milliseconds()
	}
	return r.Encode()
}

// end is until when the entry is surely respected. A write that shortens the
// lease counts from the moment it is sent, acknowledged or not.
func (e *entry) end() time.Duration {
	end := e.lease.end()
	if e.writing != nil {
		end = min(end, lease{e.writing.first, e.writing.ttl}.end())
	}
	if e.limit != 0 {
		end = min(end, e.limit)
	}
	return end
}

// left is for how long the entry is surely respected still. The wall clock having
// run ahead of the monotonic one counts as time that has passed: the machine may
// have been suspended. If that is all that ended the lease, another write can
// tell that it did not.
func (e *entry) left(now instant) time.Duration {
	return e.end() - now.mono - ahead(e.lease.sent, now)
}

// isOver reports whether others may have purged the entry by now.
func (e *entry) isOver(now instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.left(now) <= 0
}

// remaining is for how long the hold is sure to last; 0 if it is not valid.
func (e *entry) remaining(now instant) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != held {
		return 0
	}
	left := e.left(now)
	if left <= 0 {
		e.schedule(0, now)
	}
	return max(0, left)
}

// fresh reports whether a waiter may enter without writing its entry first: the
// last write was acknowledged in this session, and so lately that half the lease
// is left.
func (e *entry) fresh(now instant, session int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state == queued && e.session == session && e.left(now) >= e.ttl/2
}

// begin has a waiting entry renewed from now on.
func (e *entry) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.schedule(e.renewAt, e.client.now())
}

// grant makes a hold of a waiting entry, whose context keeps the values of
// values. The grant is written at the time of record, or with the next renewal if
// that comes before.
func (e *entry) grant(values context.Context, now instant, record time.Duration) error {
	acquired := e.client.ensembleMillis(now)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == ended {
		return e.why
	}
	e.state, e.handles = held, 1
	if e.acquired == 0 {
		e.acquired = acquired
	}
	if e.MaxHold != 0 {
		e.limit = now.mono + e.MaxHold
	}
	e.values = values
	e.granted = now.mono
	if record != never && !e.recorded {
		e.asked++
		e.schedule(record, now)
	} else {
		e.schedule(e.renewAt, now)
	}
	return nil
}

// context returns the context of the hold.
func (e *entry) context() context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil {
		e.ctx, e.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(e.values), reentry{e.client, e.lock}, e))
		if e.state == ended {
			e.cancel(e.why)
		}
	}
	return e.ctx
}

// err returns why the entry ended, nil if it has not.
func (e *entry) err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why
}

// reenter gives out one more handle on a valid hold.
func (e *entry) reenter(now instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != held || e.left(now) <= 0 {
		return false
	}
	e.handles++
	return true
}

// unlock takes a handle back. It reports whether that was the last one, so that
// the node is to be deleted now, and why the hold had ended before, if it had.
func (e *entry) unlock(now instant) (last bool, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handles--
	if e.state == ended {
		return false, e.why
	}
	if e.handles > 0 {
		return false, nil
	}
	e.lapsed = e.left(now) <= 0
	e.finish(ErrUnlocked)
	return true, nil
}

// setTTL sets the lease that the next write asks for.
func (e *entry) setTTL(ttl time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ttl = ttl
}

// withdraw ends an entry that nobody has got yet. It reports false if it had
// ended before.
func (e *entry) withdraw() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == ended {
		return false
	}
	e.finish(errWithdrawn)
	return true
}

var errWithdrawn = errors.New("withdrawn")

// change makes a change that may lose the hold. The loss is told after e.mu was
// released, because a logger may be anybody's. It also sees to it that the node
// goes: a late renewal would block others for a TTL.
func (e *entry) change(f func()) {
	e.mu.Lock()
	before := e.state
	f()
	lost := (*LostError)(nil)
	if before == held {
		errors.As(e.why, &lost)
	}
	e.mu.Unlock()
	if lost == nil {
		return
	}
	e.client.stats.lost.Add(1)
	e.client.cfg.log.Warn().Str("lock", e.lock).Str("entry", e.path).AnErr("why", lost.Why).
		Msg("hold lost; its context has ended, others may enter after the grace")
	if lost.Why != ErrTaken && lost.Why != ErrRemoved {
		e.client.discard(e)
	}
}

// lose ends a hold before its holder did.
func (e *entry) lose(why error) {
	e.change(func() {
		if e.state == held {
			e.loseLocked(why)
		}
	})
}

// loseLocked is for use in change.
func (e *entry) loseLocked(why error) {
	e.finish(&LostError{Lock: e.lock, Entry: e.path, Token: e.token(), Why: why})
}

// finish ends the entry; e.mu is held.
func (e *entry) finish(why error) {
	e.state, e.why = ended, why
	if e.cancel != nil {
		e.cancel(why)
	}
	e.client.renewals.remove(e)
	e.notify()
}

// notify wakes those who wait for a change; e.mu is held.
func (e *entry) notify() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// watch returns whether the entry has ended, and a channel that is closed at its
// next change.
func (e *entry) watch() (<-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == ended {
		return nil, e.why
	}
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed, nil
}

// pause waits for a while, or until the entry or ctx ends.
func (e *entry) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		changed, err := e.watch()
		if err != nil {
			return err
		}
		select {
		case <-timer.C:
			return nil
		case <-changed:
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
}

func (e *entry) token() Token { return Token{Czxid: e.czxid} }

func (e *entry) isHeld() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state == held
}

// isRecorded reports whether the grant stands in the node.
func (e *entry) isRecorded() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.recorded
}

// isUntold reports whether a hold was had on the entry and the grant does not stand in
// the node, so that whoever is behind does not know.
func (e *entry) isUntold() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.acquired != 0 && !e.recorded
}

// heldSince is the monotonic time at which a hold was had on the entry; 0: none was.
func (e *entry) heldSince() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.granted
}

// writtenIn reports whether the last acknowledged write was made in that session,
// so that its server has seen all that we have.
func (e *entry) writtenIn(session int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session == session
}

// wroteSince reports whether the entry was written since that monotonic time.
func (e *entry) wroteSince(t time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lease.sent.mono >= t
}

// lastWrite returns the version that the node is probably at, the one that the
// last acknowledged write left, and the bytes of one in flight, or nil. Requests
// of a session are served in order, so a write in flight comes before a delete.
func (e *entry) lastWrite() (probable, acknowledged int32, pending []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing == nil {
		return e.version, e.version, nil
	}
	return e.version + 1, e.version, e.writing.data
}

// refresh writes the entry and waits for the acknowledgement of a write that
// began after the call.
func (e *entry) refresh(ctx context.Context) error {
	e.mu.Lock()
	e.asked++
	target := e.asked
	e.schedule(0, e.client.now())
	e.mu.Unlock()
	for {
		changed, err := e.watch()
		if err != nil {
			return err
		}
		e.mu.Lock()
		done := e.answered >= target
		e.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
}

// tick sees to what is due for the entry now: the end of a hold that ran out, or
// a write, which it returns; and says when to look again.
func (e *entry) tick(now instant) (begun *write) {
	e.change(func() {
		if e.state == held {
			e.expire(now)
		}
		if e.state == ended {
			return
		}
		renews := e.state == queued || !e.fixed
		early := e.ttl / earlyPart
		wanted := e.asked > e.answered || renews && now.mono+ahead(e.lease.sent, now) >= e.renewAt-early
		if e.writing != nil || !wanted {
			e.schedule(e.renewAt, now)
			return
		}
		begun = &write{
			data: e.client.record(&e.settings, e.ttl, e.acquired, now),
			ttl:  e.ttl, acquired: e.acquired, asked: e.asked, first: now,
		}
		e.writing = begun
		e.schedule(never, now)
	})
	return begun
}

// expire ends a hold whose lease has run out. One that ended only if the machine
// was suspended is given a grace to be confirmed by a renewal.
func (e *entry) expire(now instant) {
	why := ErrExpired
	if e.end() == e.limit {
		why = ErrMaxHold
	}
	switch {
	case now.mono >= e.end():
		e.loseLocked(why)
	case e.left(now) > 0:
		e.doubted = 0
	case e.fixed, e.doubted != 0 && now.mono >= e.doubted+e.Grace:
		e.loseLocked(why)
	case e.doubted == 0:
		e.doubted = now.mono
	}
}

// attempt reports whether a write is still wanted, and the version to make it on.
func (e *entry) attempt(w *write) (version int32, wanted bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.version, e.state != ended && e.writing == w
}

// acknowledge takes the reply to a write that was sent at the given time and
// left the node's data at this version.
func (e *entry) acknowledge(w *write, sent instant, session int64, version int32, next time.Duration, now instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing != w {
		return
	}
	e.writing = nil
	e.lease, e.version, e.session = lease{sent, w.ttl}, version, session
	e.doubted = 0
	e.recorded = w.acquired != 0
	e.answered = w.asked
	e.renewAt = sent.mono + next
	e.notify()
	if e.asked > e.answered {
		e.schedule(0, now)
	} else {
		e.schedule(e.renewAt, now)
	}
}

// postpone takes back a write that failed for a reason that may pass.
func (e *entry) postpone(w *write) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing != w {
		return
	}
	e.writing = nil
	now := e.client.now()
	e.renewAt = now.mono + e.ttl/10
	e.schedule(e.renewAt, now)
}

// schedule has the entry looked at when a write is due, unless one is on its way,
// and at the end of a hold; e.mu is held.
func (e *entry) schedule(write time.Duration, now instant) {
	if e.state == ended {
		return
	}
	due := never
	if e.writing == nil && (e.state == queued || !e.fixed || e.asked > e.answered) {
		due = write
	}
	switch {
	case e.state == held && e.doubted != 0:
		due = min(due, e.end(), e.doubted+e.Grace)
	case e.state == held:
		due = min(due, e.end()-ahead(e.lease.sent, now))
	}
	e.client.renewals.schedule(e, due)
}

// vanished takes the news that the node is not there.
func (e *entry) vanished() {
	now := e.client.now()
	e.change(func() {
		switch {
		case e.state == queued:
			e.finish(errGone)
		case e.state == held && e.left(now) <= 0:
			e.loseLocked(ErrExpired)
		case e.state == held:
			e.loseLocked(ErrRemoved)
		}
	})
}

// overwritten takes the news that somebody else wrote the node.
func (e *entry) overwritten() {
	e.change(func() {
		switch e.state {
		case queued:
			e.finish(errGone)
		case held:
			e.loseLocked(ErrTaken)
		}
	})
}
