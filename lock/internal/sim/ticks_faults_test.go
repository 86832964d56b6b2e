// Replicas of a job, and what disturbs them.

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// replica runs one replica of the job, again and again with new clients.
func (s *tickSim) replica(i int, restart func() <-chan struct{}, wg *sync.WaitGroup) {
	r := random(s.seed, fmt.Sprint("replica", i))
	for life := 0; s.until.Err() == nil; life++ {
		label := fmt.Sprintf("r%d.%d", i, life)
		clock := &simClock{start: time.Now(), rate: 1 + (r.Float64()*600-300)/1e6, counts: true, offset: between(r, -24*time.Hour, 24*time.Hour)}
		client, err := lock.Dial(s.until, s.Servers(), lock.WithDialer(s.Dialer(label)),
			access.UseMachine(access.Machine{Clock: clock.now, Random: bubble.Locked(random(s.seed, "ids of "+label))}).(lock.Option),
			lock.WithTTL(s.ttl), lock.WithGrace(s.grace), lock.WithSessionTimeout(s.sessions),
			lock.WithOwner(label))
		if err != nil {
			if s.until.Err() == nil {
				s.violated("dial %s: %v", label, err)
			}
			return
		}
		var over sync.Mutex
		isKilled := false
		killed := func() bool { over.Lock(); defer over.Unlock(); return isKilled }
		ctx, cancel := context.WithCancel(s.until)
		done := make(chan struct{})
		job := s.job(client, killed)
		go func() {
			defer close(done)
			err := job.Run(ctx, s.work(label, killed, random(s.seed, "work of "+label)))
			if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				s.violated("%s: Run: %v", label, err)
			}
		}()
		s.setLive(label, true)
		s.survive(r, label, clock, restart())
		s.awaitStorm()
		s.setLive(label, false)
		if s.until.Err() == nil && r.IntN(3) > 0 {
			s.count("kills")
			s.died()
			over.Lock()
			isKilled = true
			over.Unlock()
			iferr.Error(s, s.Partition(label))
		}
		cancel()
		wg.Go(func() {
			<-done
			_ = client.Close() // the client of a killed replica cannot reach the servers
		})
		if oneIn(r, 2) {
			s.pause(r, 0, 10*time.Second)
		}
	}
}

// survive disturbs a running replica for a random time, or until restart is closed.
func (s *tickSim) survive(r *rand.Rand, label string, clock *simClock, restart <-chan struct{}) {
	end := time.After(between(r, s.ttl, 20*s.ttl))
	for {
		select {
		case <-restart:
			return
		case <-end:
			return
		case <-s.until.Done():
			return
		case <-time.After(between(r, 0, 6*s.ttl)):
		}
		if !s.awaitStorm() {
			return
		}
		s.setLive(label, false)
		switch what := r.IntN(6); what {
		case 0:
			s.count("connections cut")
			s.Cut(label)
		case 1:
			s.count("sessions expired")
			s.ExpireLabel(label)
		case 2:
			s.count("partitions")
			s.died()
			iferr.Error(s, s.Partition(label))
			s.pause(r, 0, 2*s.ttl)
			s.Heal(label)
		case 3:
			s.count("stops")
			s.died()
			s.Freeze(label)
			s.pause(r, 0, 2*s.ttl)
			s.Thaw(label)
		case 4:
			s.delayRecord(r, label)
		default:
			s.count("steps of wall clocks")
			clock.step(between(r, -12*time.Hour, 12*time.Hour))
		}
		s.setLive(label, true)
	}
}

// disturb disturbs the servers, and restarts all replicas, until the end.
func (s *tickSim) disturb(r *rand.Rand, restartAll func()) {
	for s.pause(r, 0, 12*s.ttl) && s.awaitStorm() {
		switch r.IntN(4) {
		case 0:
			s.count("restarts of all replicas")
			restartAll()
		case 1:
			s.count("elections")
			s.serve(false)
			if leader := s.StopLeader(); leader != "" {
				s.pause(r, 0, s.ttl)
				if s.displaced {
					iferr.Error(s, s.SetClock(leader, between(r, -time.Hour, time.Hour)))
				}
				iferr.Error(s, s.Start(leader))
			}
			s.serve(true)
		case 2:
			s.count("times without a quorum")
			s.serve(false)
			for _, member := range s.Servers() {
				iferr.Error(s, s.Stop(member))
			}
			s.pause(r, 0, 3*s.ttl)
			for _, member := range s.Servers() {
				iferr.Error(s, s.Start(member))
			}
			s.serve(true)
		default:
			s.count("times of lost requests")
			s.serve(false)
			salt := r.Uint64()
			s.lose(func(q locktest.Request) locktest.Fault {
				switch rand.New(rand.NewPCG(salt^hash(q.Label), uint64(q.Number))).IntN(60) {
				case 0:
					return locktest.Fault{Drop: locktest.BeforeApply}
				case 1:
					return locktest.Fault{Drop: locktest.AfterApply}
				}
				return locktest.Fault{}
			})
			s.pause(r, 0, 3*s.ttl)
			s.lose(nil)
			s.serve(true)
		}
	}
}
