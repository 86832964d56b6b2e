package main

import (
	"context"
	"os"
	"path/filepath"
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
	lockPeers = append(lockPeers, peer{name: unlocked, servers: nothing, offers: []string{lockWorkload, fencedWorkload}, open: openUnlocked})
	shardPeers = append(shardPeers, peer{name: fallingTokens, servers: nothing, own: ownFixed})
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

// unlocked is a peer that is wrong on purpose: it gives each client the lock at once.
const unlocked = "Holdfast, but without locks"

// nothing is the service of no servers.
var nothing = &service{func(context.Context, string, int) (crew.Cluster, error) { return crew.Given(nil), nil }}

func openUnlocked([]string, string, string) (locker, error) {
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
	r := play(t, "locks", 1, 5*time.Second, lockPeers[0], peerOf(lockPeers, unlocked))
	broken := strings.Join(r.broken, "\n")
	for _, want := range []string{unlocked + ": lock: ", unlocked + ": fenced: "} {
		if !strings.Contains(broken, want) {
			t.Errorf("no %q in\n%s", want, broken)
		}
	}
	for _, w := range workloads {
		if said := holdfast + ": " + w + ": "; strings.Contains(broken, said) {
			t.Errorf("%q in\n%s", said, broken)
		}
	}
	if len(r.Faults) == 0 || len(r.Tables[0].Rows) != 6 || !strings.HasSuffix(r.Tables[0].After, ": 0 violations.") {
		t.Errorf("%+v", r.result)
	}
}

// play runs some peers of a kind for a time, with faults of clients only.
func play(t *testing.T, name string, seed uint64, duration time.Duration, peers ...peer) *run {
	t.Helper()
	t.Parallel()
	zkserver.NeedReal(t)
	k := kinds[kindIndex(name)]
	k.peers = peers
	r, err := k.run(t.Context(), settings{name, seed, duration, 1}, t.Output())
	iferr.Fatal(t, err)
	return r
}

// fallingTokens is a way to share shards that is wrong on purpose: each process works on a fixed part
// of the shards, with a lower token than an earlier write had.
const fallingTokens = "Holdfast, but with falling tokens"

type always struct{}

func (always) Remaining() time.Duration { return time.Hour }

func ownFixed(w *worker, ctx context.Context) error {
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
	r := play(t, "shards", 680, 6*time.Second, shardPeers[0], peerOf(shardPeers, fallingTokens))
	if len(r.broken) != 1 || !strings.HasPrefix(r.broken[0], fallingTokens) || !strings.Contains(r.broken[0], "writes of owners were refused") {
		t.Errorf("broken: %q", r.broken)
	}
	for _, row := range r.Tables[0].Rows {
		if writes, err := strconv.Atoi(row[1]); err != nil || writes < 4*shards {
			t.Errorf("%s: only %s writes", row[0], row[1])
		}
	}
}

// TestTicks: in a few seconds package schedule runs each tick once, although replicas' clocks are
// off, and gocron without locks is caught.
func TestTicks(t *testing.T) {
	r := play(t, "ticks", 1, 5*time.Second, tickPeers[0], peer{name: unlocked, servers: nothing})
	if len(r.broken) != 1 || !strings.HasPrefix(r.broken[0], unlocked) || !strings.HasSuffix(r.broken[0], "ticks ran twice") {
		t.Errorf("broken: %q", r.broken)
	}
	for _, row := range r.Tables[0].Rows {
		if n, err := strconv.Atoi(row[1]); err != nil || n < 5 || n > 30 {
			t.Errorf("%s: %s ticks in 5 s and a fault", row[0], row[1])
		}
	}
}

// TestPage: README.md shows the results of results.jsonl. publish replaces a result of the same kind,
// seed and servers, and adds others beside those of their kind.
func TestPage(t *testing.T) {
	results := checkPage(t, ".")
	dir := t.TempDir()
	for name, text := range map[string]string{page: "before\n" + pageBegin + "old\n" + pageEnd + "after\n", resultsFile: ""} {
		iferr.Fatal(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	again, last := results[0], results[len(results)-1]
	again.Seed++
	for _, r := range []result{last, results[0], results[0], again} {
		iferr.Fatal(t, publish(dir, r))
	}
	if got := checkPage(t, dir); len(got) != 3 || got[0].Seed != results[0].Seed || got[1].Seed != again.Seed || got[2].Kind != last.Kind {
		t.Errorf("%+v", got)
	}
}

// checkPage compares the page of a folder with its results.
func checkPage(t *testing.T, dir string) []result {
	t.Helper()
	results, err := readResults(dir)
	if err != nil || len(results) == 0 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	written, err := os.ReadFile(filepath.Join(dir, page))
	iferr.Fatal(t, err)
	_, rest, _ := strings.Cut(string(written), pageBegin)
	if got, _, ok := strings.Cut(rest, pageEnd); !ok || got != text(results...)+"\n" {
		t.Errorf("%s/%s does not show the results", dir, page)
	}
	return results
}

// TestCommand: each wrong argument is an error, and none starts a server.
func TestCommand(t *testing.T) {
	for _, args := range []string{"-kind x", "-duration 1ms", "-servers 2", "-seed x", "more"} {
		if got := command(t.Context(), strings.Fields(args)); got != exitUnknown {
			t.Errorf("%s: %d", args, got)
		}
	}
}
