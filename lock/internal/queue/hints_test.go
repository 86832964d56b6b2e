package queue

import (
	"slices"
	"testing"
	"time"
)

// TestHintsThatGuessNothing look first, and promise nothing, whatever has happened.
func TestHintsThatGuessNothing(t *testing.T) {
	h := lone("none").newHints()
	for range 5 {
		h.joined(time.Second, parentOf(5, 1), 2)
		h.held(time.Microsecond)
		h.announced(true, time.Second)
		h.checked(true, time.Second)
		h.left(time.Second, true)
	}
	if _, likely := h.predictVersion(parentOf(5, 2), time.Second); likely || !h.readFirst(facts{}, time.Second) {
		t.Error("foretells a version, or does not look first")
	}
	if likely, others := h.likelyToReturn(time.Second, true); likely || others {
		t.Error("expects to be back")
	}
	if h.stillAlone(parentOf(5, 2), 2) || h.announceRelease(time.Second) || h.checkRelease(time.Second) || h.recordGrantAfter() != 0 {
		t.Error("guesses")
	}
	if h.skipTail(joinTries-1, facts{}) || !h.skipTail(joinTries, facts{}) {
		t.Error("to give up the parent after so many collisions is no guess")
	}
}

// TestHostileHintsGuessAnything: each answer comes, and a version that is foretold is
// never negative, nor does a join go on for ever.
func TestHostileHintsGuessAnything(t *testing.T) {
	h := lone("hostile").newHints()
	answers := map[string]int{}
	note := func(what string, yes bool) {
		if answers[what] |= 1; yes {
			answers[what] |= 2
		}
	}
	for range 1000 {
		f := parentOf(5, 0)
		note("read first", h.readFirst(facts{}, time.Second))
		note("not read first", !h.readFirst(facts{}, time.Second))
		version, likely := h.predictVersion(f, 0)
		note("a wrong version", likely && version != f.version)
		note("skip", h.skipTail(0, f))
		note("alone", h.stillAlone(f, 7))
		likely, others := h.likelyToReturn(0, false)
		note("back soon", likely && !others)
		note("announce", h.announceRelease(0))
		note("check", h.checkRelease(0))
		note("not check", !h.checkRelease(0))
		if after := h.recordGrantAfter(); version < 0 || after < 0 || after >= 2*shortHold || !h.skipTail(joinTries, f) {
			t.Fatalf("version %d, recorded after %v", version, after)
		}
	}
	for what, seen := range answers {
		if seen != 3 {
			t.Errorf("never: %s", what)
		}
	}
}

// TestLearnedHintsKnowNothing of a lock that is new to them, and expect no others there.
func TestLearnedHintsKnowNothing(t *testing.T) {
	h := lone("").newHints()
	if _, likely := h.predictVersion(facts{}, time.Second); likely || h.readFirst(facts{}, time.Second) {
		t.Error("foretells a version, or looks first")
	}
	if likely, others := h.likelyToReturn(time.Second, true); likely || others {
		t.Error("expects to be back")
	}
	if !h.stillAlone(parentOf(5, 2), 2) || h.stillAlone(parentOf(5, 3), 2) || !h.stillAlone(facts{}, 2) {
		t.Error("alone as long as the parent is as it was left")
	}
	if !h.announceRelease(0) || !h.checkRelease(0) || h.recordGrantAfter() != shortHold/5 {
		t.Error("muted from the start")
	}
}

// TestReturns: who was back soon twice is expected back again, until it takes its time.
func TestReturns(t *testing.T) {
	h := lone("").newHints()
	now := time.Second
	for n := range 5 {
		h.joined(now, facts{}, 1)
		likely, others := h.likelyToReturn(now, true)
		if likely != (n >= 2) || others {
			t.Errorf("join %d: back soon %v, others %v", n, likely, others)
		}
		if likely, _ := h.likelyToReturn(now, false); likely {
			t.Error("one that did not join alone leaves the parent for itself")
		}
		h.left(now, false)
		now += lingerTime / 2
	}
	now += lingerTime
	h.joined(now, facts{}, 1)
	if likely, _ := h.likelyToReturn(now, true); likely {
		t.Error("expected back, and it took its time")
	}
}

// TestReadFirst: where many are, and others write the parent often, it is read again before
// a join that would list them all, should they have written meanwhile.
func TestReadFirst(t *testing.T) {
	at := func(h hints, age time.Duration, children int32) bool {
		f := parentOf(5, 0)
		f.children, f.seenAt = children, time.Minute
		return h.readFirst(f, time.Minute+age)
	}
	const many = fewToList + 1
	h := lone("").newHints()
	h.joined(time.Second, parentOf(5, many), 6)
	if at(h, time.Hour, many) {
		t.Error("nobody is known to write beside us")
	}
	h.joined(time.Second+100*time.Millisecond, parentOf(10, many), 11) // four of others, 25 ms each
	for _, tt := range []struct {
		age      time.Duration
		children int32
		want     bool
	}{
		{12 * time.Millisecond, many, false},
		{13 * time.Millisecond, many, true},
		{time.Hour, fewToList, false},
	} {
		if got := at(h, tt.age, tt.children); got != tt.want {
			t.Errorf("seen %v ago, with %d children: read first: %v", tt.age, tt.children, got)
		}
	}
	h.joined(2*time.Second, parentOf(11, many), 12)
	if at(h, time.Hour, many) {
		t.Error("nobody has written since our last join")
	}

	var want []bool
	for _, there := range []bool{true, true, true, false, true, false, false, true} {
		if there {
			h.foundThere()
		} else {
			h.joined(2*time.Second, facts{}, 1)
		}
		want = append(want, h.readFirst(facts{}, time.Hour))
	}
	if !slices.Equal(want, []bool{false, true, true, false, true, false, false, false}) {
		t.Errorf("where the parent is to be made, read first: %v", want)
	}
}

// TestForetoldVersion: where few take turns without a pause, as many have joined since
// as did the last two times.
func TestForetoldVersion(t *testing.T) {
	h := lone("").newHints()
	now, version := time.Second, int32(10)
	take := func(others int32) (int32, bool) { // others have joined since, and then we do
		before := parentOf(5, version)
		version += others + 1
		h.joined(now, before, version)
		h.left(now, true)
		return h.predictVersion(parentOf(5, version), now+1)
	}
	take(2)
	if _, likely := take(2); likely {
		t.Error("foretold after one time")
	}
	if next, likely := take(2); !likely || next != version+2 {
		t.Errorf("foretold %d, %v, want %d", next, likely, version+2)
	}
	crowd := parentOf(5, version)
	crowd.children = fewEntries + 1
	if _, likely := h.predictVersion(crowd, now+1); likely {
		t.Error("foretold in a long queue")
	}
	if _, likely := h.predictVersion(parentOf(5, version), now+lingerTime); likely {
		t.Error("foretold after a pause")
	}
	if _, likely := take(3); likely {
		t.Error("foretold when others had changed their pace")
	}
	take(3)
	h.missed()
	if _, likely := h.predictVersion(parentOf(5, version), now+1); likely {
		t.Error("foretold of a parent that was made anew")
	}
}

// TestCrowded: who left others behind, or met them at once, is not thought to be alone,
// until it has left nobody.
func TestCrowded(t *testing.T) {
	h := lone("").newHints()
	f := parentOf(5, 2)
	for _, meet := range []func(){h.crowded, func() { h.left(time.Second, true) }} {
		if meet(); h.stillAlone(f, 2) {
			t.Error("alone in a crowd")
		}
		if h.left(time.Second, false); !h.stillAlone(f, 2) {
			t.Error("not alone, and nobody was left")
		}
	}
}

// TestMuted: after a release was told in vain, nobody tells one for a while; who looks for
// one tries longer, and longer still where there often was one.
func TestMuted(t *testing.T) {
	now := time.Second
	h := lone("").newHints()
	if h.announced(true, now); !h.announceRelease(now) {
		t.Error("muted though it was told")
	}
	h.announced(false, now)
	if h.announceRelease(now+muteTime-1) || !h.announceRelease(now+muteTime) || !h.checkRelease(now) {
		t.Error("told in vain: want it muted for a while, and nothing else")
	}
	for before, tries := range map[int]int{0: 2, 1: 3, 100: mostCredit} {
		h := lone("").newHints()
		for range before {
			h.checked(true, now)
		}
		n := 0
		for ; h.checkRelease(now); n++ {
			h.checked(false, now)
		}
		if n != tries || h.checkRelease(now+muteTime-1) || !h.checkRelease(now+muteTime) || !h.announceRelease(now) {
			t.Errorf("found %d times, and then looked for in vain %d times, want %d, and again after a while", before, n, tries)
		}
	}
}

// TestRecordGrantAfter: a short hold saves the write, a long one tells at once.
func TestRecordGrantAfter(t *testing.T) {
	d := lone("").openDoor("x")
	for _, tt := range []struct{ lasted, want time.Duration }{
		{0, shortHold / 5}, {shortHold / 2, shortHold}, {shortHold, 0}, {time.Minute, 0},
	} {
		d.hint(func(h hints) { h.held(tt.lasted) })
		if got := d.recordGrantAfter(); got != tt.want {
			t.Errorf("after a hold of %v: recorded after %v, want %v", tt.lasted, got, tt.want)
		}
	}
}

// TestMet: others are told of only where the parent is not as it was.
func TestMet(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  facts
		version int32
		want    bool
	}{
		{"as it was", parentOf(5, 2), 2, false},
		{"changed", parentOf(5, 2), 3, true},
		{"not known before", facts{}, 0, true},
	} {
		d := lone("").openDoor("x")
		d.hint(func(h hints) { h.left(time.Second, true) })
		d.met(time.Second, tt.before, tt.version)
		d.hint(func(h hints) {
			if _, others := h.likelyToReturn(time.Second, false); others != tt.want {
				t.Errorf("%s: others %v", tt.name, others)
			}
		})
	}
}
