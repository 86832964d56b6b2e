// Faults of the network and of servers.

package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/locktest"
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

// losses are faults of requests for a while. A fault depends on a request's label and number, not
// on the order of requests.
type losses struct {
	*sim
	salt   uint64
	odds   int  // percentage of lost requests
	late   bool // delay some instead
	after  bool // also lose requests that ask for a lost request's outcome
	refuse bool // refuse some requests that ask for a lost request's outcome
	told   bool // answer some transactions with an operation's error: session expired or moved
}

// lose makes requests and replies lost, and perhaps late, for a while.
func (s *sim) lose(one step) {
	set := func(l *losses) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.loss = l
	}
	set(&losses{
		sim: s, salt: s.random(one.id()).Uint64(), odds: one.number("odds"),
		late: one.has("late"), after: one.has("after"), refuse: one.has("refuse"), told: one.has("told"),
	})
	s.rest(one.time("for"))
	set(nil)
	s.say("fault: no more requests are lost")
}

// fault returns the fault of a request. Requests of other programs have none.
func (l *losses) fault(q locktest.Request) locktest.Fault {
	if strings.HasPrefix(q.Label, "other") {
		return locktest.Fault{}
	}
	if f := l.draw(q.Label, q.Number); f != (locktest.Fault{}) {
		return f
	}
	if l.told && q.Op == "multi" {
		if f := l.tell(q); f != (locktest.Fault{}) {
			return f
		}
	}
	const soon = 4 // number of requests after a lost one
	for before := q.Number - 1; (l.after || l.refuse) && before >= q.Number-soon; before-- {
		if l.draw(q.Label, before).Drop == locktest.AfterApply {
			return l.followUp(q)
		}
	}
	return locktest.Fault{}
}

// draw returns the random fault of the client's request with the number, whatever the order of
// requests.
func (l *losses) draw(label string, number int) locktest.Fault {
	r := rand.New(rand.NewPCG(l.salt, hash(fmt.Sprint(label, number))))
	if r.IntN(100) >= l.odds {
		return locktest.Fault{}
	}
	switch kind := r.IntN(6); {
	case kind < 2, kind < 3 && !l.late:
		return locktest.Fault{Drop: locktest.BeforeApply}
	case kind < 4, !l.late:
		return locktest.Fault{Drop: locktest.AfterApply}
	case kind < 5:
		return locktest.Fault{Delay: between(r, 0, l.ttl)}
	}
	return locktest.Fault{DelayReply: between(r, 0, l.ttl)}
}

// tell returns the random fault of a transaction: the result of an operation says that the session
// has expired or moved, as if that happened while the servers prepared the transaction. None of its
// operations is applied. After "expired" the session ends soon.
func (l *losses) tell(q locktest.Request) locktest.Fault {
	r := rand.New(rand.NewPCG(l.salt, hash(fmt.Sprint("told", q.Label, q.Number))))
	if r.IntN(100) >= l.odds {
		return locktest.Fault{}
	}
	l.count("transactions told of their session's end")
	f := locktest.Fault{Code: []int32{codeSessionExpired, codeSessionMoved}[r.IntN(2)], Op: 1}
	if f.Code == codeSessionExpired {
		time.AfterFunc(between(r, 0, 500*time.Millisecond), func() { l.ExpireLabel(q.Label) })
	}
	return f
}

// followUp returns the random fault of a request that is sent soon after another request lost its
// reply. The request may be the search for the lost outcome.
func (l *losses) followUp(q locktest.Request) locktest.Fault {
	r := rand.New(rand.NewPCG(l.salt, hash(fmt.Sprint("after", q.Label, q.Number))))
	switch looksUp := slices.Contains([]string{"getData", "getChildren2", "getChildren", "sync", "exists"}, q.Op); {
	case l.after && looksUp && oneIn(r, 2):
		l.count("replies to look-ups lost")
		return locktest.Fault{Drop: locktest.AfterApply}
	case l.refuse && (looksUp || q.Op == "multi") && oneIn(r, 2):
		return l.refuses(r, q.Label)
	}
	return locktest.Fault{}
}

// refuses returns a random refusal, and records that the client was refused.
func (s *sim) refuses(r *rand.Rand, label string) locktest.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.count("requests refused", 1)
	s.refused[label] = true
	return locktest.Fault{Code: []int32{codeThrottled, codeQuota, codeNoAuth}[r.IntN(3)]}
}

// doubt is the fault of a client that writes its own entry: the reply is lost, and the read of the
// outcome is refused.
type doubt struct {
	entry   string
	written bool
	over    chan struct{} // closed when the client got a refusal
}

// befall intercepts all requests: it returns the fault of a doubt, of a refused setWatches, or of
// the current losses.
func (s *sim) befall(q locktest.Request) locktest.Fault {
	s.mu.Lock()
	loss, d := s.loss, s.doubts[q.Label]
	switch {
	case d == nil || !slices.Contains(q.Paths, d.entry):
	case (q.Op == "multi" || q.Op == "setData") && !d.written:
		d.written = true
		s.mu.Unlock()
		return locktest.Fault{Drop: locktest.AfterApply}
	case q.Op == "getData" && d.written:
		delete(s.doubts, q.Label)
		close(d.over)
		s.mu.Unlock()
		return s.refuses(s.random(d.entry), q.Label)
	}
	unwatched := s.unwatched && q.Op == "setWatches"
	s.mu.Unlock()
	switch {
	case unwatched:
		s.count("setWatches refused")
		return locktest.Fault{Code: codeThrottled}
	case loss == nil:
		return locktest.Fault{}
	}
	f := loss.fault(q)
	if f.Drop == locktest.AfterApply && q.Op == "multi" && severalLocks(q.Paths) {
		s.noteDoubt(q)
	}
	return f
}

// noteDoubt counts a lost reply to a transaction of several locks.
func (s *sim) noteDoubt(q locktest.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.count("transactions of several locks in doubt", 1)
	if wanted := s.all[q.Label]; len(wanted) > 0 && !slices.ContainsFunc(wanted, func(name string) bool {
		return !slices.ContainsFunc(q.Paths, func(path string) bool { return strings.HasPrefix(path, "/locks/"+name+"/") })
	}) {
		s.tally.count("taken together in doubt", 1)
	}
}

// leaveInDoubt puts the owner of a hold in doubt about the next write of its entry, and then lets
// none of its requests through for a while.
func (s *sim) leaveInDoubt(r *rand.Rand, h held) {
	label, d := h.client.label, &doubt{entry: pathOf(h.Hold), over: make(chan struct{})}
	cut := between(r, s.ttl/2, 3*s.ttl)
	s.say("fault: the next write of %s is left in doubt", d.entry)
	s.mu.Lock()
	s.doubts[label] = d
	s.mu.Unlock()
	s.wg.Go(func() {
		select {
		case <-d.over:
		case <-h.Context().Done():
			return
		}
		time.Sleep(2*s.slow + 10*time.Microsecond) // until the refusal has arrived
		s.count("writes left in doubt")
		if err := s.Partition(label); err != nil {
			s.Error(err)
		}
		s.say("fault: %s is cut off in doubt", label)
		select {
		case <-time.After(cut):
		case <-s.until.Done():
		}
		s.Heal(label)
	})
}

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
