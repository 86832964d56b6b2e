package reaper

import (
	"sync"
	"time"
)

// pace is how many reads may be in flight. It follows how long answers take: additive
// increase, multiplicative decrease.
type pace struct {
	most int

	mu    sync.Mutex
	now   int
	best  time.Duration // the shortest answer, as far as it is remembered
	sum   time.Duration // of the answers in this window
	least time.Duration
	n     int
}

func newPace(most int) *pace { return &pace{most: most, now: most} }

// limit is how many reads may be in flight now.
func (p *pace) limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// leastWindow is how many answers a decision rests on at least; it is twice as many as
// there are reads in flight, so that most were asked for after the decision before.
const leastWindow = 8

// answered takes how long an answer took. After as many as make a window it decides
// anew.
func (p *pace) answered(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 || took < p.least {
		p.least = took
	}
	p.sum += took
	p.n++
	if p.n < max(leastWindow, 2*p.now) {
		return
	}
	mean := p.sum / time.Duration(p.n)
	// What was once the shortest is forgotten little by little: ways get longer, too.
	if p.best += p.best / 64; p.best == 0 || p.least < p.best {
		p.best = p.least
	}
	p.now = decide(p.now, p.most, p.best, mean)
	p.n, p.sum = 0, 0
}

// A server is taken for slow when its answers take, on average, slowTimes as long as the
// best ones and slowMore longer: a handful of reads that wait for each other is no sign.
const (
	slowTimes = 4
	slowMore  = 20 * time.Millisecond
)

// decide returns how many reads may be in flight from now on, of which there were now
// and may be most, by the shortest answer that is known and how long they took.
func decide(now, most int, best, mean time.Duration) int {
	if mean > slowTimes*best+slowMore {
		return max(1, now/2)
	}
	return min(most, now+1)
}

// gate lets so many walkers in as the limit says, and always one.
type gate struct {
	limit  func() int
	mu     sync.Mutex
	left   *sync.Cond
	inside int
}

func newGate(limit func() int) *gate {
	g := &gate{limit: limit}
	g.left = sync.NewCond(&g.mu)
	return g
}

// enter waits until one more may come in.
func (g *gate) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.inside >= g.limit() {
		g.left.Wait()
	}
	g.inside++
}

// tryEnter comes in if one more may.
func (g *gate) tryEnter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside >= g.limit() {
		return false
	}
	g.inside++
	return true
}

// leave lets another one in.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.left.Broadcast()
}

// crowded reports whether more are inside than may be now.
func (g *gate) crowded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside > g.limit()
}
