package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// hall is the resource that a lock guards. Each holder adds its weight while it is inside.
type hall struct {
	room    int64
	inside  atomic.Int64
	entered atomic.Int64
}

func (h *hall) enter(t testing.TB, weight int64) (leave func()) {
	if n := h.inside.Add(weight); n > h.room {
		t.Errorf("%d are inside, and there is room for %d", n, h.room)
	}
	h.entered.Add(1)
	return func() { h.inside.Add(-weight) }
}

// busyClients is the number of clients of busy.
const busyClients = 4

// busy runs turns on several clients, which have the options, and ends their sessions repeatedly. It
// returns when 5 seconds have passed and enough returns true.
func (b *bench) busy(enough func() bool, turn func(ctx context.Context, c *lock.Client, r *rand.Rand) error, opts ...lock.Option) {
	b.Helper()
	const workers, span = 4, 5 * time.Second
	var all sync.WaitGroup
	defer all.Wait()
	ending, end := context.WithCancel(b.ctx)
	defer end()
	var taps [busyClients]*zkserver.Tap
	var cs [busyClients]*lock.Client
	for i := range cs {
		cs[i], taps[i] = b.tapped(opts...)
	}
	var expired atomic.Int32
	for i, c := range cs {
		all.Go(func() { b.storm(taps[i], &expired, ending.Done()) })
		for w := range workers {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), uint64(w)))
				for ending.Err() == nil {
					if err := turn(ending, c, r); err != nil && ending.Err() == nil {
						b.Error(err)
					}
				}
			})
		}
	}
	begun := time.Now()
	// wall clock: the faults last for span at least
	b.eventually("enough has happened", func() bool { return b.Failed() || time.Since(begun) > span && enough() })
	b.Logf("%d sessions were ended", expired.Load())
}

// TestLeadersWhileSessionsEnd: while sessions end, candidates of several priorities lead one at a
// time. Observers see tokens in order, with the values of the leaders.
func TestLeadersWhileSessionsEnd(t *testing.T) {
	b := onShared(t)
	var mu sync.Mutex
	led := map[lock.Token]string{}
	type sight struct {
		token lock.Token
		value string
	}
	var seen []sight
	ctx, cancel := context.WithCancel(b.ctx)
	var observers sync.WaitGroup
	for range 2 {
		c, tap := b.tapped()
		observers.Go(func() {
			var last lock.Token
			for leader, err := range c.Election("chair").Observe(ctx) {
				switch {
				case err != nil && !errors.Is(err, context.Canceled):
					t.Error(err)
				case leader.Leads && leader.Token.Compare(last) < 0:
					t.Errorf("token %v was seen after %v", leader.Token, last)
				case leader.Leads:
					last = leader.Token
					mu.Lock()
					seen = append(seen, sight{leader.Token, leader.Value})
					mu.Unlock()
				}
			}
		})
		observers.Go(func() { b.storm(tap, new(atomic.Int32), ctx.Done()) })
	}
	h := hall{room: 1}
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(led) >= 10 && len(seen) >= 5
	}
	b.busy(enough, func(ctx context.Context, c *lock.Client, r *rand.Rand) error {
		value := fmt.Sprint(r.Uint64())
		l, err := c.Election("chair").WithPriority(1+r.IntN(3)).Campaign(ctx, value)
		if err != nil {
			return err
		}
		leave := h.enter(t, 1)
		mu.Lock()
		led[l.Token()] = value
		mu.Unlock()
		time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond) // wall clock: random pauses
		leave()
		return l.Resign()
	})
	cancel()
	observers.Wait()
	for _, s := range seen {
		if value, ok := led[s.token]; ok && value != s.value {
			t.Errorf("the leader with token %v was seen with the value %s, and gave %s", s.token, s.value, value)
		}
	}
	t.Logf("%d led, %d were seen", len(led), len(seen))
}
