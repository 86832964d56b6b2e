package reaper

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name       string
		now, most  int
		best, mean time.Duration
		want       int
	}{
		{"quick", 4, 16, ms, ms, 5},
		{"quick, and no more may be", 16, 16, ms, ms, 16},
		{"some wait for others", 16, 16, ms, 20 * ms, 16},
		{"slow", 16, 16, ms, 25 * ms, 8},
		{"slow, and only one is left", 1, 16, ms, time.Second, 1},
		{"far away", 10, 16, 80 * ms, 90 * ms, 11},
		{"far away, and slow", 10, 16, 80 * ms, 400 * ms, 5},
		{"fewer may be than were", 16, 4, ms, ms, 4},
	} {
		if got := decide(tt.now, tt.most, tt.best, tt.mean); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestPaceFollows: by halves down, one by one up, and to a way that has become longer.
func TestPaceFollows(t *testing.T) {
	p := newPace(16)
	answers := func(n int, took time.Duration) int {
		for range n {
			p.answered(took)
		}
		return p.limit()
	}
	if got := answers(1000, time.Millisecond); got != 16 {
		t.Errorf("at first %d, want 16", got)
	}
	if got := answers(32, 100*time.Millisecond); got != 8 {
		t.Errorf("after one window of slow answers %d, want 8", got)
	}
	if got := answers(100, 100*time.Millisecond); got != 1 {
		t.Errorf("after many %d, want 1", got)
	}
	if got := answers(2*leastWindow, time.Millisecond); got != 2 { // the first is part of a window with slow ones
		t.Errorf("after some quick ones %d, want 2", got)
	}
	if got := answers(1000, time.Millisecond); got != 16 {
		t.Errorf("after many %d, want 16", got)
	}
	if got := answers(10000, 100*time.Millisecond); got != 16 {
		t.Errorf("when all have long taken as long %d, want 16", got)
	}
}

func TestGate(t *testing.T) {
	limit := 2
	g := newGate(func() int { return limit })
	g.enter()
	if !g.tryEnter() || g.tryEnter() || g.crowded() {
		t.Fatal("two may be inside, and no more")
	}
	limit = 1
	if !g.crowded() {
		t.Error("it is crowded when fewer may be inside")
	}
	g.leave()
	if g.crowded() || g.tryEnter() {
		t.Error("one may be inside, and is")
	}
	in := make(chan struct{})
	go func() {
		g.enter()
		close(in)
	}()
	g.leave()
	<-in
}
