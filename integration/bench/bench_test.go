package main

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// open is a broken locker that excludes no client.
var open = locker{lock: func(context.Context) error { return nil }, unlock: func() error { return nil }}

// TestTwoAtOnceAreSeen: if two contenders hold a lock at once, play fails with errTwo.
func TestTwoAtOnceAreSeen(t *testing.T) {
	turns := &turns{room: 1}
	turns.measure(false)
	err := wait.All(2, func(i int) error { return turns.play(t.Context(), i, open, 100*time.Millisecond) })
	if !errors.Is(err, errTwo) {
		t.Errorf("two at once: %v, want %v", err, errTwo)
	}
}

// TestMissedBars: print returns the missed bars on counts alone. It omits a bar if the peer or the
// experiment of its comparison was not measured.
func TestMissedBars(t *testing.T) {
	e := table{"X", "made up", []figure{{"time", milliseconds}, {"requests", decimals}}, []bar{
		{Figure: 0, Against: zkLockName, Limit: 0.49}, {Figure: 1, Limit: 2, Counted: true}, {Figure: 1, Limit: 3, Counted: true},
		{Figure: 0, Against: bareName, Limit: 1}, {Figure: 0, Beside: "not measured", Limit: 1},
	}}
	r := report{"head", []*result{{e, peers[:2], [][]turn{{{0.001, 3}}, {{0.002, 3}}}}}}
	var text strings.Builder
	if missed := r.print(&text); len(missed) != 1 || !strings.Contains(missed[0], "requests is 3.00, must be ≤ 2.00") {
		t.Errorf("missed: %q, want the requests", missed)
	}
	if rows, _ := r.bars(); len(rows) != 3 || rows[0][3] != "**missed**" || rows[2][3] != barMet {
		t.Errorf("the bars are %q", rows)
	}
}

// TestMissingFigures: check fails if Holdfast lacks a figure, or if another peer has no figure at
// all.
func TestMissingFigures(t *testing.T) {
	for _, c := range []struct {
		ours, theirs []float64
		want         string // error; "": none
	}{
		{[]float64{1, 2}, []float64{1, 2}, ""},
		{[]float64{1, 2}, []float64{1, none}, ""}, // the other peer has no value in some turns
		{[]float64{1, none}, []float64{1, 2}, `Holdfast has no figure of "requests"`},
		{[]float64{1, math.Inf(1)}, []float64{1, 2}, `Holdfast has no figure of "requests"`}, // the median is infinite
		{[]float64{1, 2}, []float64{none, math.Inf(1)}, `zk.Lock has no figure`},
		{nil, []float64{1, 2}, `Holdfast has no figure of "time"`},
	} {
		e := table{Figures: []figure{{"time", milliseconds}, {"requests", decimals}}}
		r := &result{e, peers[:2], make([][]turn, 2)}
		for i, turn := range [][]float64{c.ours, c.theirs} {
			if turn != nil {
				r.Rounds[i] = append(r.Rounds[i], turn)
			}
		}
		if err := r.check(); c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("Holdfast %v, zk.Lock %v: %v, want %q", c.ours, c.theirs, err, c.want)
		}
	}
}

// TestQuickRunHasAll: a quick run has each workload. It has bars that make the run fail if they are
// missed, and none of those bars is a ratio. Each experiment of a full run has a title of its own, by
// which results and bars refer to it.
func TestQuickRunHasAll(t *testing.T) {
	letters, held := make(map[string]bool), 0
	for _, e := range experiments(small) {
		letters[e.Workload] = true
		for _, b := range e.Bars {
			if b.Counted {
				held++
			}
			if b.Counted && (b.Against != "" || b.Beside != "") {
				t.Errorf("a quick run is held to a ratio: %s, %s: %s", e.Workload, e.Title, e.Figures[b.Figure].Title)
			}
		}
	}
	titles := make(map[string]bool)
	for _, e := range experiments(full) {
		if titles[e.Workload+e.Title] {
			t.Errorf("a title twice: %s, %s", e.Workload, e.Title)
		}
		titles[e.Workload+e.Title] = true
		if !letters[e.Workload] {
			t.Errorf("a quick run has no workload %s", e.Workload)
		}
	}
	if held == 0 {
		t.Error("a quick run is held to nothing")
	}
}

func TestMain(m *testing.M) {
	serveEtcd()
	goleak.VerifyTestMain(m)
}

func TestHeapOf(t *testing.T) {
	const size = 32 << 20
	var kept []byte
	peak, err := heapOf(func() error {
		kept = make([]byte, size)
		return nil
	})
	if err != nil || peak < size || peak > 2*size {
		t.Errorf("at its peak the heap is %.0f bytes larger, %v; want about %d", peak, err, size)
	}
	runtime.KeepAlive(kept)
}
