//go:build unix

// Package examples_test runs the examples as processes, on a ZooKeeper in memory.
package examples_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// bin has the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(main(m)) }

func main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "examples")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bin = dir
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "./...").CombinedOutput(); err != nil {
		panic(err.Error() + "\n" + string(out))
	}
	return m.Run()
}

// world is a ZooKeeper in memory, and processes whose lines come in the order in which they were
// written: the processes share one pipe.
type world struct {
	*testing.T
	ctx     context.Context
	servers string
	writes  *os.File
	lines   *bufio.Scanner
	said    []string
}

// limit is far longer than any test takes.
const limit = 5 * time.Minute

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	_, server := localhost.InMemory(t, locktest.Options{})
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	context.AfterFunc(ctx, func() { writes.Close() }) // so that no test reads for ever
	t.Cleanup(func() {
		cancel()
		reads.Close()
	})
	return &world{T: t, ctx: ctx, servers: server, writes: writes, lines: bufio.NewScanner(reads)}
}

// start starts an example. Its lines are in lines.
func (w *world) start(name string, args ...string) *exec.Cmd {
	w.Helper()
	cmd := exec.CommandContext(w.ctx, filepath.Join(bin, name), args...)
	cmd.Env = append(os.Environ(), "HOLDFAST_ZOOKEEPER="+w.servers)
	cmd.Stdout, cmd.Stderr = w.writes, w.writes
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	return cmd
}

// until reads lines until n of all lines contain text. It returns these.
func (w *world) until(n int, text string) []string {
	w.Helper()
	for len(grep(w.said, text)) < n {
		if !w.lines.Scan() {
			w.Fatalf("fewer than %d lines have %q: %q", n, text, w.said)
		}
		w.said = append(w.said, w.lines.Text())
	}
	return grep(w.said, text)
}

// end waits until the processes have ended, after an interrupt if they are to be stopped. It returns
// all lines that they have written.
func (w *world) end(stop bool, all ...*exec.Cmd) []string {
	w.Helper()
	if stop {
		for _, cmd := range all {
			w.interrupt(cmd)
		}
	}
	w.writes.Close()
	for w.lines.Scan() {
		w.said = append(w.said, w.lines.Text())
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			w.Error(err)
		}
	}
	return w.said
}

func (w *world) interrupt(cmd *exec.Cmd) {
	w.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		w.Error(err)
	}
}

// stop interrupts a process and waits until it has ended.
func (w *world) stop(cmd *exec.Cmd) {
	w.Helper()
	w.interrupt(cmd)
	if err := cmd.Wait(); err != nil {
		w.Error(err)
	}
}

// most returns how many processes were at most between a line with begin and one with end, and how
// many began.
func most(lines []string, begin, end string) (highest, began int) {
	now := 0
	for _, line := range lines {
		switch {
		case strings.Contains(line, begin):
			now++
			began++
		case strings.Contains(line, end):
			now--
		}
		highest = max(highest, now)
	}
	return highest, began
}

// TestMutex: two processes ship one after the other.
func TestMutex(t *testing.T) {
	w := newWorld(t)
	lines := w.end(false, w.start("mutex"), w.start("mutex"))
	if highest, began := most(lines, "shipping", "shipped"); highest != 1 || began != 2 {
		t.Errorf("%d of %d shipped at once: %q", highest, began, lines)
	}
}

// TestMutexIsStopped: an interrupt ends the work.
func TestMutexIsStopped(t *testing.T) {
	w := newWorld(t)
	p := w.start("mutex")
	w.until(1, "shipping")
	if lines := w.end(true, p); len(lines) != 1 {
		t.Errorf("it says %q", lines)
	}
}

// TestRWMutex: no process reads or writes while another one writes.
func TestRWMutex(t *testing.T) {
	w := newWorld(t)
	all := []*exec.Cmd{w.start("rwmutex"), w.start("rwmutex", "write"), w.start("rwmutex"), w.start("rwmutex", "write")}
	lines := w.end(false, all...)
	readers, writers := 0, 0
	for _, line := range lines {
		_, what, _ := strings.Cut(line[len("2006/01/02 "):], " ")
		switch what {
		case "reading":
			readers++
		case "done reading":
			readers--
		case "writing":
			writers++
		case "done writing":
			writers--
		}
		if writers > 0 && readers+writers > 1 {
			t.Errorf("%d writers and %d readers at once: %q", writers, readers, lines)
		}
	}
	if len(lines) != 8 || readers+writers != 0 {
		t.Errorf("they say %q", lines)
	}
}

// TestSemaphore: of ten exports in two processes two run at once.
func TestSemaphore(t *testing.T) {
	w := newWorld(t)
	lines := w.end(false, w.start("semaphore"), w.start("semaphore"))
	if highest, began := most(lines, "begins", "ended"); highest != 2 || began != 10 {
		t.Errorf("%d of %d ran at once: %q", highest, began, lines)
	}
}

// TestElection: a candidate leads when the leader is stopped.
func TestElection(t *testing.T) {
	w := newWorld(t)
	first := w.start("election")
	w.until(1, "leads, token")
	second := w.start("election")
	w.until(2, "the leader is")
	w.stop(first)
	w.until(1, "leads no longer")
	w.until(2, "leads, token")
	w.end(true, second)
}

// TestJob: of two replicas one runs each tick.
func TestJob(t *testing.T) {
	w := newWorld(t)
	one, two := w.start("job"), w.start("job")
	ran := map[string]bool{}
	for _, line := range w.until(2, "runs the tick") {
		_, tick, _ := strings.Cut(line, "the tick")
		ran[tick] = true
	}
	if len(ran) != 2 {
		t.Errorf("a tick ran twice: %q", w.said)
	}
	w.end(true, one, two)
}

// TestShards: each of two replicas owns shards, and one that stays owns all of them.
func TestShards(t *testing.T) {
	w := newWorld(t)
	first := w.start("shards")
	w.until(8, "owns shard")
	second := w.start("shards")
	w.until(9, "owns shard") // the second replica has one
	w.stop(first)            // before it ends, the second one owns the others
	lines := w.end(true, second)
	if owned, gone := len(grep(lines, "owns shard")), len(grep(lines, "gives back shard")); owned != 16 || gone != 16 {
		t.Errorf("shards were owned %d times, and given back %d times: %q", owned, gone, lines)
	}
}

func grep(lines []string, text string) (found []string) {
	for _, line := range lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
