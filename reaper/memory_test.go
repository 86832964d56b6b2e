package reaper

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/admin"
)

func TestMemoryIsBounded(t *testing.T) {
	m := newMemory()
	for i := range maxAlive + 10 {
		m.saw(fmt.Sprint(i), use{live: 1}, time.Minute, 0)
	}
	if n := len(m.alive); n != maxAlive {
		t.Errorf("%d locks are remembered, want %d", n, maxAlive)
	}
	m.saw("0", use{live: 7}, time.Hour, 0)
	if got := m.live("0", 0).live; got != 7 {
		t.Errorf("a full memory does not take in what it knows: %d live, want 7", got)
	}
	m.forget(30 * time.Minute)
	if n := len(m.alive); n != 1 {
		t.Errorf("%d locks are remembered of which all but one are over", n)
	}
	if got := m.live("1", 0).live; got != 0 {
		t.Error("a lock is remembered after it was forgotten")
	}
	for i := range int64(2 * maxTerms) {
		m.begin(admin.Time{Term: zxid(i, 0)}, time.Duration(i)*time.Second)
	}
	if n := len(m.terms); n != maxTerms {
		t.Errorf("%d terms are remembered, want %d", n, maxTerms)
	}
	// A write before all remembered terms counts from the first of them.
	const last, kept = 2*maxTerms - 1, maxTerms
	if got, want := m.since(zxid(1, 5), instant{mono: last * time.Second}), (last-kept)*time.Second; got != want {
		t.Errorf("what was written before all terms is %v old, want %v", got, want)
	}
}

// TestLocksAreForgottenInANewTerm: memory forgets all locks in a new term and in a new session. It
// ignores an older term, and locks that were judged in one.
func TestLocksAreForgottenInANewTerm(t *testing.T) {
	m := newMemory()
	before, step, elected := admin.Time{Term: zxid(1, 0)}, admin.Time{Term: zxid(1, 77)}, admin.Time{Term: zxid(2, 0)}
	for i, now := range []admin.Time{before, step, elected} {
		mono := time.Duration(i) * time.Second
		m.begin(now, mono)
		if got := m.live("a", mono).live; got != 0 {
			t.Errorf("in term %d a lock is remembered from the one before", i)
		}
		m.saw("a", use{live: 2}, time.Hour, now.Term)
		if got := m.live("a", mono).live; got != 2 {
			t.Errorf("in term %d: %d live, want 2", i, got)
		}
	}
	m.begin(step, 4*time.Second) // by a walker that read the time earlier
	if got := m.live("a", 4*time.Second).live; got != 2 {
		t.Errorf("%d live, want 2: an older term has begun again", got)
	}
	m.saw("a", use{live: 5}, time.Hour, step.Term)
	m.saw("b", use{live: 5}, time.Hour, step.Term)
	defer func() {
		m.begin(admin.Time{Sessions: 1}, 5*time.Second)
		if got := m.live("a", 5*time.Second).live; got != 0 {
			t.Error("a lock is remembered from servers that have lost their data")
		}
	}()
	if a, b := m.live("a", 4*time.Second).live, m.live("b", 4*time.Second).live; a != 2 || b != 0 {
		t.Errorf("%d and %d live, want 2 and 0: what was judged in an older term counts", a, b)
	}
}

// TestAgeOfAWrite: the age counts from the beginning of the first term after the write. The age is 0 if
// no term began after the write, and in another session.
func TestAgeOfAWrite(t *testing.T) {
	m := newMemory()
	if got := m.since(zxid(1, 5), instant{mono: time.Hour}); got != 0 {
		t.Errorf("%v without any term", got)
	}
	m.begin(admin.Time{Term: zxid(1, 0)}, 10*time.Second)
	m.begin(admin.Time{Term: zxid(2, 0)}, 20*time.Second)
	m.begin(admin.Time{Term: zxid(2, 0)}, 25*time.Second) // known already
	m.begin(admin.Time{Term: zxid(2, 60)}, 30*time.Second)
	m.begin(admin.Time{Term: zxid(7, 0)}, 40*time.Second)
	for _, tt := range []struct{ mzxid, seconds int64 }{
		{zxid(0, 9), 40},
		{zxid(1, 5), 30},
		{zxid(2, 59), 20},
		{zxid(2, 60), 10}, // the sample that the term begins with
		{zxid(5, 1), 10},
		{zxid(7, 1), 0},
		{zxid(8, 1), 0},
	} {
		if got, want := m.since(tt.mzxid, instant{mono: 50 * time.Second}), time.Duration(tt.seconds)*time.Second; got != want {
			t.Errorf("%#x: %v, want %v", tt.mzxid, got, want)
		}
	}
	// Servers that have lost their data restart the numbers of transactions.
	reset := admin.Time{Term: zxid(1, 0), Sessions: 1}
	if got := m.since(zxid(0, 9), instant{Time: reset, mono: 60 * time.Second}); got != 0 {
		t.Errorf("before the reset is known: %v", got)
	}
	m.begin(reset, 60*time.Second)
	m.begin(admin.Time{Term: zxid(7, 1)}, 61*time.Second) // by a walker that read the time earlier
	for mzxid, want := range map[int64]time.Duration{zxid(0, 9): 10 * time.Second, zxid(2, 59): 0, zxid(5, 1): 0} {
		if got := m.since(mzxid, instant{Time: reset, mono: 70 * time.Second}); got != want {
			t.Errorf("after the reset, %#x: %v, want %v", mzxid, got, want)
		}
	}
}
