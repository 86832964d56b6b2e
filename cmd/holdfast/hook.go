package main

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/group"
)

// hookTime is how long a hook may still run when its command has ended and the lock was
// given back.
const hookTime = 10 * time.Second

// shell is what runs hooks: on Windows the one that comes with Git, if it is in the path.
var shell = map[bool]string{true: "sh.exe", false: "/bin/sh"}[runtime.GOOS == "windows"]

// hook is a shell command that is run when something happens to the lock, beside the
// command that holds it. It has a process group of its own, no input, and our standard
// error as its output. All methods are safe for concurrent use.
type hook struct {
	flag string // that gave it
	env  []string

	mu     sync.Mutex
	script string // for the shell; "": there is none
	pid    int
	ended  chan struct{} // closed when the last run has; nil: there was none
}

// start runs the hook with more in its environment, unless it runs already. It does not
// wait for it.
func (h *hook) start(env ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.script == "" || h.isRunning() {
		return
	}
	cmd := exec.Command(shell, "-c", h.script)
	cmd.Env, cmd.Stdout, cmd.Stderr = slices.Concat(h.env, env), os.Stderr, os.Stderr
	cmd.SysProcAttr = group.Own()
	if err := cmd.Start(); err != nil {
		tell("%s: %v", h.flag, err)
		return
	}
	ended := make(chan struct{})
	h.pid, h.ended = cmd.Process.Pid, ended
	go func() {
		_ = cmd.Wait() // fails, too, if the wait for all our children was quicker
		close(ended)
	}()
}

// isRunning reports whether the hook was started and has not ended; h.mu is held.
func (h *hook) isRunning() bool {
	select {
	case <-h.ended:
		return false
	default:
		return h.ended != nil
	}
}

// end waits until the hook has ended, and no longer than until the deadline: then it is
// killed, with all of its group. It is not started any more.
func (h *hook) end(deadline time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.script = ""
	if !h.isRunning() {
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-h.ended:
	case <-timer.C:
		tell("%s: still runs, and is ended", h.flag)
		group.Kill(h.pid)
		<-h.ended
	}
}
