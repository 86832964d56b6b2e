package scene

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// The phases of a worker.
const (
	starts  = "starts"
	waits   = "waits"
	works   = "works"
	unlocks = "unlocks"
	rests   = "rests"
	dead    = "dead"
)

// worker takes turns on the lock: it waits, works and unlocks. life counts the worker's processes.
// label names the present process in the ensemble: it has the worker's name and life.
type worker struct {
	s    *Scene
	side *side
	name string

	// The scene's mutex guards the following fields.
	life    int
	label   string
	kill    context.CancelFunc
	p       *process
	phase   string
	hold    *hold // nil: it holds no lock
	inside  bool
	entered int // value of Scene.entries when it entered last
	done    int // number of completed steps of its work
	read    int // value of the counter when it was read last
	paused  bool
	cut     bool
}

// run runs the worker's processes, one after the other, until the scene ends.
func (w *worker) run() {
	for w.s.ctx.Err() == nil {
		ctx, kill := context.WithCancel(w.s.ctx)
		w.s.update(func() {
			w.life++
			w.label = fmt.Sprintf("%s, %s, life %d", w.side.name, w.name, w.life)
			w.kill = kill
			w.phase = starts
			w.paused = false
		})
		w.live(ctx)
		kill()
		// A cut affects the worker's machine, so the next process starts only after the cut.
		_ = w.s.await(w.s.ctx, func() bool { return !w.cut })
		_ = wait.Sleep(w.s.ctx, restart)
	}
}

// live is one process of the worker. It ends when it is killed, or at the first failed call, like a
// program that a supervisor restarts.
func (w *worker) live(ctx context.Context) {
	p, err := w.side.dial(ctx, w.s.ensemble, w.label)
	if err != nil {
		w.update(ctx, func() { w.die(err) })
		return
	}
	defer w.s.tasks.Go(p.end) // in the background, because without a server it takes long
	w.update(ctx, func() { w.p = p })
	for err == nil {
		if err = w.turn(ctx, p); err == nil {
			err = wait.Sleep(ctx, rest)
		}
	}
	w.update(ctx, func() { w.die(err) })
}

// update changes the scene, unless the process was killed. It reports whether it changed the scene.
func (w *worker) update(ctx context.Context, change func()) (alive bool) {
	w.s.update(func() {
		if alive = ctx.Err() == nil; alive {
			change()
		}
	})
	return alive
}

func (w *worker) die(err error) {
	w.phase, w.hold, w.inside, w.p = dead, nil, false, nil
	w.s.say(w.side, Warn, "%s gives up and starts again: %v", w.name, cause(err))
}

// cause returns the error without the addresses of its connection.
func cause(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	return err
}

// turn takes the lock, works, and unlocks unless the hold has ended.
func (w *worker) turn(ctx context.Context, p *process) error {
	w.update(ctx, func() { w.phase = waits })
	h, err := p.lock(ctx)
	if err != nil {
		return err
	}
	enter := func() {
		w.s.entries++
		w.hold, w.inside, w.entered, w.done, w.read, w.phase = h, true, w.s.entries, 0, w.side.counter, works
		w.s.say(w.side, Good, "%s enters", w.name)
	}
	if !w.update(ctx, enter) {
		return ctx.Err()
	}
	lost, err := w.work(ctx, h)
	if err != nil {
		return err
	}
	w.update(ctx, func() {
		w.inside = false
		w.phase = unlocks
		if lost != nil {
			w.s.say(w.side, Warn, "%s learns that its hold is lost, and stops", w.name)
		}
	})
	if lost == nil {
		err = h.unlock()
	}
	w.update(ctx, func() {
		w.hold, w.phase = nil, rests
		w.side.turns++
		if err != nil {
			w.s.say(w.side, Warn, "%s unlocks: %v", w.name, cause(err))
		}
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil // the node was deleted already, so it blocks no other worker
	}
	return err
}

// add writes one more than the value that the worker last read, and reads the new value.
func (w *worker) add() {
	w.side.counter = w.read + 1
	w.side.added++
	w.read = w.side.counter
}

// work adds once a step under the lock, until all is done or the hold has ended. lost is the reason
// why the hold has ended, or nil.
func (w *worker) work(ctx context.Context, h *hold) (lost, err error) {
	for finished := false; !finished; {
		select {
		case <-time.After(step):
		case <-h.lost():
		case <-ctx.Done():
		}
		if err := w.s.await(ctx, func() bool { return !w.paused }); err != nil {
			return nil, err
		}
		w.update(ctx, func() {
			if w.paused {
				return
			}
			if lost = h.err(); lost != nil || !h.sure() {
				finished = lost != nil
				w.inside = false
				return
			}
			w.inside = true
			w.add()
			w.done = min(w.done+1, workSteps)
			finished = w.done == workSteps && !w.s.linger
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return lost, nil
}
