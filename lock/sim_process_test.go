// Simulation: processes.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
)

// pause waits for a random time, or until the history is ending. It returns false if the history is
// ending.
func (s *sim) pause(r *rand.Rand, least, most time.Duration) bool {
	select {
	case <-time.After(between(r, least, most)):
		return s.until.Err() == nil
	case <-s.until.Done():
		return false
	}
}

// process is a simulated process: some clients on one machine.
type process struct {
	*sim
	label   string
	clock   *simClock
	clients []*client
	conn    *zk.Conn // shared connection, or nil
}

// start returns a process with one to three clients, which have their own connections or share one.
func (s *sim) start(r *rand.Rand, label string) *process {
	p := &process{sim: s, label: label, clock: s.clock(label)}
	clients := []int{1, 1, 1, 2, 3}[r.IntN(5)]
	if oneIn(r, 4) && s.kind != forgetting {
		p.conn = s.connect(label)
	}
	for i := range clients {
		owner, on := label, label
		if i > 0 {
			owner = fmt.Sprintf("%s+%d", label, i)
			s.count("clients beside others of their process")
		}
		if p.conn == nil {
			p.clients = append(p.clients, s.client(owner, owner, p.clock))
			continue
		}
		s.count("clients on a shared connection")
		c, err := lock.New(p.conn, s.options(owner, p.clock)...)
		if err != nil {
			panic(err)
		}
		p.clients = append(p.clients, &client{Client: c, owner: owner, label: on, clock: p.clock, closed: make(chan struct{})})
	}
	return p
}

// network calls happen, which causes a fault, with the label of each connection of the process.
func (p *process) network(happen func(label string)) {
	for i, c := range p.clients {
		if i == 0 || p.conn == nil {
			happen(c.label)
		}
	}
}

// process runs one process. Whenever it is killed or closed, it starts again with new clients.
func (s *sim) process(i int) {
	warm, idle := sync.OnceFunc(s.warm.Done), sync.OnceFunc(s.busy.Done)
	for life := 0; s.until.Err() == nil; life++ {
		label := fmt.Sprintf("p%d.%d", i, life)
		r := s.random(label)
		p := s.start(r, label)
		if s.kind == stepped {
			p.warmUp()
		}
		warm()
		ctx, kill := context.WithCancelCause(s.until)
		var workers sync.WaitGroup
		for w := range 1 + r.IntN(3) {
			workers.Go(func() { p.worker(ctx, fmt.Sprintf("%s/%d", label, w)) })
		}
		if slices.Contains(p.names, chair) && oneIn(r, 2) {
			workers.Go(func() { p.observeChair(ctx, label, p.clients[0]) })
		}
		p.live(r)
		switch {
		case s.until.Err() == nil && !s.quiet() && r.IntN(3) > 0:
			p.crash(kill, &workers)
		case s.until.Err() == nil || oneIn(r, 3):
			p.closeInUse(ctx, r, &workers)
			kill(nil)
		default:
			workers.Wait()
			kill(nil)
			idle()
			if s.quiet() {
				s.busy.Wait()
				time.Sleep(3 * time.Second)
				s.nothingLeft() // without a Close
			}
			p.close(false)
		}
	}
	warm()
	idle()
}

// live disturbs the process for a random time.
func (p *process) live(r *rand.Rand) {
	lives := between(r, 5*time.Second, 90*time.Second)
	if p.kind == stepped {
		lives = p.lasts
	}
	end := time.Now().Add(lives)
	for time.Now().Before(end) && p.pause(r, time.Second, 20*time.Second) {
		p.disturb(r)
	}
}

// crash kills the process: from now on its clients receive no message, and its entries stay on the
// servers. Its goroutines cannot be killed, so they end when the clients close, which the servers
// do not see.
func (p *process) crash(kill context.CancelCauseFunc, workers *sync.WaitGroup) {
	p.say("%s is killed", p.label)
	p.network(func(label string) {
		if err := p.Partition(label); err != nil {
			p.Error(err)
		}
	})
	p.count("crashes")
	p.wg.Go(func() {
		kill(errKilled)
		p.close(true)
		workers.Wait()
	})
}

var errKilled = errors.New("killed")

// closeInUse closes the clients of the process while its workers use them.
func (p *process) closeInUse(ctx context.Context, r *rand.Rand, workers *sync.WaitGroup) {
	p.say("%s is closed in the midst of use", p.label)
	p.count("clients closed in the midst of use")
	if oneIn(r, 2) {
		workers.Go(func() { p.burst(ctx, p.random("burst at the close of "+p.label), p.label, p.clients[0]) })
		time.Sleep(between(r, 0, 6*p.slow))
	}
	p.close(false)
	workers.Wait()
}

// warmUp lets each client sample the leader's clock before the clock steps.
func (p *process) warmUp() {
	for _, c := range p.clients {
		hold, err := c.Mutex("warm-" + c.owner).Lock(p.served)
		if err != nil {
			p.violated("%s: %v", c.owner, err)
			continue
		}
		if err := hold.Unlock(); err != nil {
			p.violated("%s: %v", c.owner, err)
		}
	}
}

// disturb applies a random fault of the process itself, or none.
func (p *process) disturb(r *rand.Rand) {
	what := r.IntN(4)
	if p.quiet() {
		return
	}
	if p.kind == strangers {
		what = 2 + what%2 // only faults that delay nothing, see strangers
	}
	switch what {
	case 0: // like kill -STOP or a garbage collection: shorter or longer than its leases
		p.say("%s is stopped", p.label)
		p.network(p.Freeze)
		p.pause(r, 0, 2*p.ttl)
		p.say("%s goes on", p.label)
		p.network(p.Thaw)
	case 1: // the machine sleeps: its monotonic clock stands still
		p.say("%s is suspended", p.label)
		p.clock.suspend()
		p.network(p.Freeze)
		p.pause(r, 0, 2*p.ttl)
		p.say("%s wakes up", p.label)
		p.clock.resume()
		p.network(p.Thaw)
	case 2:
		d := between(r, -time.Hour, time.Hour)
		if !p.counts {
			d = d.Abs() // a step back would hide the suspend, which nothing else shows
		}
		p.say("%s has its wall clock set by %v", p.label, d)
		p.clock.step(d)
	}
}

// close closes the clients of a process, and then their shared connection. If the process was not
// killed, close first checks that no client has closed that connection.
func (p *process) close(killed bool) {
	var wg sync.WaitGroup
	for _, c := range p.clients {
		wg.Go(func() { p.closeClient(c) })
	}
	wg.Wait()
	if p.conn == nil {
		return
	}
	for tries := 60; !killed && tries > 0; tries-- {
		_, _, err := p.conn.Exists("/")
		if err == nil {
			break
		}
		if errors.Is(err, zk.ErrClosing) {
			p.violated("%s: a client closed the connection that it was lent", p.label)
		}
		time.Sleep(time.Second)
	}
	p.conn.Close()
}
