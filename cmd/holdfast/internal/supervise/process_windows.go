package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var begin = time.Now()

// now returns the time on this process's monotonic clock.
func now() time.Duration { return time.Since(begin) }

// process is the command, and the job that contains it and its children. When this process ends,
// Windows closes the last handle of the job, and ends all processes in the job. So there is no guard.
// Children that the command starts before it is put into the job are not in the job.
type process struct {
	cmd    *exec.Cmd
	job    windows.Handle
	events chan event
}

func start(_ string, c Command) (*process, error) {
	job, err := newJob()
	if err != nil {
		return nil, fmt.Errorf("make a job for the command: %w", err)
	}
	cmd := &exec.Cmd{
		Path: c.Path, Args: c.Args, Env: c.Env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP},
	}
	if err := cmd.Start(); err != nil {
		_ = windows.CloseHandle(job)
		return nil, err
	}
	if err := join(job, cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = windows.CloseHandle(job)
		return nil, fmt.Errorf("put the command into a job: %w", err)
	}
	p := &process{cmd: cmd, job: job, events: make(chan event)}
	go func() {
		_ = cmd.Wait() // its state has the result
		p.events <- event{what: ended}
	}()
	return p, nil
}

// newJob returns a job that ends its processes when its last handle is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

func join(job windows.Handle, pid int) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return windows.AssignProcessToJobObject(job, h)
}

func (p *process) allow(time.Duration) {}

// signal asks the command to end, by Ctrl-Break, or kills all processes in the job.
func (p *process) signal(s syscall.Signal) error {
	if s == syscall.SIGKILL {
		return windows.TerminateJobObject(p.job, 1)
	}
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.cmd.Process.Pid))
}

func (p *process) suspend(syscall.Signal, func(string, ...any), func()) {}

func (p *process) finish() syscall.WaitStatus {
	_ = p.signal(syscall.SIGKILL)
	_ = windows.CloseHandle(p.job)
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// Helper does nothing: only Linux has a guard.
func Helper() {}

// others returns 0: only Linux tells of the processes of a group.
func (p *process) others() int { return 0 }
