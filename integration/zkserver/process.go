package zkserver

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a child of ours that cannot outlive us: a server, or a client of it
// that is a process of its own.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it is gone; then err is set
	err    error
}

// StartProcess starts a command in a process group of its own, so that Ctrl-C in
// the terminal reaches only us. On Linux it dies with us, however we end. What the
// command says of its credentials holds.
//
// The kernel's parent-death signal comes when the *thread* that started the
// child ends, which may be long before our process does. So one goroutine, tied
// to its thread, starts the child and waits for its end: the thread lives
// exactly as long as the child.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr)
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited is closed when the process is gone. [Process.Err] says how it ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns, once the process is gone, nil if its exit status was 0, or else
// what [exec.Cmd.Wait] told.
func (p *Process) Err() error { return p.err }

// ExitCode returns the exit status of a process that is gone, -1 if a signal has
// ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends the process a signal. It fails if the process is gone.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill kills the process, stopped or not, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it is gone
	<-p.exited
}

// terminate asks the process to end and reports whether it did so in time; if
// not, it was killed. Either way it is gone.
func (p *Process) terminate(timeout time.Duration) bool {
	_ = p.Signal(syscall.SIGTERM)
	_ = p.Signal(syscall.SIGCONT) // a stopped one hears nothing
	select {
	case <-p.exited:
		return true
	case <-time.After(timeout):
		p.Kill()
		return false
	}
}
