package main

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/wait"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		share  float64
		want   float64
	}{
		{[]float64{3}, 0.5, 3},
		{[]float64{3, 1}, 0.5, 2},
		{[]float64{9, 1, 2}, 0.5, 2},
		{[]float64{5, 1, 2, 3, 4}, 0.75, 4},
		{[]float64{5, 1, 2, 3, 4}, 1, 5},
	} {
		if got := quantile(c.values, c.share); got != c.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", c.values, c.share, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}

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

// TestFreeEnds: a lock that hangs and ignores its context ends the run of a free lock with an error.
func TestFreeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		hangs := session{close: sync.OnceValue(func() error { close(closed); return nil }), locker: func(string) locker {
			return locker{lock: func(context.Context) error { <-closed; return errors.New("closed") }}
		}}
		c := &crew{site: &site{bench: new(bench)}, sessions: sessions{hangs}}
		if _, err := freeLock(false)(t.Context(), c); err == nil || !strings.Contains(err.Error(), "it is not done in 2m0s") {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestReport: print shows medians, ratios and bars, and returns only the missed bars on counts. It
// omits a bar if the peer or the experiment of its comparison was not measured.
func TestReport(t *testing.T) {
	e := table{"X", "made up", []figure{{"time", milliseconds}, {"requests", decimals}, {"bytes", kilobytes}}, []bar{
		{Figure: 0, Against: zkLockName, Limit: 0.5}, {Figure: 0, Against: zkLockName, Limit: 0.49},
		{Figure: 1, Limit: 2, Counted: true}, {Figure: 1, Limit: 3, Counted: true}, {Figure: 0, Against: bareName, Limit: 1},
		{Figure: 0, Beside: "smaller", Limit: 2}, {Figure: 0, Beside: "smaller", Limit: 1.9}, {Figure: 0, Beside: "not measured", Limit: 1},
	}}
	ours, theirs := peers[0], peers[1]
	if ours.Name != holdfastName || theirs.Name != zkLockName {
		t.Fatalf("peers are %s and %s", ours.Name, theirs.Name)
	}
	other := table{Workload: "X", Title: "smaller", Figures: e.Figures}
	r := report{"head", []*result{{other, []*peer{ours}, [][]turn{{{0.001, 3, 1000}}}}, {e, []*peer{ours, theirs}, [][]turn{
		{{0.001, 3, none}, {0.002, 3, none}, {0.009, 3, none}},
		{{0.002, 3, 1000}, {0.004, 3, 1000}, {0.010, 3, 1000}},
	}}}}
	var text strings.Builder
	missed := r.print(&text)
	if len(missed) != 1 || !strings.Contains(missed[0], "requests is 3.00, must be ≤ 2.00") {
		t.Errorf("missed: %q, want the requests", missed)
	}
	for _, want := range []string{
		"|Holdfast|2.000 ms (0.50)|3.00 (1.00)|–|\n",
		"|zk.Lock|4.000 ms|3.00|1.00 kB|\n",
		"|X, made up: time|≤ 0.50 of zk.Lock|0.50|met|\n",
		"|X, made up: time|≤ 0.49 of zk.Lock|0.50|**missed**|\n",
		"|X, made up: requests|≤ 2.00|3.00|**missed**|\n",
		"|X, made up: requests|≤ 3.00|3.00|met|\n",
		"|X, made up: time|≤ 2.00 of smaller|2.00|met|\n",
		"|X, made up: time|≤ 1.90 of smaller|2.00|**missed**|\n",
		"|turns of each: 3|time|requests|bytes|\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "bare create") {
		t.Errorf("a bar against a peer that took no part:\n%s", &text)
	}
	if strings.Contains(text.String(), "not measured") {
		t.Errorf("a bar beside an experiment that was not made:\n%s", &text)
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
// missed, and none of those bars is a ratio.
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
	for _, e := range experiments(full) {
		if !letters[e.Workload] {
			t.Errorf("a quick run has no workload %s", e.Workload)
		}
	}
	if held == 0 {
		t.Error("a quick run is held to nothing")
	}
}

func TestChooseExperiments(t *testing.T) {
	zkLock := slices.IndexFunc(peers, func(p *peer) bool { return p.Name == zkLockName })
	for _, c := range []struct {
		letters, pattern string
		peers            []*peer
		want             string // letters of the chosen experiments; "": an error
	}{
		{"A", "", peers, "A"},
		{"AF", "", peers, "AF"},
		{"", "1000 (clients|waiters)", peers, "CD"},
		{"C", "1000 clients", peers, "C"},
		{"AF", "", peers[zkLock : zkLock+1], "A"}, // zk.Lock cannot try a lock, so it has no part in F
		{"Z", "", peers, ""},
		{"", "nothing", peers, ""},
		{"", "(", peers, ""},
	} {
		list, err := chooseExperiments(full, c.letters, c.pattern, "", c.peers)
		var got []string
		for _, e := range list {
			got = append(got, e.Workload)
		}
		if c.pattern != "" && len(got) > 2 {
			t.Errorf("-run %q: %d experiments", c.pattern, len(got))
		}
		slices.Sort(got)
		if letters := strings.Join(slices.Compact(got), ""); letters != c.want || (err != nil) != (c.want == "") {
			t.Errorf("-workloads %q -run %q: %q, %v; want %q", c.letters, c.pattern, letters, err, c.want)
		}
	}
}

func TestEnoughFiles(t *testing.T) {
	if err := enoughFiles(1); err != nil {
		t.Errorf("one connection: %v", err)
	}
	if err := enoughFiles(math.MaxInt / 2); err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("any number of connections: %v, want what to do", err)
	}
}

func TestChoosePeers(t *testing.T) {
	quick, err := choosePeers("", true)
	if err != nil || len(quick) != 5 {
		t.Errorf("-quick has %d peers, %v; want 5", len(quick), err)
	}
	if _, err := choosePeers("holdfast,absent", false); err == nil || !strings.Contains(err.Error(), `"absent"`) {
		t.Errorf("an unknown peer: %v", err)
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
