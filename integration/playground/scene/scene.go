// Package scene is the model of the playground: workers that take turns on a lock, some with
// zk.Lock and some with Holdfast, on one ZooKeeper ensemble in memory, and faults. A fault of
// holders affects the holders of both locks alike.
//
// Under the lock a worker increments a counter, step by step: it writes one more than the value
// that it last read. If two workers are inside at once, each overwrites the other's additions.
//
// A worker is inside from the time when it gets the lock until it unlocks, its process ends, or it
// is paused. A paused worker does nothing. When it continues, it first asks its hold whether the
// lock is still held. A hold of zk.Lock cannot be asked. A hold of Holdfast has ended before
// another worker can enter.
package scene

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

const (
	workers      = 3 // number of workers of each side
	workSteps    = 60
	step         = 100 * time.Millisecond
	rest         = 500 * time.Millisecond // time between two turns
	restart      = 3 * time.Second        // time until a process that has ended starts again
	electionTime = 300 * time.Millisecond
	logLength    = 80
)

// Scene is an ensemble with workers. Its methods are safe for concurrent use.
type Scene struct {
	ensemble *locktest.Ensemble
	begun    time.Time
	ctx      context.Context
	cancel   context.CancelFunc
	tasks    sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	sides    [2]*side
	clocks   []time.Duration // how far each member's clock is ahead of true time
	electing bool
	entries  int // number of times that workers have entered a lock
	log      []Line
	logged   int
	tour     Tour
	touring  bool
	linger   bool // workers keep their lock when their work is done
}

// side is one kind of lock with its workers.
type side struct {
	name    string
	parent  string // path of the lock's node
	dial    func(context.Context, *locktest.Ensemble, string) (*process, error)
	workers []*worker

	counter int // number that the workers increment under the lock
	added   int // number of increments

	turns    int
	overlaps int       // number of times that two workers were inside at once
	since    time.Time // start of the present overlap; zero: none
	overlap  time.Duration
}

// latency is not 0 because of a data race in go-zookeeper v1.0.4: after a reconnect its sendSetWatches
// reads lastZxid while its recvLoop may write it.
func latency(string, string) time.Duration { return time.Microsecond }

// Start starts a scene. Close ends it.
func Start() (*Scene, error) {
	ensemble, err := locktest.New(locktest.Options{Members: 3, ElectionTime: electionTime, Latency: latency})
	if err != nil {
		return nil, err
	}
	s := &Scene{
		ensemble: ensemble, begun: time.Now(), changed: make(chan struct{}), clocks: make([]time.Duration, 3),
		sides: [2]*side{
			{name: "zk.Lock", parent: zkParent, dial: dialZK},
			{name: "Holdfast", parent: hfParent, dial: dialHoldfast},
		},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, side := range s.sides {
		for i := range workers {
			w := &worker{s: s, side: side, name: fmt.Sprintf("worker %c", 'A'+i), phase: starts}
			side.workers = append(side.workers, w)
		}
	}
	for _, side := range s.sides {
		for _, w := range side.workers {
			s.tasks.Go(w.run)
		}
	}
	return s, nil
}

// Close ends the workers and the ensemble, and waits until they have ended.
func (s *Scene) Close() {
	s.cancel()
	s.ensemble.Close()
	s.tasks.Wait()
}

// update changes the scene, counts overlaps, and wakes the goroutines in await.
func (s *Scene) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	for _, side := range s.sides {
		s.watch(side)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until a condition is true. It checks after each change.
func (s *Scene) await(ctx context.Context, condition func() bool) error {
	for {
		s.mu.Lock()
		met, changed := condition(), s.changed
		s.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch records when two workers of a side begin and cease to be inside at once.
func (s *Scene) watch(side *side) {
	var inside []string
	for _, w := range side.workers {
		if w.inside && w.hold.sure() {
			inside = append(inside, w.name)
		}
	}
	switch now := time.Now(); {
	case len(inside) > 1 && side.since.IsZero():
		side.since = now
		side.overlaps++
		s.say(side, Bad, "%s and %s are inside at once", inside[0], inside[1])
	case len(inside) < 2 && !side.since.IsZero():
		side.overlap += now.Sub(side.since)
		side.since = time.Time{}
	}
}

// say adds a line to the log. A nil side means both sides.
func (s *Scene) say(side *side, level Level, format string, args ...any) {
	line := Line{Time: time.Since(s.begun).Seconds(), Level: level, Text: fmt.Sprintf(format, args...)}
	if side != nil {
		line.Side = side.name
	}
	s.logged++
	line.Number = s.logged
	s.log = append(s.log, line)
	if len(s.log) > logLength {
		s.log = s.log[len(s.log)-logLength:]
	}
}
