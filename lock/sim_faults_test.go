// Simulation: faults of the network and of servers.

package lock_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// fault is a fault of the network or the servers. The label is that of a present or former
// connection.
type fault func(s *sim, r *rand.Rand, label string) error

// faults starts the faults of the network and the servers, and returns. They occur until the
// history is ending.
func (s *sim) faults() {
	r := s.random("faults")
	s.Intercept(s.befall)
	var all []fault
	switch s.kind {
	case calm:
		return
	case stepped:
		s.wg.Go(func() { s.step(r) })
		return
	case strangers:
		all = []fault{cut, cut, expire, expire, displace, loseWhatIsSent, loseWhatIsSent, loseWatches, refuseWatches}
	case forgetting:
		all = []fault{cut, expire, partition, displace, lose, loseWatches}
		s.wg.Go(func() { s.forget(s.random("forget")) })
	case elections:
		s.spreadClocks(r)
		all = []fault{cut, expire, partition, displace, replaceLeader, replaceLeader, stop, lag, land, lose, lose, loseWatches, refuseWatches, sleepTogether}
	default:
		all = []fault{cut, cut, expire, expire, partition, displace, stop, lag, land, lose, lose, loseWatches, refuseWatches, sleepTogether}
	}
	if s.slews {
		s.wg.Go(s.slew)
	}
	s.wg.Go(func() {
		for s.pause(r, 50*time.Millisecond, 4*time.Second) {
			if err := all[r.IntN(len(all))](s, r, s.anybody(r)); err != nil {
				s.Errorf("seed %d: %v", s.seed, err)
			}
			s.count("faults")
		}
	})
}

// anybody returns the label of a random connection, present or former, of Holdfast's clients.
func (s *sim) anybody(r *rand.Rand) string {
	var labels []string
	for label := range s.Requests() {
		if !strings.HasPrefix(label, "other") {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	if len(labels) == 0 {
		return "none"
	}
	return labels[r.IntN(len(labels))]
}

func (s *sim) anyServer(r *rand.Rand) string { return s.Servers()[r.IntN(s.members)] }

func cut(s *sim, _ *rand.Rand, label string) error {
	s.say("fault: %s is cut", label)
	s.Cut(label)
	return nil
}

func expire(s *sim, _ *rand.Rand, label string) error {
	s.say("fault: the sessions of %s expire", label)
	s.ExpireLabel(label)
	return nil
}

func partition(s *sim, r *rand.Rand, label string) error {
	var members []string // none: from all members
	if oneIn(r, 2) {
		members = []string{s.anyServer(r)}
	}
	s.say("fault: %s is partitioned from %q", label, members)
	if err := s.Partition(label, members...); err != nil {
		return err
	}
	s.pause(r, 0, 2*s.ttl)
	s.Heal(label)
	s.say("fault: %s is healed", label)
	return nil
}

func stop(s *sim, r *rand.Rand, _ string) error { return s.restart(r, s.anyServer(r)) }

// replaceLeader restarts the leader. If there are other members, one of them leads meanwhile.
func replaceLeader(s *sim, r *rand.Rand, _ string) error {
	leader := s.Leader()
	if leader == "" {
		return nil
	}
	return s.restart(r, leader)
}

// restart stops a server and starts it again. If leaders' clocks differ in this history, the server
// gets another clock.
func (s *sim) restart(r *rand.Rand, member string) error {
	s.say("fault: %s stops", member)
	if s.members > 1 && s.Leader() == member {
		s.count("elections")
	}
	if err := s.Stop(member); err != nil {
		return err
	}
	s.pause(r, 0, s.ttl)
	if s.kind == elections {
		if err := s.setClock(member, between(r, -time.Hour, time.Hour)); err != nil {
			return err
		}
	}
	s.say("fault: %s starts", member)
	return s.Start(member)
}

// lag makes a server serve old data for a while.
func lag(s *sim, r *rand.Rand, _ string) error {
	member, d := s.anyServer(r), between(r, 0, 2*time.Second)
	s.say("fault: %s lags by %v", member, d)
	return s.Lag(member, d)
}

// land ends the session of a client, and lets the next one begin on a server that lags behind what
// the client has seen.
func land(s *sim, r *rand.Rand, label string) error {
	leader := s.Leader()
	followers := slices.DeleteFunc(s.Servers(), func(member string) bool { return member == leader })
	if len(followers) == 0 {
		return nil
	}
	behind := followers[r.IntN(len(followers))]
	s.say("fault: %s lags, and %s lands there", behind, label)
	others := slices.DeleteFunc(s.Servers(), func(member string) bool { return member == behind })
	if err := s.Lag(behind, between(r, 500*time.Millisecond, 3*time.Second)); err != nil {
		return err
	}
	if err := s.Partition(label, others...); err != nil {
		return err
	}
	s.ExpireLabel(label)
	s.Cut(label)
	s.count("sessions on a server that lags")
	s.pause(r, 0, 4*time.Second)
	s.Heal(label)
	s.say("fault: %s is healed", label)
	return nil
}

// loseWatches makes the servers forget the watches of a client, without notice.
func loseWatches(s *sim, _ *rand.Rand, label string) error {
	s.say("fault: %s loses %d watches", label, s.LoseWatches(label))
	s.count("watches lost")
	return nil
}

// refuseWatches makes the servers refuse all setWatches for a while, and cuts connections
// meanwhile, so that clients send some.
func refuseWatches(s *sim, r *rand.Rand, label string) error {
	s.say("fault: setWatches is refused, and %s is cut", label)
	s.mu.Lock()
	s.unwatched = true
	s.mu.Unlock()
	s.Cut(label)
	s.pause(r, 0, 5*time.Second)
	s.mu.Lock()
	s.unwatched = false
	s.mu.Unlock()
	return nil
}

// sleepTogether makes all machines except the servers sleep, with their timers stopped. When they
// wake, all clocks have advanced, but no timer has.
func sleepTogether(s *sim, r *rand.Rand, _ string) error {
	d := between(r, 0, 2*s.ttl)
	s.mu.Lock()
	clocks := slices.Clone(s.clocks)
	s.slept += d
	s.sayLocked("fault: all slept for %v", d)
	s.tally.count("sleeps of all", 1)
	s.mu.Unlock()
	s.auditor.Sleep(d)
	for _, c := range clocks {
		c.skip(d)
	}
	for _, member := range s.Servers() {
		s.mu.Lock()
		ahead := s.ahead[member] + s.slept
		s.mu.Unlock()
		if err := s.SetClock(member, ahead); err != nil {
			return err
		}
	}
	return nil
}

// setClock sets how far a member's clock is ahead, apart from the sleeps of all machines.
func (s *sim) setClock(member string, d time.Duration) error {
	s.mu.Lock()
	s.ahead[member] = d
	s.sayLocked("fault: the clock of %s is %v off", member, d)
	s.tally.count("clocks set", 1)
	d += s.slept
	s.mu.Unlock()
	return s.SetClock(member, d)
}

// spreadClocks sets the members' clocks apart, by up to an hour each, before the first client
// connects.
func (s *sim) spreadClocks(r *rand.Rand) {
	for _, member := range s.Servers() {
		if err := s.setClock(member, between(r, -time.Hour, time.Hour)); err != nil {
			s.Error(err)
		}
	}
}

// displace sets a server's clock at random, by at most two fifths of the grace from the true time.
// In histories with elections it is up to an hour, and the leader's clock is left as it is. If the
// clocks slew, displace does nothing.
func displace(s *sim, r *rand.Rand, _ string) error {
	member := s.anyServer(r)
	if s.slews || s.kind == elections && s.Leader() == member {
		return nil
	}
	most := s.grace * 2 / 5
	if s.kind == elections {
		most = time.Hour
	}
	return s.setClock(member, between(r, -most, most))
}

// slew makes the servers' clocks run at a wrong rate, as during a correction. The error between a
// record's last write and its expiry stays below half the grace.
func (s *sim) slew() {
	r := s.random("slew")
	slope := float64(s.grace*2/5) / float64(5*s.ttl+s.grace)
	if oneIn(r, 2) {
		slope = -slope
	}
	for last := time.Now(); s.pause(r, 100*time.Millisecond, time.Second); last = time.Now() {
		d := time.Duration(slope * float64(time.Since(last)))
		for _, member := range s.Servers() {
			s.mu.Lock()
			s.ahead[member] += d
			ahead := s.ahead[member] + s.slept
			s.mu.Unlock()
			if err := s.SetClock(member, ahead); err != nil {
				s.Error(err)
			}
		}
		s.count("slews")
	}
}

// step steps the leader's clock by more than the grace, after all clients have sampled it.
func (s *sim) step(r *rand.Rand) {
	s.warm.Wait()
	s.pause(r, 0, s.lasts/2)
	d := between(r, 2*s.grace, time.Hour)
	if oneIn(r, 2) {
		d = -d
	}
	if err := s.setClock(s.Leader(), d); err != nil {
		s.Error(err)
	}
	s.count("steps")
}

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

// lose makes requests and replies lost or late for a while.
func lose(s *sim, r *rand.Rand, _ string) error {
	l := &losses{sim: s, salt: r.Uint64(), odds: 1 + r.IntN(10), late: true, after: oneIn(r, 3), refuse: oneIn(r, 3), told: s.tells}
	return l.last(r)
}

// loseWhatIsSent makes requests and replies lost, and none late.
func loseWhatIsSent(s *sim, r *rand.Rand, _ string) error {
	l := &losses{sim: s, salt: r.Uint64(), odds: 1 + r.IntN(10), told: s.tells}
	return l.last(r)
}

func (l *losses) last(r *rand.Rand) error {
	l.say("fault: %d %% of requests are lost or late", l.odds)
	l.mu.Lock()
	l.loss = l
	l.mu.Unlock()
	l.pause(r, time.Second, 20*time.Second)
	l.mu.Lock()
	l.loss = nil
	l.mu.Unlock()
	l.say("fault: no more requests are lost")
	return nil
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
	return loss.fault(q)
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
func (s *sim) forget(r *rand.Rand) {
	s.pause(r, s.lasts/4, s.lasts/2)
	s.mu.Lock()
	s.sayLocked("fault: the servers lose their data")
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
		s.pause(r, time.Millisecond, time.Second)
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
