package zkserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// watchProcess returns a function that waits for the end of a process, which need not be a child.
func watchProcess(t *testing.T, pid int) (awaitEnd func()) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func() {
		t.Helper()
		deadline := time.Now().Add(patience)
		for {
			events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(events, int(time.Until(deadline).Milliseconds()))
			if err == unix.EINTR {
				continue
			}
			iferr.Fatal(t, err)
			if n == 0 {
				t.Fatalf("process %d lives on", pid)
			}
			return
		}
	}
}

// helper is another process that started a server and, with Main, a shared one.
type helper struct {
	*Worker
	pid               int // of the server's process
	addr, dir, shared string
}

func startHelper(t *testing.T, mode string) *helper {
	NeedReal(t)
	t.Helper()
	t.Setenv(EnvServers, "")
	// Detect and remove what the helper leaves behind.
	t.Setenv("TMPDIR", t.TempDir())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envHelper+"="+mode)
	w, err := StartWorker(cmd)
	iferr.Fatal(t, err)
	t.Cleanup(func() { w.Close(0) })
	line, err := w.Hear(t.Context())
	iferr.Fatal(t, err)
	h := &helper{Worker: w}
	if n, err := fmt.Sscanln(line.Text, &h.pid, &h.addr, &h.dir, &h.shared); n < 3 {
		t.Fatalf("the helper says %q: %v", line.Text, err)
	}
	return h
}

func leftovers(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "holdfast-zookeeper-*"))
	iferr.Fatal(t, err)
	return left
}

func TestServerDiesWithItsParent(t *testing.T) {
	h := startHelper(t, "start")
	if _, err := fourLetter(t.Context(), h.addr, "srvr"); err != nil {
		t.Fatal("before:", err)
	}
	awaitEnd := watchProcess(t, h.pid)
	h.Kill()
	awaitEnd()
	if _, err := fourLetter(t.Context(), h.addr, "srvr"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after: %v", err)
	}
}

func TestPausedServerStandsStill(t *testing.T) {
	s := ForTest(t, Options{})
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.Pid()))
	if err != nil || len(tasks) < 2 {
		t.Fatal(tasks, err)
	}
	for range 50 {
		iferr.Fatal(t, s.Pause())
		for _, task := range tasks {
			stat, err := os.ReadFile(task)
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue // the thread has ended since
			}
			iferr.Fatal(t, err)
			if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T ") {
				t.Fatalf("%s: %s", task, stat)
			}
		}
		iferr.Fatal(t, s.Resume())
	}
	if err := s.Pause(); err != nil { // the Stop at the end of the test must continue the server
		t.Fatal(err)
	}
}

func TestMainStopsTheServers(t *testing.T) {
	for _, test := range []struct {
		name, mode string
		end        func(h *helper)
		code       int
		message    string
	}{
		{"at the end", "main", func(h *helper) { h.EndInput() }, 0, ""},
		{"on SIGINT", "main", func(h *helper) { h.Signal(syscall.SIGINT) }, 1, "interrupted"},
		{"on SIGTERM", "main", func(h *helper) { h.Signal(syscall.SIGTERM) }, 1, "interrupted"},
		{"that a test forgot", "main-forgets", func(h *helper) { h.EndInput() }, 1, "StartProcess"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := startHelper(t, test.mode)
			if _, err := fourLetter(t.Context(), h.shared, "srvr"); err != nil {
				t.Error("the shared server:", err)
			}
			if n := len(leftovers(t)); n != 2 {
				t.Errorf("%d folders while two servers run", n)
			}
			if group, err := syscall.Getpgid(h.pid); group != h.pid {
				t.Errorf("server %d is in group %d, %v: Ctrl-C in the terminal reaches it too", h.pid, group, err)
			}
			awaitEnd := watchProcess(t, h.pid)
			test.end(h)
			<-h.Exited()
			if code := h.ExitCode(); code != test.code {
				t.Errorf("exit status %d: want %d", code, test.code)
			}
			if got := h.Stderr(); !strings.Contains(got, test.message) || test.message == "" && got != "" {
				t.Errorf("stderr %q: want %q", got, test.message)
			}
			awaitEnd()
			if _, err := fourLetter(t.Context(), h.shared, "srvr"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("the shared server still answers: %v", err)
			}
			if left := leftovers(t); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
