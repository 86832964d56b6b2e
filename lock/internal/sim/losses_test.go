// Lost, late and refused requests.

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/locktest"
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
