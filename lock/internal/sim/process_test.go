// Processes.

package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
)

// pause waits for a random time, or until the history is ending. It returns false if the history is
// ending.
func (s *sim) pause(r *rand.Rand, least, most time.Duration) bool {
	return s.rest(between(r, least, most))
}

// rest is pause for a time that is not random.
func (s *sim) rest(d time.Duration) bool {
	select {
	case <-time.After(d):
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

// start returns a process with its clients, which have their own connections or share one.
func (s *sim) start(one step) *process {
	label := fmt.Sprintf("%s.%d", one.who, one.number("life"))
	p := &process{sim: s, label: label, clock: s.clock(label)}
	if one.has("shared") {
		p.conn = s.connect(label)
	}
	for i := range max(1, one.number("clients")) {
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

// life is one life of a process: from its start to its end or its next start.
type life struct {
	start   step
	own     []step            // of the process itself
	workers map[string][]step // by worker
}

// lives returns the lives that the steps of one process and its workers have.
func lives(steps []step) (all []life) {
	for _, one := range steps {
		if one.what == "start" {
			all = append(all, life{one, nil, map[string][]step{}})
		}
	}
	for _, one := range steps {
		at := len(all) - 1
		ends := one.what == "kill" || one.what == "close"
		for at >= 0 && (all[at].start.at > one.at || ends && all[at].start.at == one.at) {
			at--
		}
		switch _, worker, works := strings.Cut(one.who, "/"); {
		case at < 0 || one.what == "start":
		case works:
			all[at].workers[worker] = append(all[at].workers[worker], one)
		default:
			all[at].own = append(all[at].own, one)
		}
	}
	return all
}

// process runs the lives of one process.
func (s *sim) process(name string, steps []step) {
	warm, idle := sync.OnceFunc(s.warm.Done), sync.OnceFunc(s.busy.Done)
	defer idle()
	defer warm()
	all := lives(steps)
	for i, now := range all {
		if !s.await(now.start) {
			return
		}
		p := s.start(now.start)
		s.mu.Lock()
		s.present[name] = p
		s.mu.Unlock()
		if s.kind == stepped {
			p.warmUp()
		}
		warm()
		ctx, kill := context.WithCancelCause(s.until)
		var workers sync.WaitGroup
		for _, worker := range slices.Sorted(maps.Keys(now.workers)) {
			workers.Go(func() { p.worker(ctx, p.label+"/"+worker, now.workers[worker]) })
		}
		switch end := p.live(now.own); {
		case end.what == "kill":
			p.crash(kill, &workers)
		case end.what == "close":
			p.closeInUse(ctx, end, &workers)
			kill(nil)
		default:
			last := i == len(all)-1
			if !last {
				s.await(all[i+1].start)
			}
			workers.Wait()
			if last {
				<-s.until.Done()
				idle()
			}
			kill(nil)
			if last && s.quiet() {
				s.busy.Wait()
				time.Sleep(3 * time.Second)
				s.nothingLeft() // without a Close
			}
			p.close(false)
		}
	}
}

// live disturbs the process until its end, and returns that. Without an end, it returns when the
// process has no further steps.
func (p *process) live(steps []step) (end step) {
	for _, one := range steps {
		goesOn := p.await(one)
		switch {
		case one.what == "close", one.what == "kill" && goesOn:
			return one
		case !goesOn:
		default:
			p.disturb(one)
		}
	}
	return step{}
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
func (p *process) closeInUse(ctx context.Context, one step, workers *sync.WaitGroup) {
	p.say("%s is closed in the midst of use", p.label)
	p.count("clients closed in the midst of use")
	if one.has("burst") {
		workers.Go(func() { p.burst(ctx, one, p.label) })
		time.Sleep(between(p.random("close of "+p.label), 0, 6*p.slow))
	}
	p.close(false)
	workers.Wait()
}

// warmUp lets each client sample the leader's clock before the clock steps.
func (p *process) warmUp() {
	for _, c := range p.clients {
		hold, err := c.Mutex("warm-" + c.owner).Lock(newCall(p.served))
		if err != nil {
			p.violated("%s: %v", c.owner, err)
			continue
		}
		if err := hold.Unlock(); err != nil {
			p.violated("%s: %v", c.owner, err)
		}
	}
}

// disturb applies a fault of the process itself.
func (p *process) disturb(one step) {
	switch one.what {
	case "stop":
		p.say("%s is stopped", p.label)
		p.network(p.Freeze)
		p.rest(one.time("for"))
		p.say("%s goes on", p.label)
		p.network(p.Thaw)
	case "suspend":
		p.say("%s is suspended", p.label)
		p.clock.suspend()
		p.network(p.Freeze)
		p.rest(one.time("for"))
		p.say("%s wakes up", p.label)
		p.clock.resume()
		p.network(p.Thaw)
	case "setclock":
		p.say("%s has its wall clock set by %v", p.label, one.time("by"))
		p.clock.step(one.time("by"))
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
