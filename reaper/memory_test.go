package reaper

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/admin"
)

func TestMemory(t *testing.T) {
	m := newMemory()
	end := time.Unix(1_800_000_000, 999e6)
	m.saw("a", 3, end, 0)
	for _, tt := range []struct {
		name string
		now  time.Time
		want int
	}{
		{"b", end.Add(-time.Hour), 0},
		{"a", end.Add(-time.Hour), 3},
		{"a", end.Truncate(time.Second), 3},
		{"a", end.Truncate(time.Second).Add(1), 0}, // never later than the end
		{"a", end.Add(-2 * time.Second), 3},        // the leader's clock was set back
	} {
		if got := m.live(tt.name, tt.now); got != tt.want {
			t.Errorf("%s at %v: %d live, want %d", tt.name, tt.now, got, tt.want)
		}
	}
	m.saw("a", 1, end.Add(-time.Minute), 0)
	if got := m.live("a", end.Add(-time.Second)); got != 0 {
		t.Errorf("%d live by an older sight than the last", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := newMemory()
	now := time.Unix(1_800_000_000, 0)
	for i := range maxSeen + 10 {
		m.saw(fmt.Sprint(i), 1, now.Add(time.Minute), 0)
	}
	if n := len(m.seen); n != maxSeen {
		t.Errorf("%d locks are remembered, want %d", n, maxSeen)
	}
	m.saw("0", 7, now.Add(time.Hour), 0)
	if got := m.live("0", now); got != 7 {
		t.Errorf("a full memory does not take in what it knows: %d live, want 7", got)
	}
	m.forget(now.Add(30*time.Minute), 0)
	if n := len(m.seen); n != 1 {
		t.Errorf("%d locks are remembered of which all but one are over", n)
	}
	if got := m.live("1", now); got != 0 {
		t.Error("a lock is remembered after it was forgotten")
	}
}

// TestMemoryOfTwoWalkers: one of them has not noticed yet that a new term has begun. What
// it has seen by the times of the old one does not get among those of the new.
func TestMemoryOfTwoWalkers(t *testing.T) {
	m := newMemory()
	old, now := admin.Time{Term: 1 << 32}, admin.Time{Term: 2 << 32}
	end := time.Unix(1_800_000_000, 0)
	m.begin(old)
	m.begin(now)
	m.saw("a", 1, end, now.Term)
	m.saw("b", 1, end.Add(time.Hour), old.Term)
	m.begin(old)
	if a, b := m.live("a", end.Add(-time.Second)), m.live("b", end); a != 1 || b != 0 {
		t.Errorf("%d and %d live, want 1, seen in the present term, and 0", a, b)
	}
}
