package main

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// script builds the records of a lock's history. Each call of tick advances its clock by 10.
type script struct {
	kind    string
	at      instant
	records []*record
}

func (s *script) tick() instant { s.at += 10; return s.at }

func (s *script) add(r record) *record {
	r.Kind = s.kind
	s.records = append(s.records, &r)
	return s.records[len(s.records)-1]
}

// grant records that a worker gets the whole lock, with a lease of that many ticks of 10.
func (s *script) grant(worker string, token int64, ticks instant) {
	s.enter(worker, token, rooms[s.kind], ticks)
}

// enter records that a worker gets a part of the room, with a lease of that many ticks of 10.
func (s *script) enter(worker string, token int64, weight int, ticks instant) {
	call := s.tick()
	from := s.tick()
	s.add(record{Op: opGrant, Worker: worker, Lock: "x", Weight: weight, Token: token, Call: call, Return: from,
		Claim: &claim{From: from, To: from + 1, Until: from + ticks*10}})
}

// share records a writer's downgrade.
func (s *script) share(worker string, token int64) {
	s.add(record{Op: opShare, Worker: worker, Lock: "x", Token: token, Call: s.tick(), Return: s.tick()})
}

// look records that a worker finds its hold valid for that many ticks of 10.
func (s *script) look(worker string, token int64, ticks instant) {
	from := s.tick()
	s.add(record{Op: opCheck, Worker: worker, Lock: "x", Token: token, Call: s.tick(),
		Claim: &claim{From: from, To: from + 1, Until: from + ticks*10}})
}

func (s *script) leave(worker string, token int64, result string) {
	s.add(record{Op: opLeave, Worker: worker, Lock: "x", Token: token, Call: s.tick(), Return: s.tick()})
	s.add(record{Op: opLeft, Worker: worker, Lock: "x", Token: token, Call: s.tick(), Return: s.tick(), Result: result})
}

// verdictTest is a correct or incorrect history. doubleEntries and linearizable must give the same
// verdict.
type verdictTest struct {
	play   func(*script)
	double string // part of the message of doubleEntries; "": the history is correct
}

func (test verdictTest) run(t *testing.T, kind string) {
	s := script{kind: kind}
	test.play(&s)
	byLock := holds(s.records)
	found, _ := doubleEntries(byLock)
	if test.double == "" && len(found) > 0 || test.double != "" && (len(found) == 0 || !strings.Contains(found[0], test.double)) {
		t.Errorf("double entries %q: want %q", found, test.double)
	}
	want := porcupine.Ok
	if test.double != "" {
		want = porcupine.Illegal
	}
	if got := linearizable(byLock["x"], time.Now().Add(time.Minute)); got != want {
		t.Errorf("porcupine: %v, want %v", got, want)
	}
}

// TestVerdictsOnLocks: doubleEntries and linearizable accept the correct histories of exclusive
// holds and refuse the others, in each kind of lock.
func TestVerdictsOnLocks(t *testing.T) {
	for name, test := range map[string]verdictTest{
		"one after the other": {func(s *script) {
			s.grant("a", 1, 100)
			s.leave("a", 1, "")
			s.grant("b", 2, 100)
			s.leave("b", 2, "")
		}, ""},
		"after a killed one's lease": {func(s *script) {
			s.grant("a", 1, 5)
			s.at += 50
			s.grant("b", 2, 100)
		}, ""},
		"unlock not confirmed": {func(s *script) {
			s.grant("a", 1, 100)
			s.leave("a", 1, resultUnsure)
			s.grant("b", 2, 100)
		}, ""},
		"waited for, and overtaken in the telling": {func(s *script) {
			// b requested the lock before a unlocked, and got it later.
			s.grant("a", 1, 100)
			asked := s.tick()
			s.leave("a", 1, "")
			s.grant("b", 2, 100)
			s.records[len(s.records)-1].Call = asked
		}, ""},
		"stopped at once, and told so": {func(s *script) {
			s.grant("a", 1, 5)
			s.records[0].Claim = nil
			s.grant("b", 2, 100)
		}, ""},
		"stopped while it asked": {func(s *script) {
			s.grant("a", 1, 5)
			s.at += 50
			s.grant("b", 2, 100)
			s.records[0].Claim.To = s.at + 10 // a's worker was stopped while it asked, and went on while b held the lock
		}, ""},
		"while a killed one's lease runs": {func(s *script) {
			s.grant("a", 1, 100)
			s.grant("b", 2, 100)
		}, "b was in with token 2 at 41, 979ns before the hold of a with token 1 ended"},
		"while a lease runs that was found valid later": {func(s *script) {
			s.grant("a", 1, 5)
			s.at = 50
			s.look("a", 1, 9)
			s.grant("b", 2, 100)
			s.leave("b", 2, "")
			s.grant("c", 3, 100)
		}, "b was in with token 2 at 91, 59ns before"},
		"against the order of the tokens": {func(s *script) {
			s.grant("a", 2, 100)
			s.leave("a", 2, "")
			s.grant("b", 1, 100)
			s.leave("b", 1, "")
		}, "a was in with token 2"},
		"a token twice": {func(s *script) {
			s.grant("a", 1, 100)
			s.leave("a", 1, "")
			s.grant("b", 1, 100)
		}, "token 1 was given 2 times"},
	} {
		for kind := range rooms {
			t.Run(kind+" "+name, func(t *testing.T) { test.run(t, kind) })
		}
	}
}

// TestVerdictsOnReadersAndWriters: doubleEntries and linearizable accept the correct histories of
// readers, and of writers that become readers, and refuse the others.
func TestVerdictsOnReadersAndWriters(t *testing.T) {
	for name, test := range map[string]verdictTest{
		"readers together, then a writer": {func(s *script) {
			s.enter("a", 1, 1, 100)
			s.enter("b", 2, 1, 100)
			s.leave("a", 1, "")
			s.leave("b", 2, "")
			s.grant("c", 3, 100)
		}, ""},
		"readers that notice in another order": {func(s *script) {
			asked := s.tick()
			s.enter("b", 2, 1, 100)
			s.enter("a", 1, 1, 100)
			s.records[len(s.records)-1].Call = asked
		}, ""},
		"readers against the order of the tokens": {func(s *script) {
			s.enter("b", 2, 1, 100)
			s.leave("b", 2, "")
			s.grant("a", 1, 100)
		}, "b was in with token 2"},
		"a reader beside a writer that was downgraded": {func(s *script) {
			s.grant("a", 1, 100)
			s.share("a", 1)
			s.enter("b", 2, 1, 100)
			s.look("a", 1, 100)
		}, ""},
		"a reader after the lease of a writer that may have been downgraded": {func(s *script) {
			s.grant("a", 1, 5)
			s.at += 50
			s.enter("b", 2, 1, 100)
			s.share("a", 1)
		}, ""},
		"a writer beside a reader": {func(s *script) {
			s.enter("a", 1, 1, 100)
			s.grant("b", 2, 100)
		}, "b was in with token 2"},
		"a reader beside a writer": {func(s *script) {
			s.grant("a", 1, 100)
			s.enter("b", 2, 1, 100)
			s.share("a", 1)
		}, "b was in with token 2"},
		"a writer beside one that was downgraded": {func(s *script) {
			s.grant("a", 1, 100)
			s.share("a", 1)
			s.grant("b", 2, 100)
		}, "b was in with token 2"},
		"a writer beside the second of two readers": {func(s *script) {
			s.enter("a", 1, 1, 100)
			s.enter("b", 2, 1, 100)
			s.leave("a", 1, "")
			s.grant("c", 3, 100)
		}, "c was in with token 3"},
	} {
		t.Run(name, func(t *testing.T) { test.run(t, rwMutex) })
	}
}

// TestVerdictsOnPermits: doubleEntries and linearizable accept the correct histories of a semaphore
// with three permits, and refuse the others.
func TestVerdictsOnPermits(t *testing.T) {
	for name, test := range map[string]verdictTest{
		"no more than there are": {func(s *script) {
			s.enter("a", 1, 1, 100)
			s.enter("b", 2, 2, 100)
			s.leave("b", 2, "")
			s.enter("c", 3, 1, 100)
			s.enter("d", 4, 1, 100)
		}, ""},
		"one lease has ended": {func(s *script) {
			s.enter("a", 1, 1, 100)
			s.enter("b", 2, 2, 5)
			s.at += 50
			s.enter("c", 3, 2, 100)
		}, ""},
		"more than there are": {func(s *script) {
			s.enter("a", 1, 2, 100)
			s.enter("b", 2, 2, 100)
		}, "together a weight of 4, with room for 3"},
		"more than there are, by many": {func(s *script) {
			s.enter("a", 1, 1, 100)
			s.enter("b", 2, 1, 100)
			s.enter("c", 3, 1, 100)
			s.enter("d", 4, 1, 100)
		}, "d was in with token 4"},
		"more than the rest": {func(s *script) {
			s.enter("a", 1, 1, 100)
			s.enter("b", 2, 2, 100)
			s.leave("a", 1, "")
			s.enter("c", 3, 2, 100)
		}, "c was in with token 3"},
	} {
		t.Run(name, func(t *testing.T) { test.run(t, semaphore) })
	}
}

// shown records a worker's answer about the leader.
func (s *script) shown(worker string, token int64, value string) *record {
	return s.add(record{Op: opShown, Worker: worker, Lock: "x", Token: token, Value: value, Call: s.tick(), Return: s.tick()})
}

// elected is like grant, with a value of the candidate.
func (s *script) elected(worker string, token int64, ticks instant) {
	s.grant(worker, token, ticks)
	s.records[len(s.records)-1].Value = "of " + worker
}

// TestVerdictsOnLeadersShown: wronglyShown finds wrong answers about the leader, and accepts right
// ones.
func TestVerdictsOnLeadersShown(t *testing.T) {
	for name, test := range map[string]struct {
		play func(*script)
		want string // part of the finding; "": the answers are right
	}{
		"the leader": {func(s *script) {
			s.elected("a", 1, 100)
			s.shown("c", 1, "of a")
			s.leave("a", 1, "")
			s.shown("c", 0, "")
			s.elected("b", 2, 100)
			s.shown("c", 2, "of b")
		}, ""},
		"one that was killed before it knew": {func(s *script) {
			s.shown("c", 1, "of a")
			s.elected("b", 2, 100)
		}, ""},
		"none, when a lease is over": {func(s *script) {
			s.elected("a", 1, 5)
			s.at += 50
			s.shown("c", 0, "")
		}, ""},
		"an answer that came late": {func(s *script) {
			s.elected("a", 1, 100)
			r := s.shown("c", 1, "of a")
			s.leave("a", 1, "")
			s.elected("b", 2, 100)
			r.Return = s.tick()
		}, ""},
		"no answer": {func(s *script) {
			s.elected("a", 1, 100)
			s.shown("c", 0, "").Result = resultGaveUp
		}, ""},
		"none, while one leads":              {func(s *script) { s.elected("a", 1, 100); s.shown("c", 0, "") }, "while a led with token 1"},
		"another one, while one leads":       {func(s *script) { s.elected("b", 2, 100); s.shown("c", 3, "of d") }, "while b led with token 2"},
		"another one's value":                {func(s *script) { s.elected("a", 1, 100); s.shown("c", 1, "of b") }, `with the value "of b", and a gave "of a"`},
		"one before, though the next is not": {func(s *script) { s.shown("c", 2, ""); s.shown("d", 1, "") }, "after c had been shown token 2"},
		"one before, of a leader that is over": {func(s *script) {
			s.elected("b", 2, 5)
			s.at += 50
			s.shown("c", 1, "of a")
		}, "after b had been elected with token 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := script{kind: election}
			test.play(&s)
			found, _, _ := wronglyShown(s.records, holds(s.records))
			if got := strings.Join(found, "; "); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}
