// Read/write locks and semaphores.

package sim

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	pages = "pages" // a read/write lock
	slots = "slots" // a semaphore
)

// manyPermits is the number of permits of slots in histories with crowds of holders, usualPermits in
// others. slotsAsked is the largest number that a worker requests, and the smallest after a resize,
// so that no worker waits forever.
const manyPermits, usualPermits, slotsAsked = 40, 4, 2

// way is the way in which a worker takes a lock.
type way struct {
	lock, try taking
	reads     bool // shared with other readers
	permits   int  // of a semaphore
	elects    bool // a candidate, except for tries
}

// weight returns the number of permits of a hold, at least 1.
func (w way) weight() int { return max(1, w.permits) }

// way returns the way to take the named lock.
func (p *process) way(one step, label string, c *client, name string, opts []lock.LockOption) way {
	switch name {
	case chair:
		return p.wayOfChair(one, label, c, opts)
	case slots:
		return permits(c.Semaphore(name, p.permits, opts...), max(1, one.number("permits")))
	case pages:
		m := c.RWMutex(name, opts...)
		if one.has("read") {
			return way{lock: m.RLock, try: m.TryRLock, reads: true}
		}
		return way{lock: m.Lock, try: m.TryLock}
	}
	m := c.Mutex(name, opts...)
	if one.has("barge") {
		m = m.WithBarging()
		p.count("barged")
	}
	return way{lock: m.Lock, try: m.TryLock}
}

// taking is a call that takes a lock.
type taking func(context.Context) (*lock.Hold, error)

// permits returns the way to take n permits.
func permits(s *lock.Semaphore, n int) way {
	return way{
		lock:    func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, n) },
		try:     func(ctx context.Context) (*lock.Hold, error) { return s.TryAcquire(ctx, n) },
		permits: n,
	}
}

// held is a hold, with its client and what the checks must know of it.
type held struct {
	*lock.Hold
	client *client
	since  time.Time
	way    way
	reads  *atomic.Bool // it reads, from the start or since a downgrade
	void   bool         // the servers have lost its entry
	*hearing
}

// beside reports whether both holds may be valid at the same time.
func (h held) beside(other held) bool { return h.reads.Load() && other.reads.Load() }

// overtaken reports whether a contender that had to wait for the hold has got the lock. It is false
// for slots. s.mu is held.
func (s *sim) overtaken(h held) bool {
	if h.Name() == slots {
		return false
	}
	if h.reads.Load() {
		return s.wrote[h.Name()].Compare(h.Token()) > 0
	}
	return s.last[h.Name()] != h.Token()
}

// noteToken records the token of a new hold, and checks that it is higher than those of all holds
// that the new hold had to wait for; s.mu is held.
func (s *sim) noteToken(label string, h held) {
	name, highest := h.Name(), s.last[h.Name()]
	if name == slots { // tokens of permits only have to differ
		for _, other := range s.open[name] {
			if other.Token() == h.Token() {
				s.violatedLocked("%s has %s by token %v, as another client has", label, name, h.Token())
			}
		}
		return
	}
	if h.reads.Load() {
		highest = s.wrote[name]
	}
	if h.Token().Compare(highest) <= 0 {
		s.violatedLocked("%s has %s by token %v, after token %v", label, name, h.Token(), highest)
	}
	if h.Token().Compare(s.last[name]) > 0 {
		s.last[name] = h.Token()
	}
	if !h.reads.Load() {
		s.wrote[name] = h.Token()
	}
}

// inWay returns the path of an entry that is ahead of the hold and excludes it, or "" if there is
// none. For slots, inWay returns some entry's path if the entries ahead leave too few permits. If
// the hold's own entry is missing, inWay returns a text. inWay decides by the sequences of the
// nodes, without the library.
func (s *sim) inWay(h held) string {
	path, own := "/locks/"+h.Name(), pathOf(h.Hold)
	there, room := false, s.capacity()-h.way.weight()
	ahead, least := "", own[len(own)-10:]
	for _, n := range s.Dump(path) {
		node, below := strings.CutPrefix(n.Path, path+"/")
		if !below || strings.Contains(node, "/") || !isContender(node) {
			continue
		}
		seq := node[len(node)-10:]
		there = there || n.Path == own
		if h.Name() == slots {
			if seq < own[len(own)-10:] {
				room -= weightOf(node)
			}
			if room < 0 {
				ahead = n.Path
			}
			continue
		}
		if n.Path != own && seq < least && !(h.reads.Load() && reads(n)) {
			ahead, least = n.Path, seq
		}
	}
	if !there {
		return "none, and its own entry is not there"
	}
	return ahead
}

// anchor returns the data of the anchor of slots, and what the plan says if there is none.
func (s *sim) anchor() znode.AnchorData {
	planned := znode.AnchorData{Permits: int32(s.permits)}
	parent, there := s.node("/locks/" + slots)
	if !there {
		return planned
	}
	data, err := znode.DecodeParent(parent.Data)
	n, there := s.node("/locks/" + slots + "/" + znode.Anchor(data.Generation))
	if err != nil || !there {
		s.violated("%s holds %s, and has no anchor: %v", parent.Path, parent.Data, err)
		return planned
	}
	anchor, err := znode.DecodeAnchor(n.Data)
	if err != nil {
		s.violated("%s holds %s: %v", n.Path, n.Data, err)
	}
	return anchor
}

// capacity returns the number of permits of slots.
func (s *sim) capacity() int { return int(s.anchor().Capacity()) }

// weightOf returns the number of permits in an entry's name, 1 if it has none.
func weightOf(node string) int {
	parts := strings.Split(node, "-")
	if len(parts) != 4 { // the id, the permits, "lock", the sequence
		return 1
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return 1
	}
	return n
}

// roomBeside checks that all holders of slots together have at most as many permits as the anchor says;
// s.mu is held.
func (s *sim) roomBeside(label string, h held, anchor znode.AnchorData) {
	held, holders, capacity := h.way.weight(), 0, int(anchor.Capacity())
	for _, other := range s.open[slots] {
		if other.Hold != h.Hold && (other.Remaining() > 0 || other.Err() == nil && !other.client.clock.sleptWithin(s.toWake())) {
			held += other.way.weight()
			holders++
			s.tally.count("permits beside others", 1)
			if anchor.Single {
				s.tally.count("permits beside others of one each", 1)
			}
		}
	}
	if holders > sampled {
		s.tally.count("permits beside more holders than a try samples", 1)
	}
	if held > capacity {
		s.violatedLocked("%s: %d permits of %s are held, and there are %d", label, held, slots, capacity)
	}
}

// resize changes the number of permits of slots.
func (p *process) resize(ctx context.Context, one step, label string) {
	limited, cancel := p.within(ctx, label, one)
	defer cancel()
	c, to := p.caller(one), max(slotsAsked, one.number("to"))
	begun := time.Now()
	err := c.Semaphore(slots, p.permits).Resize(limited, to)
	p.inTime(label, "Resize", limited, begun)
	p.say("%s: %s resized to %d: %v", label, slots, to, err)
	switch {
	case err == nil:
		p.count("semaphores resized")
	case !isOne(err, context.Canceled, context.DeadlineExceeded, lock.ErrClosed) && !p.refusal(c, err):
		p.violated("%s: resize %s to %d: %v", label, slots, to, err)
	}
}

// isContender reports whether a node's name is that of an entry, of any library.
func isContender(node string) bool {
	for _, token := range []string{"-lock-", "__lock__", "__READ__", "__WRIT__"} {
		if strings.Contains(node, token) {
			return true
		}
	}
	return false
}

// reads reports whether an entry's owner only reads.
func reads(n locktest.Node) bool {
	record, ok := recordOf(n)
	return strings.Contains(n.Path, "__READ__") || ok && record.Shared && record.Granted()
}

// downgrade makes a writer a reader. Sometimes it then tries to write again, which is refused as
// long as the hold lasts.
func (p *process) downgrade(ctx context.Context, r *rand.Rand, label string, h held) {
	limited, cancel := p.limit(ctx, label, between(r, 0, p.ttl))
	defer cancel()
	h.reads.Store(true)
	begun := time.Now()
	err := h.client.RWMutex(pages).Downgrade(limited, h.Hold)
	p.inTime(label, "Downgrade", limited, begun)
	p.say("%s: %s downgraded: %v", label, h.Name(), err)
	if limited.Err() != nil && !h.client.RWMutex(pages).Reads(h.Hold) { // the context ended before
		h.reads.Store(false)
		return
	}
	switch {
	case err == nil:
		p.count("holds downgraded")
	case !isOne(err, context.Canceled, context.DeadlineExceeded, lock.ErrLost, lock.ErrUnlocked, lock.ErrClosed) && !p.refusal(h.client, err):
		p.violated("%s: downgrade %s: %v", label, h.Name(), err)
	}
	if oneIn(r, 2) {
		p.upgrade(label, h)
	}
}

// upgrade tries to write with the context of a reader's hold, which must be refused.
func (p *process) upgrade(label string, h held) {
	again, err := h.client.RWMutex(pages).TryLock(newCall(h.Context()))
	p.say("%s: upgrades %s: %v", label, h.Name(), err)
	switch {
	case err == nil:
		p.violated("%s was to be refused to write %s by the context of a hold that reads, and got token %v", label, h.Name(), again.Token())
		_ = again.Unlock()
	case isOne(err, lock.ErrUpgrade):
		p.count("upgrades refused")
	case h.Err() == nil && !isOne(err, lock.ErrClosed) && !p.refusal(h.client, err):
		p.violated("%s: upgrade %s: %v", label, h.Name(), err)
	}
}
