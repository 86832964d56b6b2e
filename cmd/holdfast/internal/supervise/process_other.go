//go:build unix && !linux

package supervise

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

var begin = time.Now()

// now is the time on this process's monotonic clock.
func now() time.Duration { return time.Since(begin) }

// process is the command and its group. There is no guard.
type process struct {
	pid    int
	cmd    *exec.Cmd
	events chan event
}

func start(_ string, c Command) (*process, error) {
	cmd := &exec.Cmd{
		Path: c.Path, Args: c.Args, Env: c.Env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, cmd: cmd, events: make(chan event)}
	go func() {
		_ = cmd.Wait() // its state tells
		p.events <- ended
	}()
	return p, nil
}

func (p *process) allow(time.Duration)     {}
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.pid, s) }
func (p *process) suspend()                {}
func (p *process) resume()                 { p.signal(syscall.SIGCONT) }

func (p *process) finish() syscall.WaitStatus {
	p.signal(syscall.SIGKILL)
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// Helper is for systems with a guard.
func Helper() {}
