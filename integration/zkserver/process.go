package zkserver

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a child that cannot outlive us.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it is gone; then err is set
	err    error
}

// startProcess starts a command in a process group of its own. It dies with us.
//
// The kernel's parent-death signal comes when the *thread* that started the
// child ends, which may be long before our process does. So one goroutine, tied
// to its thread, starts the child and waits for its end: the thread lives
// exactly as long as the child.
func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	p := &process{cmd: cmd, exited: make(chan struct{})}
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

// kill kills the process, paused or not, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it is gone
	<-p.exited
}

// terminate asks the process to end and reports whether it did so in time; if
// not, it was killed. Either way it is gone.
func (p *process) terminate(timeout time.Duration) bool {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // a paused one hears nothing
	select {
	case <-p.exited:
		return true
	case <-time.After(timeout):
		p.kill()
		return false
	}
}
