package zkserver

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a child process that cannot outlive this one: a server, or a client.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it is gone; then err is set
	err    error
}

// StartProcess starts a command in its own process group, so that Ctrl-C in the terminal reaches
// only this process. On Linux the child dies with this process, however it ends. The command's
// credentials stay in force.
//
// The kernel sends the parent-death signal when the *thread* that started the child ends, which may
// be long before the process does. So one goroutine, locked to its thread, starts the child and
// waits for its end.
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

// Exited is closed when the process has ended. [Process.Err] has the result.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns nil if the process has ended with exit status 0, otherwise the error of
// [exec.Cmd.Wait].
func (p *Process) Err() error { return p.err }

// ExitCode returns the exit status of an ended process; -1 if a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends the process a signal. It fails if the process has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill kills the process, stopped or not, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it is gone
	<-p.exited
}

// Stop sends the process a signal to end, and kills it after the patience. The error says that the
// process had ended before, or had to be killed.
func (p *Process) Stop(s os.Signal, patience time.Duration) error {
	select {
	case <-p.exited:
		return fmt.Errorf("had died by itself: %v", p.err)
	default:
	}
	_ = p.Signal(s)
	_ = p.Signal(syscall.SIGCONT) // a stopped one hears nothing
	select {
	case <-p.exited:
		return nil
	case <-time.After(patience):
		p.Kill()
		return fmt.Errorf("had to be killed: it ran on for %v after %v", patience, s)
	}
}
