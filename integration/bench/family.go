package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
)

// role is what a peer is where other locks than mutexes are measured.
type role struct {
	title string
	open  opener   // of a peer that lives in this process
	args  []string // of a program
}

// Roles.
const (
	reading   = "reading"   // a read/write lock, to read
	permits   = "permits"   // one of the permits of a semaphore
	plenty    = "plenty"    // one of many permits
	severally = "severally" // several locks together
	leading   = "leading"   // an election
)

const (
	permitCount = 4   // of the semaphore
	plentyCount = 64  // of one that has many
	atATime     = 8   // locks together
	manyRead    = 100 // that a writer waits for
	perReader   = 10  // of them on one session
)

// as is the peer in a role, or itself if it has no other part there.
func (p *peer) as(name string) *peer {
	r, ok := p.roles[name]
	if !ok {
		return p
	}
	one := *p
	one.title, one.open, one.args = r.title, r.open, r.args
	return &one
}

// plays takes the peers that have a role.
func plays(role string) func(p *peer) bool {
	return func(p *peer) bool { _, ok := p.roles[role]; return ok }
}

// holdfastRoles are Holdfast's.
var holdfastRoles = map[string]role{
	reading: {title: "Holdfast RWMutex", open: openTaking(func(c *lock.Client, name string) take {
		return held(c.RWMutex(name).RLock)
	})},
	permits: {title: "Holdfast Semaphore", open: openTaking(func(c *lock.Client, name string) take {
		s := c.Semaphore(name, permitCount)
		return held(func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, 1) })
	})},
	plenty: {title: "Holdfast Semaphore", open: openTaking(func(c *lock.Client, name string) take {
		s := c.Semaphore(name, plentyCount)
		return held(func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, 1) })
	})},
	severally: {title: "Holdfast LockAll", open: openTaking(func(c *lock.Client, name string) take {
		return held(c.All(namesOf(name)).Lock)
	})},
	leading: {title: "Holdfast Election", open: openTaking(func(c *lock.Client, name string) take {
		e := c.Election(name)
		return held(func(ctx context.Context) (*lock.Leadership, error) { return e.Campaign(ctx, "node1:8080") })
	})},
	strictly: localRoles[strictly],
	apart:    localRoles[apart],
	keeping:  localRoles[keeping],
}

// namesOf are those of several locks together, the first of which has that name.
func namesOf(name string) []string {
	names := []string{name}
	for i := 1; i < atATime; i++ {
		names = append(names, name+"-"+strconv.Itoa(i))
	}
	return names
}

// openOneByOne opens zk.Locks that are taken one after the other, each time in the same
// order.
func openOneByOne(ctx context.Context, addr string) (session, error) {
	s, err := openPlain(ctx, addr)
	return oneByOne{zkLock{s}}, err
}

type oneByOne struct{ zkLock }

func (s oneByOne) locker(p string) locker {
	var all oneByOneLocker
	for _, name := range namesOf(path.Base(p)) {
		all = append(all, zk.NewLock(s.conn, path.Join(path.Dir(p), name), zk.WorldACL(zk.PermAll)))
	}
	return all
}

type oneByOneLocker []*zk.Lock

func (all oneByOneLocker) lock(context.Context) error {
	for _, l := range all {
		if err := l.Lock(); err != nil {
			return err
		}
	}
	return nil
}

func (all oneByOneLocker) unlock() (err error) {
	for _, l := range all {
		err = errors.Join(err, l.Unlock())
	}
	return err
}

const permitsTitle = "handoff of %d permits among %d clients that hold for %v" + loopback

// family are workloads I, J and K: read/write locks, semaphores, and several locks
// together.
func family(s size) []*experiment {
	const toRead = "free lock to read, one client" + loopback
	list := []*experiment{
		freeRole("I", toRead, reading, bar{figure: 0, against: curatorName, limit: 0.8}, bar{figure: 1, limit: 2, counted: true}),
		freeRole("I", toRead, reading).on(delayed, bar{figure: 0, against: curatorName, limit: 0.8}),
		manyReaders(64, bar{figure: 0, against: zkLockName, least: true, limit: 1}),
		lastReader(bar{figure: 1, limit: 1, counted: true}),
		lastReader().on(delayed, bar{figure: 2, limit: 1.5}),
		freeRole("J", "free semaphore, one client"+loopback, permits, bar{figure: 0, against: curatorName, limit: 0.5}, bar{figure: 1, limit: 2, counted: true}),
	}
	few := fmt.Sprintf(permitsTitle, permitCount, 16, shortHold)
	for _, n := range s.crowds {
		e := handoffOf(permitCount, n, shortHold, bar{figure: 3, beside: few, limit: 1.5, counted: !s.quick})
		e.workload, e.title, e.role, e.takes = "J", fmt.Sprintf(permitsTitle, permitCount, n, shortHold), permits, plays(permits)
		if n == 16 {
			e.bars = nil
		}
		if n == mostOfAll {
			e.bars = append(e.bars, bar{figure: 3, limit: 2500, counted: !s.quick}, bar{figure: 5, limit: 7, counted: !s.quick})
		}
		list = append(list, e)
	}
	if !s.quick {
		list = append(list, manyPermits(bar{figure: 8, least: true, limit: 48}))
	}
	all := freeRole("K", fmt.Sprintf("%d free locks together, one client"+loopback, atATime), severally,
		bar{figure: 1, limit: 2, counted: true}, bar{figure: 2, limit: 2, counted: true})
	return append(list, all, leaders(16))
}

// manyPermits is handoff of many permits, at a distance: it tells how many of them are held,
// too.
func manyPermits(bars ...bar) *experiment {
	const hold = 20 * time.Millisecond
	e := handoffOf(plentyCount, mostOfAll, hold)
	e.workload, e.title, e.role, e.takes = "J", fmt.Sprintf(permitsTitle, plentyCount, mostOfAll, hold), plenty, plays(plenty)
	e.figures = append(e.figures, figure{"held at once, on average", decimals})
	prepare := e.prepare
	e.prepare = func(ctx context.Context, b *bench, p *peer) (trial, error) {
		t, err := prepare(ctx, b, p)
		if err != nil {
			return nil, err
		}
		return heldTrial{t.(*handoffTrial)}, nil
	}
	return e.on(delayed, bars...)
}

// heldTrial tells beside the figures of a handoff how many held the lock on average.
type heldTrial struct{ *handoffTrial }

func (t heldTrial) round(ctx context.Context) ([]float64, error) {
	figures, err := t.handoffTrial.round(ctx)
	return append(figures, t.held), err
}

// leaders is handoff of an election's leadership: from Resign to the next return of Campaign,
// by when all clients can see the leader.
func leaders(n int, bars ...bar) *experiment {
	e := handoff(n, shortHold, bars...)
	e.title = fmt.Sprintf("handoff of the leadership among %d candidates that lead for %v"+loopback, n, shortHold)
	e.role, e.takes = leading, plays(leading)
	return e
}

// freeRole is free, of those that have a role.
func freeRole(workload, title, role string, bars ...bar) *experiment {
	e := freeLocks(title, plays(role), false, bars)
	e.workload, e.role = workload, role
	return e
}

// manyReaders is many, of readers of one lock; of zk.Lock each has another one.
func manyReaders(n int, bars ...bar) *experiment {
	readers := func(p *peer) bool { return p.open != nil && plays(reading)(p) }
	e := manyLocks(fmt.Sprintf("%d goroutines on one session read one lock; each has a zk.Lock of its own"+loopback, n), n,
		func(p *peer) bool { return readers(p) || p.name == zkLockName }, readers, bars)
	e.workload, e.role = "I", reading
	return e
}

// lastReader is a writer that waits for many readers to leave.
func lastReader(bars ...bar) *experiment {
	return &experiment{
		workload: "I", title: fmt.Sprintf("a writer behind %d readers"+loopback, manyRead), bars: bars, turns: 4, role: reading,
		takes:   func(p *peer) bool { return p.name == holdfastName },
		figures: []figure{{"last unlock done to writer in", milliseconds}, {"requests of the writer in that time", decimals}, {"the time, in round trips of the last unlock", decimals}},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			readers, err := openAll(ctx, p, b.at, manyRead/perReader)
			if err != nil {
				return nil, err
			}
			writer, err := openAll(ctx, &peer{open: openTaking(func(c *lock.Client, name string) take { return held(c.RWMutex(name).Lock) })}, b.at, 1)
			if err != nil {
				return nil, errors.Join(err, readers.close())
			}
			return &lastReaderTrial{b, append(readers, writer...)}, nil
		},
	}
}

type lastReaderTrial struct {
	*bench
	sessions // the last one is the writer's
}

func (t *lastReaderTrial) close() error { return t.sessions.close() }

func (t *lastReaderTrial) round(ctx context.Context) ([]float64, error) {
	ctx, fail, done := t.guard(ctx)
	defer done()
	name, last := t.newPath(), len(t.sessions)-1
	readers := make([]locker, manyRead)
	if err := together(len(readers), func(i int) error {
		readers[i] = t.sessions[i%last].locker(name)
		return readers[i].lock(ctx)
	}); err != nil {
		return nil, err
	}
	writer, in := t.sessions[last].locker(name), make(chan time.Time, 1)
	finished := make(chan error, 1)
	go func() {
		err := writer.lock(ctx)
		in <- time.Now()
		finished <- err
	}()
	waiting := func() error {
		return await(ctx, "the writer waits", func() (bool, error) {
			stats, err := t.server.Mntr(ctx)
			return stats["zk_watch_count"] == "1", err
		})
	}
	err := waiting()
	if err == nil {
		err = together(len(readers)-1, func(i int) error { return readers[i+1].unlock() })
	}
	if err == nil {
		err = waiting() // for the last one
	}
	if err != nil {
		fail(err)
		return nil, errors.Join(err, <-finished)
	}
	before := t.sessions[last].counts().Requests
	called := time.Now()
	err = readers[0].unlock()
	left := time.Now()
	entered := <-in
	requests := t.sessions[last].counts().Requests - before
	if err := errors.Join(err, <-finished, writer.unlock()); err != nil {
		return nil, err
	}
	took := max(0, entered.Sub(left).Seconds())
	return []float64{took, float64(requests), took / left.Sub(called).Seconds()}, settle(ctx, t.sessions...)
}
