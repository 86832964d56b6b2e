package lock_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// What follows is how often a lock changes hands where nothing takes time but the network and
// the server's disk: what stands one after the other, and what is tried in vain. Of what the
// processors do it says nothing; that is the benchmark's.

const (
	oneWay = 150 * time.Microsecond // for a packet
	toDisk = time.Millisecond       // for a write, and all that came while the one before was written
)

// TestHandsOnAsOftenAsZkLock is about clients of one lock that all want it again and again.
func TestHandsOnAsOftenAsZkLock(t *testing.T) {
	for _, tt := range []struct {
		clients int
		hold    time.Duration
		least   float64 // of zk.Lock's handoffs
	}{
		{2, 0, 1.04},
		{4, 0, 0.99},
		{16, 0, 0.99},
		{2, 2 * time.Millisecond, 1.07},
		{16, 2 * time.Millisecond, 1.07},
	} {
		theirs := pace(t, tt.clients, tt.hold, func(w *world, label string) (take, leave func() error) {
			l := zk.NewLock(w.raw(label), "/zk", zk.WorldACL(zk.PermAll))
			return l.Lock, l.Unlock
		})
		ours := pace(t, tt.clients, tt.hold, func(w *world, label string) (take, leave func() error) {
			m, h := w.dial(label).Mutex("x"), (*lock.Hold)(nil)
			take = func() (err error) {
				h, err = m.Lock(w.ctx)
				return err
			}
			return take, func() error { return h.Unlock() }
		})
		ratio := float64(ours) / float64(theirs)
		t.Logf("%d clients that hold for %v: %d handoffs, zk.Lock's %d: %.2f", tt.clients, tt.hold, ours, theirs, ratio)
		if ratio < tt.least {
			t.Errorf("%d clients that hold for %v hand on %.2f times as often as with zk.Lock, want %.2f", tt.clients, tt.hold, ratio, tt.least)
		}
	}
}

// pace is how many handoffs there are in a second, when all have got used to each other.
func pace(t *testing.T, clients int, hold time.Duration, open func(w *world, label string) (take, leave func() error)) (handoffs int) {
	simulate(t, locktest.Options{}, func(w *world) {
		d := &slowDisk{random: rand.New(rand.NewPCG(1, 1))}
		w.SetLatency(func(string, string) time.Duration { return d.about(oneWay) })
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch r.Op {
			case "create", "multi", "delete", "setData":
				return locktest.Fault{Delay: d.write(time.Now())}
			}
			return locktest.Fault{}
		})
		var takes, leaves []func() error
		for i := range clients {
			take, leave := open(w, fmt.Sprint("client", i))
			takes, leaves = append(takes, take), append(leaves, leave)
		}
		begun := time.Now().Add(time.Second)
		end := begun.Add(time.Second)
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				for now := time.Now(); now.Before(end); {
					if err := takes[i](); err != nil {
						t.Error(err)
						return
					}
					if now = time.Now(); now.After(begun) && now.Before(end) {
						handoffs++ // nobody else is inside
					}
					time.Sleep(hold)
					if err := leaves[i](); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	})
	return handoffs
}

// slowDisk is that of a server which takes its time for writes: what comes while one is
// written waits, and is then written together.
type slowDisk struct {
	mu      sync.Mutex
	random  *rand.Rand
	written time.Time // what is being written is, from then on
	waiting time.Time // what waits is; before that: nothing does
}

// write is how long it takes until a write that comes now was written.
func (d *slowDisk) write(now time.Time) time.Duration {
	takes := d.about(toDisk)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !now.Before(d.written) {
		d.written = d.waiting
	}
	switch {
	case !now.Before(d.written): // idle
		d.written = now.Add(takes)
		d.waiting = d.written
	case !d.waiting.After(d.written): // the first that waits
		d.waiting = d.written.Add(takes)
	}
	return d.waiting.Sub(now)
}

// about varies by a tenth.
func (d *slowDisk) about(t time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return t - t/10 + time.Duration(d.random.Int64N(int64(t/5)))
}
