// Faults of the network and of servers.

package sim

import (
	"math"
	"slices"
	"strings"
	"time"
)

// faults prepares the faults of the network and the servers.
func (s *sim) faults() {
	s.Intercept(s.befall)
	if s.kind == elections {
		s.spreadClocks(s.random("clocks"))
	}
	if s.slews && !s.quiet() {
		s.wg.Go(s.slew)
	}
}

// disrupt runs the faults of one source, one after the other, until the history is ending.
func (s *sim) disrupt(who string, steps []step) {
	for _, one := range steps {
		if !s.await(one) {
			return
		}
		s.sayStep(one)
		if err := s.befallen(one); err != nil {
			s.Errorf("seed %d: %s: %v", s.seed, one, err)
		}
		s.count("faults")
	}
}

func (s *sim) sayStep(one step) { s.say("fault: %s %s", one.what, strings.Join(one.args, " ")) }

// befallen lets one fault happen, and returns when it is over.
func (s *sim) befallen(one step) error {
	on := s.target(one.text("on"))
	switch one.what {
	case "cut":
		s.Cut(on)
	case "expire":
		s.ExpireLabel(on)
	case "partition":
		var members []string // none: from all members
		if n := one.number("from"); n > 0 {
			members = []string{s.member(n - 1)}
		}
		return s.partition(one, on, members)
	case "restart":
		return s.restart(one)
	case "lag":
		return s.Lag(s.member(one.number("member")), one.time("by"))
	case "land":
		return s.land(one, on)
	case "losewatches":
		s.say("fault: %s loses %d watches", on, s.LoseWatches(on))
		s.count("watches lost")
	case "refusewatches":
		s.refuseWatches(one, on)
	case "sleep":
		return s.sleepTogether(one.time("by"))
	case "clock":
		return s.displace(one)
	case "lose":
		s.lose(one)
	case "step":
		return s.step(one)
	case "forget":
		s.forget()
	case "spend":
		s.spend(one)
	}
	return nil
}

// target returns the label of a connection: of the present life of a process, or of its last.
func (s *sim) target(on string) string {
	name, _, second := strings.Cut(on, "+")
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.present[name]
	switch {
	case p == nil:
		return on // of a reaper, or none
	case second:
		return p.clients[len(p.clients)-1].label
	}
	return p.clients[0].label
}

func (s *sim) member(i int) string { return s.Servers()[i%s.members] }

func (s *sim) partition(one step, on string, members []string) error {
	if err := s.Partition(on, members...); err != nil {
		return err
	}
	s.rest(one.time("for"))
	s.Heal(on)
	s.say("fault: %s is healed", on)
	return nil
}

// restart stops a server and starts it again, perhaps with another clock. If it leads and there are
// other members, one of them leads meanwhile.
func (s *sim) restart(one step) error {
	member := s.member(one.number("member"))
	if leader := s.Leader(); one.has("leader") && leader != "" {
		member = leader
	}
	if s.members > 1 && s.Leader() == member {
		s.count("elections")
	}
	if err := s.Stop(member); err != nil {
		return err
	}
	s.rest(one.time("for"))
	if one.has("clock") {
		if err := s.setClock(member, one.time("clock")); err != nil {
			return err
		}
	}
	s.say("fault: %s starts", member)
	return s.Start(member)
}

// land ends the session of a client, and lets the next one begin on a server that lags behind what
// the client has seen.
func (s *sim) land(one step, on string) error {
	leader := s.Leader()
	followers := slices.DeleteFunc(s.Servers(), func(member string) bool { return member == leader })
	if len(followers) == 0 {
		return nil
	}
	behind := followers[one.number("member")%len(followers)]
	others := slices.DeleteFunc(s.Servers(), func(member string) bool { return member == behind })
	if err := s.Lag(behind, one.time("by")); err != nil {
		return err
	}
	if err := s.Partition(on, others...); err != nil {
		return err
	}
	s.ExpireLabel(on)
	s.Cut(on)
	s.count("sessions on a server that lags")
	s.rest(one.time("for"))
	s.Heal(on)
	s.say("fault: %s is healed", on)
	return nil
}

// refuseWatches makes the servers refuse all setWatches for a while, and cuts connections
// meanwhile, so that clients send some.
func (s *sim) refuseWatches(one step, on string) {
	set := func(to bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unwatched = to
	}
	set(true)
	s.Cut(on)
	s.rest(one.time("for"))
	set(false)
}

// spend sets the counter of a lock's parent to near its end.
func (s *sim) spend(one step) {
	path := "/locks/" + one.text("lock")
	for _, there := s.node(path); !there; _, there = s.node(path) {
		if !s.rest(s.ttl / 20) {
			return
		}
	}
	if err := s.SetSequence(path, math.MaxInt32-int32(one.number("left"))); err != nil {
		s.say("fault: %v", err)
		return
	}
	s.count("counters spent")
	was, _ := s.node(path)
	for s.rest(s.ttl / 20) {
		if now, there := s.node(path); there && now.Stat.Czxid != was.Stat.Czxid {
			s.count("counters restarted")
			return
		}
	}
}

// ZooKeeper's error codes, as servers send them.
const (
	codeNoAuth         = -102
	codeSessionExpired = -112
	codeSessionMoved   = -118
	codeQuota          = -125 // exceeded
	codeThrottled      = -127
)

// forget makes the servers lose all data once. From then on earlier holds are void, and their
// clients learn of that within a lease.
func (s *sim) forget() {
	s.mu.Lock()
	s.tally.count("data lost", 1)
	s.forgotten = time.Now()
	clear(s.open)
	clear(s.last)
	clear(s.wrote)
	clear(s.theirs)
	clear(s.txns)
	clear(s.reigns)
	for _, a := range s.askings {
		a.held = nil
	}
	s.mu.Unlock()
	s.Forget()
	z := s.connect("others again") // go-zookeeper's old connection does not come back
	defer z.Close()
	for s.until.Err() == nil {
		if _, err := z.Create(ledger, nil, 0, open); err == nil {
			return
		}
		s.rest(100 * time.Millisecond)
	}
}

// void reports whether a hold is of data that the servers have lost; s.mu is held.
func (s *sim) void(h held) bool { return h.void || h.since.Before(s.forgotten) }

// maybeVoid reports whether a hold that begins now can be of lost data: its client may not know of
// the loss until the lease ends.
func (s *sim) maybeVoid() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.forgotten.IsZero() && time.Since(s.forgotten) <= 2*s.ttl+s.slack()
}
