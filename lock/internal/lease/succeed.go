package lease

import (
	"context"
	"errors"
)

// ErrNotQuiet says that an entry cannot be passed on: it has not ended well, or what
// stands in its node is not known, or not what the next one would have written.
var ErrNotQuiet = errors.New("entry cannot be passed on")

// Passable reports whether an entry that was unlocked can be passed on, as far as that is
// known before its last write has been answered.
func (e *Entry) Passable() bool { return locked(e, func() bool { return e.passable() }) }

// passable: only what ended by an unlock, with time left on its lease, and has the lease of
// its terms; e.mu is held.
func (e *Entry) passable() bool {
	doubt := e.writing != nil && (e.writing.doubt || !e.writing.flying)
	return e.state == Ended && e.why == ErrUnlocked && !e.lapsed && !e.pinned && !e.shared && !e.Fixed && !doubt &&
		e.nextTTL == e.TTL && e.lease.ttl == e.TTL && (e.writing == nil || e.writing.ttl == e.TTL)
}

// Pin keeps the entry from being passed on: another client may come for its node.
func (e *Entry) Pin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pinned = true
}

// PinAlone is Pin, and reports whether the hold has at most so many handles. No handle
// joins it after that.
func (e *Entry) PinAlone(handles int32) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pinned = true
	return e.handles <= handles
}

// Succeed sets e up as the next entry by the node of before, an entry of this process that
// was unlocked, and has e renewed from now on. No caller has e yet, and its turn is still to
// be found out. Its lease is the one of the last write, be that of e or of before. Succeed
// waits until no write of before is on its way. It fails with ErrNotQuiet, or as ctx does;
// then nothing has changed.
func (e *Entry) Succeed(ctx context.Context, owner Owner, before *Entry) error {
	err := before.await(ctx, func() bool { return !before.passable() || before.writing == nil || !before.writing.flying })
	if err != nil {
		return err
	}
	now := before.keeper.clock.Local()
	before.mu.Lock()
	if before.writing != nil || !before.passable() {
		before.mu.Unlock()
		return ErrNotQuiet
	}
	before.pinned = true // it goes on once
	e.Path, e.Terms, e.keeper, e.owner, e.index = before.Path, before.Terms, before.keeper, owner, -1
	e.Pass = before.Pass + 1
	e.nextTTL, e.lease, e.session, e.version, e.zxid = before.nextTTL, before.lease, before.session, before.version, before.zxid
	e.acquired, e.recorded, e.renewAt = before.acquired, before.recorded, before.renewAt
	e.writesWanted, e.writesAcked = before.writesWanted, before.writesAcked
	before.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writesWanted > e.writesAcked { // the grant is to be told soon still
		e.renewAt = min(e.renewAt, now.Mono+recordWithin)
	}
	e.schedule(e.renewAt, now)
	return nil
}

// spoil notes that the node is not there any more, or not ours: it is not passed on, also if
// that is heard of only after the unlock; e.mu is held.
func (e *Entry) spoil() {
	if e.pinned = true; e.writing != nil {
		e.writing.flying = false
	}
	if e.state == Ended {
		e.notify()
	}
}
