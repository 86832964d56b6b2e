package lease

import (
	"context"
	"errors"
	"math"
)

// ErrNotQuiet is the error of Succeed for an entry that cannot be handed off locally: it did not
// end by an unlock in time, a write of it is in doubt, or the hold was pinned, shared or
// extended.
var ErrNotQuiet = errors.New("entry cannot be handed off locally")

// Passable reports whether an unlocked entry can be handed off locally, and is as good as Fresh wants
// it. A write may still be in flight: then the answer can change when its outcome is known.
func (e *Entry) Passable(session int64) bool {
	now := e.keeper.Clock.Local()
	return locked(e, func() bool { return e.passable() && e.fresh(session, now) })
}

// passable is Passable with e.mu held. The entry must have been unlocked in time, with a lease of
// the length TTL. A pinned or shared hold, or a write in doubt, prevents a handoff.
func (e *Entry) passable() bool {
	doubt := e.writing != nil && (e.writing.doubt || !e.writing.flying)
	return e.state == Ended && e.why == ErrUnlocked && !e.lapsed && !e.pinned && !e.shared && !doubt &&
		e.Pass < math.MaxInt32 && e.nextTTL == e.TTL && e.lease.ttl == e.TTL && (e.writing == nil || e.writing.ttl == e.TTL)
}

// Pin prevents a local handoff of the entry from now on, and further handles by AddHandle.
func (e *Entry) Pin() { e.PinAlone(0) }

// PinAlone does what Pin does, and reports whether the hold has at most the given number of
// handles.
func (e *Entry) PinAlone(handles int32) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pinned = true
	return e.handles <= handles
}

// Succeed sets up e, a new Entry, as the next entry of before's node, and renews e from now on.
// before is an unlocked entry of this process. The caller still has to grant e. The lease of e is
// that of the node's last write. Succeed waits until no write of before is in flight. It fails with
// ErrNotQuiet, or if ctx ends; then nothing has changed.
func (e *Entry) Succeed(ctx context.Context, owner Owner, before *Entry) error {
	err := before.await(ctx, func() bool { return !before.passable() || before.writing == nil || !before.writing.flying })
	if err != nil {
		return err
	}
	now := before.keeper.Clock.Local()
	before.mu.Lock()
	if before.writing != nil || !before.passable() {
		before.mu.Unlock()
		return ErrNotQuiet
	}
	before.pinned = true // only one entry may succeed it
	e.Path, e.Terms, e.keeper, e.owner, e.index = before.Path, before.Terms, before.keeper, owner, -1
	e.Pass, e.written = before.Pass+1, before.written
	before.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writesWanted > e.writesAcked { // the grant must still be recorded soon
		e.renewAt = min(e.renewAt, now.Mono+recordWithin)
	}
	e.schedule(e.renewAt, now)
	return nil
}

// spoil records that the node has gone or that another client has written it; e.mu is held. The node
// is then not handed off locally, even if this becomes known only after the unlock.
func (e *Entry) spoil() {
	if e.pinned = true; e.writing != nil {
		e.writing.flying = false
	}
	if e.state == Ended {
		e.notify()
	}
}
