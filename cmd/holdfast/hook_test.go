//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// fifo returns a new named pipe, and a reader of its lines.
func fifo(t *testing.T) (path string, lines *bufio.Reader) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fifo")
	iferr.Fatal(t, syscall.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0) // so that an open need not wait for a writer
	iferr.Fatal(t, err)
	t.Cleanup(func() { f.Close() })
	return path, bufio.NewReader(f)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	iferr.Fatal(t, err)
	return strings.TrimSpace(text)
}

// TestHook: a hook gets its variables, without zero bytes, does not start while it runs, can run again, and does not
// start after end.
func TestHook(t *testing.T) {
	out, said := fifo(t)
	in, _ := fifo(t)
	h := &hook{flag: "--on-risk", env: []string{"HOLDFAST_LOCK=x", "HOLDFAST_LEFT=outer"}, script: `echo "$HOLDFAST_LOCK $HOLDFAST_LEFT" >` + out + `; read line <` + in}
	proceed := func() {
		iferr.Fatal(t, os.WriteFile(in, []byte("go on\n"), 0))
	}
	for _, left := range []string{"14", "1\x003"} {
		h.start("HOLDFAST_LEFT=" + left)
		h.start("HOLDFAST_LEFT=beside")
		if got := line(t, said); got != "x "+strings.ReplaceAll(left, "\x00", "") {
			t.Errorf("the hook says %q", got)
		}
		proceed()
		<-h.ended
	}
	h.end(time.Now())
	h.start()
	if h.ended == nil || h.isRunning() {
		t.Error("it runs after its end")
	}
	none := &hook{flag: "--on-lost"}
	none.start()
	none.end(time.Now())
}

// TestHookIsEnded: end waits for a short hook, and kills a long one with its whole group.
func TestHookIsEnded(t *testing.T) {
	out, said := fifo(t)
	h := &hook{flag: "--on-risk", script: `trap "" TERM; sleep 1000 & echo $! >` + out + `; wait`}
	h.start()
	line(t, said)
	group := h.pid
	h.end(time.Now())
	if h.isRunning() {
		t.Error("it still runs")
	}
	for { // init reaps orphaned children
		err := syscall.Kill(-group, 0)
		if errors.Is(err, syscall.ESRCH) || zombies(t, group) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	file := filepath.Join(t.TempDir(), "done")
	h = &hook{flag: "--on-lost", script: "sleep 0.1; touch " + file}
	h.start()
	h.end(time.Now().Add(time.Minute))
	iferr.Error(t, iferr.Of(os.Stat(file)))
}

// zombies reports whether the process group has no process left except zombies.
func zombies(t *testing.T, group int) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	iferr.Fatal(t, err)
	for _, file := range files {
		text, _ := os.ReadFile(file)
		_, after, _ := strings.Cut(string(text), ") ") // state, parent, group
		if f := strings.Fields(after); len(f) > 2 && f[0] != "Z" && f[2] == strconv.Itoa(group) {
			return false
		}
	}
	return true
}
