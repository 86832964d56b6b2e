package main

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"
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

// nobody is a lock that lets everybody in.
type nobody struct{}

func (nobody) lock(context.Context) error { return nil }
func (nobody) unlock() error              { return nil }

// TestTwoAtOnceAreSeen: what is fast because it locks nobody out is no result.
func TestTwoAtOnceAreSeen(t *testing.T) {
	turns := newTurns(2)
	turns.stop()
	err := together(2, func(int) error { return turns.play(t.Context(), nobody{}, 100*time.Millisecond) })
	if !errors.Is(err, errTwo) {
		t.Errorf("two at once: %v, want %v", err, errTwo)
	}
}

// TestProxyDelaysReplies, but not one after the other.
func TestProxyDelaysReplies(t *testing.T) {
	const delay, rounds = 30 * time.Millisecond, 5
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		c, err := echo.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c)
	}()
	p, err := newProxy(echo.Addr().String(), delay)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	c, err := net.Dial("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	for i := range rounds {
		if _, err := c.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 1)
		if _, err := io.ReadFull(c, got); err != nil || got[0] != byte(i) {
			t.Fatalf("reply %d: %v, %v", i, got, err)
		}
		if took, least := time.Since(start), time.Duration(i+1)*delay; took < least {
			t.Errorf("%d round trips took %v, want at least %v", i+1, took, least)
		}
	}
	// Many at once take as long as one. The bound leaves a busy machine room.
	start = time.Now()
	go func() {
		for i := range 100 {
			if _, err := c.Write([]byte{byte(i)}); err != nil {
				return
			}
			time.Sleep(100 * time.Microsecond)
		}
	}()
	if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < delay || took > 50*delay {
		t.Errorf("100 replies at once took %v, the delay is %v", took, delay)
	}
}

// TestReport has a peer that is twice as fast as zk.Lock, and costs too much.
func TestReport(t *testing.T) {
	e := &experiment{
		workload: "X", title: "made up", figures: []figure{{"time", milliseconds}, {"requests", decimals}, {"bytes", kilobytes}},
		bars: []bar{
			{figure: 0, against: zkLockName, limit: 0.5}, {figure: 0, against: zkLockName, limit: 0.49},
			{figure: 1, limit: 2, counted: true}, {figure: 1, limit: 3, counted: true}, {figure: 0, against: bareName, limit: 1},
		},
	}
	ours, theirs := peers[0], peers[1]
	if ours.name != holdfastName || theirs.name != zkLockName {
		t.Fatalf("peers are %s and %s", ours.name, theirs.name)
	}
	r := report{head: "head", results: []*result{{experiment: e, peers: []*peer{ours, theirs}, rounds: [][][]float64{
		{{0.001, 3, math.NaN()}, {0.002, 3, math.NaN()}, {0.009, 3, math.NaN()}},
		{{0.002, 3, 1000}, {0.004, 3, 1000}, {0.010, 3, 1000}},
	}}}}
	var text strings.Builder
	missed := r.print(&text)
	if len(missed) != 1 || !strings.Contains(missed[0], "requests is 3.00, must be ≤ 2.00") {
		t.Errorf("missed: %q, want the requests", missed)
	}
	for _, want := range []string{
		"| Holdfast | 2.000 ms (0.50) | 3.00 (1.00) | – |\n",
		"| zk.Lock | 4.000 ms | 3.00 | 1.00 kB |\n",
		"| X, made up: time | ≤ 0.50 of zk.Lock | 0.50 | met |\n",
		"| X, made up: time | ≤ 0.49 of zk.Lock | 0.50 | **missed** |\n",
		"| X, made up: requests | ≤ 2.00 | 3.00 | **missed** |\n",
		"| X, made up: requests | ≤ 3.00 | 3.00 | met |\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "bare create") {
		t.Errorf("a bar against a peer that took no part:\n%s", &text)
	}
}

func TestChoosePeers(t *testing.T) {
	quick, err := choosePeers("", true)
	if err != nil || len(quick) != 4 {
		t.Errorf("-quick has %d peers, %v; want 4", len(quick), err)
	}
	if _, err := choosePeers("holdfast,nobody", false); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("an unknown peer: %v", err)
	}
}
