package lock

import (
	"context"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// vainTime is for how long releases are not told after that was in vain.
const vainTime = 10 * time.Second

// maxSpots is how many spots of locks that nobody waits for are remembered.
const maxSpots = 4096

// spot is what this process knows of one lock's path, shared by its contenders
// for that lock. Nothing in it is relied on: it serves to guess well, because a
// wrong guess is a failed transaction in ZooKeeper's log all the same.
type spot struct {
	users int           // requests under way; guarded by the client
	door  chan struct{} // holds a token: who has it may join, one at a time

	mu        sync.Mutex
	sight     sight
	waiting   int           // entries of this process that wait in the queue
	gaveUp    int           // those that left it without their turn, ever
	contended bool          // others were there when the last of us left
	lasted    time.Duration // the last hold of ours
	vain      time.Duration // monotonic time until which releases are neither told in the parent nor looked for
	misses    int           // times in a row that this was in vain
	lingering bool          // somebody will look whether the parent is empty
	joinedAt  time.Duration // monotonic time at which one of ours joined last
	left      time.Duration // monotonic time at which one of ours left last; 0: never
	returned  int           // joins in a row that came soon after one of ours had left
	others    time.Duration // monotonic time at which other processes were seen there last
}

// sight is a lock's parent as it was last seen.
type sight struct {
	exists   bool
	data     znode.Parent
	version  int32 // of the data
	children int32
	plain    bool // the ACL does not let us write it
	doubted  bool // somebody else was there since: look before acting on it

	own    int32 // the version that our last join left
	step   int32 // by how much others had moved it on since the one before
	steady bool  // by as much as the time before that
}

// update notes what a reply showed.
func (s *sight) update(data znode.Parent, stat *zk.Stat) {
	s.exists, s.data, s.version, s.children, s.doubted = true, data, stat.Version, stat.NumChildren, false
}

// spot returns the spot of a lock, to be given back with leaveSpot.
func (c *Client) spot(lock string) *spot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.spots[lock]
	if s == nil {
		if len(c.spots) >= maxSpots {
			c.forgetSpots()
		}
		s = &spot{door: make(chan struct{}, 1)}
		s.door <- struct{}{}
		c.spots[lock] = s
	}
	s.users++
	return s
}

func (c *Client) leaveSpot(s *spot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.users--
}

// forgetSpots drops half of the spots that nobody uses; c.mu is held.
func (c *Client) forgetSpots() {
	drop := maxSpots / 2
	for lock, s := range c.spots {
		if drop == 0 {
			return
		}
		if s.users == 0 {
			delete(c.spots, lock)
			drop--
		}
	}
}

// enter waits for the door.
func (s *spot) enter(ctx context.Context) error {
	select {
	case <-s.door:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

func (s *spot) leave() { s.door <- struct{}{} }

func (s *spot) look() sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sight
}

// saw notes the parent as it was just seen, or written.
func (s *spot) saw(data znode.Parent, stat *zk.Stat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sight.update(data, stat)
}

// sawAgain is saw, for a parent that was read because something may have changed.
func (s *spot) sawAgain(data znode.Parent, stat *zk.Stat, now time.Duration) {
	s.meet(stat.Version, now)
	s.saw(data, stat)
}

// joined is saw, for a parent that one of ours has just written as it joined.
func (s *spot) joined(data znode.Parent, stat *zk.Stat, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joinedAt = now; s.left == 0 || now-s.left >= lingerTime {
		s.returned = 0
	} else {
		s.returned++
	}
	over := stat.Version - 1
	if s.sight.exists && s.sight.version != over {
		s.others = now
	}
	s.sight.update(data, stat)
	step := over - s.sight.own
	s.sight.own, s.sight.step, s.sight.steady = stat.Version, step, step == s.sight.step && s.sight.own != 0
}

// meet notes that others are there, if the parent is not as ours left it: somebody
// else made it, or joined, which each joiner writes there.
func (s *spot) meet(version int32, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sight.exists || s.sight.version != version {
		s.others = now
	}
}

// update notes the parent as it was just seen by somebody who did not look whether
// it is ours to use: only one that was before.
func (s *spot) update(data znode.Parent, stat *zk.Stat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sight.exists && s.sight.data.Kind == data.Kind && s.sight.data.Adopted == data.Adopted {
		s.sight.update(data, stat)
	}
}

// missed notes that the parent was not there.
func (s *spot) missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sight = sight{}
}

// doubt notes that what was seen has turned out wrong.
func (s *spot) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sight.doubted = true
}

// denied notes that the parent cannot be written.
func (s *spot) denied() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sight.plain = true
}

// wait notes that an entry of this process begins to wait in the queue.
func (s *spot) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
}

// waited notes that an entry of this process waits no longer.
func (s *spot) waited(turn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	if !turn {
		s.gaveUp++
	}
}

// queue returns how many of this process wait, and how many have given up so far.
func (s *spot) queue() (waiting, gaveUp int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting, s.gaveUp
}

// guess returns whether an entry of this process that joined alone, leaving the
// parent's data at that version, is probably alone still.
func (s *spot) guess(joinedAlone bool, version int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return joinedAlone && s.waiting == 0 && !s.contended && (!s.sight.exists || s.sight.version == version)
}

// grantDelay returns how long to wait before a grant is recorded, so that who is
// behind is told in time, and a short hold saves the write: the last one of ours
// tells what to expect.
func (s *spot) grantDelay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lasted == 0:
		return shortHold / 5
	case s.lasted < shortHold:
		return shortHold
	}
	return 0
}

// held notes for how long one of ours held the lock.
func (s *spot) held(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasted = d
}

// foresee returns the parent as it probably is now, if we left it just now and come
// back, and if so few are there that to list them costs no more than to look at it: as
// many have joined since as did the last two times. Who joined last is not known.
func (s *spot) foresee(now time.Duration) (next sight, ok bool) {
	const few = 4
	busy := s.isBusy(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	next = s.sight
	if foreseen := next.own + next.step; foreseen != next.version {
		next.version, next.data.Tail = foreseen, ""
	}
	return next, busy && next.exists && next.steady && next.children <= few
}

// isBusy reports whether one of ours has left just now, and others were there.
func (s *spot) isBusy(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left != 0 && now-s.left < lingerTime && s.others != 0 && now-s.others < lingerTime
}

// returns reports whether one of ours will probably be back at once, as those before
// were.
func (s *spot) returns() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.returned >= 2
}

// hopes reports whether it is worth while to look in the parent for a release: not
// where others join all the time and write it first.
func (s *spot) hopes(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now >= s.vain
}

// tells reports whether it is worth while to tell a release in the parent, which was
// looked at as the lock was granted.
func (s *spot) tells(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now >= s.vain && s.sight.exists && !s.sight.doubted && !s.sight.plain
}

// told notes whether a release that was looked for, or told, was so. When it was not
// twice in a row that is not tried for a while; once may be somebody who does not try.
func (s *spot) told(told bool, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.misses++; told {
		s.misses = 0
	}
	if s.misses == 2 {
		s.misses, s.vain = 0, now+vainTime
	}
}

func (s *spot) setContended(contended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.contended = contended
}

// leaves notes that one of ours has left, and whether somebody was still there.
func (s *spot) leaves(now time.Duration, others bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.contended, s.left = others, now
}

// linger notes that one of ours has left now, and reports whether the caller is to
// look at the parent later: nobody else is about to.
func (s *spot) linger(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.lingering
	s.lingering, s.left = true, now
	return first
}

// lingers returns how much is missing for the time since one of ours left last.
func (s *spot) lingers(now, least time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left + least - now
}

// lingered ends the lingering: who leaves from now on is not seen to by this look any
// more. It reports whether an entry of this process is there.
func (s *spot) lingered() (there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lingering = false
	return s.waiting > 0 || s.joinedAt > s.left
}
