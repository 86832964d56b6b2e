//go:build unix && !linux

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

var begin = time.Now()

// now returns the time on this process's monotonic clock.
func now() time.Duration { return time.Since(begin) }

// process is the command and its group. There is no guard.
type process struct {
	pid    int
	cmd    *exec.Cmd
	events chan event
}

func start(_ string, c Command) (*process, error) {
	begin := func(c Command) (*exec.Cmd, error) {
		cmd := &exec.Cmd{
			Path: c.Path, Args: c.Args, Env: c.Env,
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		}
		return cmd, cmd.Start()
	}
	cmd, err := begin(c)
	if errors.Is(err, syscall.ENOEXEC) && c.isScript() {
		cmd, err = begin(c.underShell())
	}
	if err != nil {
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, cmd: cmd, events: make(chan event)}
	go func() {
		_ = cmd.Wait() // its state has the result
		p.events <- event{what: ended}
	}()
	return p, nil
}

func (p *process) allow(time.Duration)                                  {}
func (p *process) signal(s syscall.Signal) error                        { return syscall.Kill(-p.pid, s) }
func (p *process) suspend(syscall.Signal, func(string, ...any), func()) {}
func (p *process) resume()                                              { _ = p.signal(syscall.SIGCONT) }

func (p *process) finish() syscall.WaitStatus {
	_ = p.signal(syscall.SIGKILL)
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// Helper does nothing: only Linux has a guard.
func Helper() {}

// others returns 0: only Linux tells of the processes of a group.
func (p *process) others() int { return 0 }
