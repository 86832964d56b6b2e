package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

func TestMain(m *testing.M) {
	addPeer("locks", peer{name: unlocked, work: takeLocks(openUnlocked, lockSetWorkload, fencedWorkload)})
	addPeer("ticks", peer{name: unlocked, work: func(ctx context.Context, w *worker) error { return w.gocron(ctx) }})
	addPeer("shards", peer{name: fallingTokens, work: ownFixed})
	if child() {
		return
	}
	var err error
	if artifacts, err = os.MkdirTemp("", "holdfast-compare-artifacts-"); err != nil {
		panic(err)
	}
	code := zkserver.Main(m)
	os.RemoveAll(artifacts)
	os.Exit(code)
}

func addPeer(name string, p peer) {
	k := &kinds[kindIndex(name)]
	k.peers = append(k.peers, p)
}

// unlocked is a peer that is wrong on purpose: it gives each client the lock at once.
const unlocked = "Holdfast, but without locks"

func openUnlocked(*worker, string) (locker, error) {
	return func(context.Context) (crew.Held, error) {
		return crew.Held{
			Ask:    func() (*monotonic.Claim, error) { return moment(func() bool { return true }) },
			Token:  "1",
			Unlock: func() error { return nil },
		}, nil
	}, nil
}

// TestLocks: in a few seconds with a fault, Holdfast breaks no promise, and the peer without locks is
// caught: its holds overlap, their tokens are the same, and elements are lost.
func TestLocks(t *testing.T) {
	r := play(t, "locks", 1, 5*time.Second)
	broken := strings.Join(r.broken, "\n")
	for _, want := range []string{unlocked + ": lock-set: ", unlocked + ": fenced: "} {
		if !strings.Contains(broken, want) {
			t.Errorf("no %q in\n%s", want, broken)
		}
	}
	for _, w := range []string{lockSetWorkload, fencedWorkload} {
		if said := holdfast + ": " + w + ": "; strings.Contains(broken, said) {
			t.Errorf("%q in\n%s", said, broken)
		}
	}
	if table := r.tables[0]; len(r.made) == 0 || len(table.rows) != 4 || !strings.HasSuffix(table.title, ": 0 violations.") {
		t.Errorf("%v, %+v", r.made, table)
	}
}

// play runs Holdfast's first peer of a kind and the one that is wrong for a time, with faults of clients only.
func play(t *testing.T, name string, seed uint64, duration time.Duration) *run {
	t.Helper()
	t.Parallel()
	zkserver.NeedReal(t)
	k := kinds[kindIndex(name)]
	k.peers = []peer{k.peers[0], k.peers[len(k.peers)-1]}
	k.duration, k.servers = duration, 1
	r, err := k.run(t.Context(), seed, t.Output())
	iferr.Fatal(t, err)
	return r
}

// fallingTokens is a way to share shards that is wrong on purpose: each process works on a fixed part
// of the shards, with a lower token than an earlier write had.
const fallingTokens = "Holdfast, but with falling tokens"

type always struct{}

func (always) Remaining() time.Duration { return time.Hour }

func ownFixed(ctx context.Context, w *worker) error {
	var working sync.WaitGroup
	defer working.Wait()
	for i := w.Index; i < shards; i += processes {
		if err := w.Tell(crew.Record{Op: opWrite, Lock: strconv.Itoa(i), Token: "2"}); err != nil {
			return err
		}
		working.Go(func() { w.workOn(ctx, i, "1", always{}) })
	}
	return nil
}

// TestShards: in a few seconds with a fault, package shard breaks no promise, and owners whose writes
// are refused are caught.
func TestShards(t *testing.T) {
	// With this seed the first fault comes after 4.0 s, and restarts a process in order, which is quickest.
	r := play(t, "shards", 680, 6*time.Second)
	if len(r.broken) != 1 || !strings.HasPrefix(r.broken[0], fallingTokens) || !strings.Contains(r.broken[0], "writes of owners were refused") {
		t.Errorf("broken: %q", r.broken)
	}
	for _, row := range r.tables[0].rows {
		if writes, err := strconv.Atoi(row[1]); err != nil || writes < 4*shards {
			t.Errorf("%s: only %s writes", row[0], row[1])
		}
	}
}

// TestTicks: in a few seconds package schedule runs each tick once, although replicas' clocks are
// off, and gocron without locks is caught.
func TestTicks(t *testing.T) {
	r := play(t, "ticks", 1, 5*time.Second)
	if len(r.broken) != 1 || !strings.HasPrefix(r.broken[0], unlocked) || !strings.HasSuffix(r.broken[0], "ticks ran twice") {
		t.Errorf("broken: %q", r.broken)
	}
	for _, row := range r.tables[0].rows {
		if n, err := strconv.Atoi(row[1]); err != nil || n < 5 || n > 30 {
			t.Errorf("%s: %s ticks in 5 s and a fault", row[0], row[1])
		}
	}
}

// TestText: the results in Markdown.
func TestText(t *testing.T) {
	r := &run{kind: kinds[0], seed: 7, versions: map[string]bool{"ZooKeeper 3": true, "": true}, made: map[string]int{"b": 1, "a": 2}}
	r.tables = []table{{title: "**first**", head: []string{"x", "y"}}, {head: []string{"z"}}}
	r.tables[0].add("a|b", 1)
	r.tables[0].add("not offered")
	const want = `
### Locks under faults

Measured by ` + "`make compare KIND=locks DURATION=1h0m0s SEED=7 SERVERS=3`" + `. ZooKeeper 3. Faults: a 2×, b 1×.

**first**

| x | y |
|---|---|
| a\|b | 1 |
| not offered | |

| z |
|---|
`
	if got := r.text(); got != want {
		t.Errorf("%s", got)
	}
}

// TestCommand: each wrong argument is an error, and none starts a server.
func TestCommand(t *testing.T) {
	for _, args := range []string{"-kind x", "-servers 2", "-seed x", "more"} {
		if got := command(t.Context(), strings.Fields(args)); got != exitUnknown {
			t.Errorf("%s: %d", args, got)
		}
	}
}
