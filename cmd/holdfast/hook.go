package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/group"
)

// hookTime is how long a hook may run on after the command has ended and the lock was released.
const hookTime = 10 * time.Second

// shell is the program that runs hooks.
const shell = "/bin/sh"

// hook is a shell command that runs on an event of the lock, beside the command that holds the
// lock. It has its own process group, no input, and writes to this process's standard error. start
// and end are safe for concurrent use.
type hook struct {
	flag string // flag that set the script, for messages
	env  []string

	mu     sync.Mutex
	script string // command line for the shell; "": none
	pid    int
	ended  chan struct{} // closed when the last run has ended; nil: there was none
}

// start runs the hook with additional environment variables, unless it is running. It does not
// wait for the hook.
func (h *hook) start(env ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.script == "" || h.isRunning() {
		return
	}
	cmd := exec.Command(shell, "-c", h.script)
	cmd.Env, cmd.Stdout, cmd.Stderr = slices.Clone(h.env), os.Stderr, os.Stderr
	for _, kv := range env { // another client's text may have zero bytes, with which no process starts
		cmd.Env = append(cmd.Env, strings.ReplaceAll(kv, "\x00", ""))
	}
	cmd.SysProcAttr = group.Own()
	if err := cmd.Start(); err != nil {
		tell("%s: %v", h.flag, err)
		return
	}
	ended := make(chan struct{})
	h.pid, h.ended = cmd.Process.Pid, ended
	go func() {
		_ = cmd.Wait() // fails also if package supervise has reaped the hook
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

// end waits until the hook has ended. At the deadline it kills the hook's process group. Afterwards
// start has no effect.
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
