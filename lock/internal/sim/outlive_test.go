// The death of a holder after the last fault.

package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// outlive cuts a holder and some of its waiters off after the last fault. It checks that the waiter
// behind them enters as soon as the leases and the grace have ended. Meanwhile the waiter's client
// abandons many calls, which must not look like an outage.
func (s *sim) outlive() {
	r := s.random("outlive")
	ttl := between(r, 500*time.Millisecond, time.Second).Truncate(time.Millisecond)
	ctx, cancel := context.WithCancel(s.served)
	defer cancel()
	var all sync.WaitGroup

	var victims []*client
	for i := range 1 + r.IntN(3) {
		label := fmt.Sprintf("victim%d", i)
		victim := s.client(label, label, s.clock(label))
		victims = append(victims, victim)
		all.Go(func() {
			if _, err := victim.Mutex(bereft, lock.WithTTL(ttl)).Lock(newCall(ctx)); i == 0 && err != nil {
				s.violated("%s: %v", label, err)
			}
		})
		time.Sleep(s.slack() / 4)
	}
	heir := s.client("heir", "heir", s.clock("heir"))
	got := make(chan *lock.Hold, 1)
	all.Go(func() {
		hold, err := heir.Mutex(bereft).Lock(newCall(ctx))
		if err != nil {
			s.say("heir: %v", err)
			return
		}
		got <- hold
	})
	time.Sleep(s.slack() / 4)
	s.say("all who have %s before the heir die", bereft)
	for _, victim := range victims {
		if err := s.Partition(victim.label); err != nil {
			s.Error(err)
		}
		s.wg.Go(func() { s.closeClient(victim) })
	}
	died := time.Now()
	time.Sleep(ttl + s.grace - 100*time.Millisecond)
	for i := range 20 {
		all.Go(func() { s.giveUpAllTheTime(ctx, heir, i) })
	}
	select {
	case hold := <-got:
		s.count("dead holders outlived")
		if err := hold.Unlock(); err != nil {
			s.violated("heir: %v", err)
		}
	case <-time.After(time.Until(died.Add(ttl + ttl/3 + s.grace + s.slack()))):
		s.violated("a dead holder, of a TTL of %v, blocks the next one for over %v", ttl, time.Since(died))
	}
	cancel()
	all.Wait()
	s.closeClient(heir)
}

// giveUpAllTheTime makes calls whose deadlines end while a request is in flight, until ctx ends.
func (s *sim) giveUpAllTheTime(ctx context.Context, c *client, i int) {
	label := fmt.Sprintf("%s/%d", c.owner, i)
	r := s.random(label)
	name := []string{bereft, fmt.Sprintf("burst-%d", i)}[r.IntN(2)]
	for ctx.Err() == nil {
		hold, err := s.lockWithin(ctx, label, c.Mutex(name).Lock, between(r, 0, 4*s.slow+10*time.Microsecond))
		if err == nil {
			err = hold.Unlock()
		}
		if err != nil && !isOne(err, context.DeadlineExceeded, context.Canceled) {
			s.violated("%s: %s: %v", label, name, err)
		}
		time.Sleep(between(r, time.Millisecond, 10*time.Millisecond))
	}
}
