package zkserver

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitPaused waits until all threads of a child have stopped after SIGSTOP.
func awaitPaused(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// newSleeper returns a function that sleeps until a time, for one goroutine, and a function that
// closes its timer. The timer is the kernel's. Go's own may be a millisecond late in an idle
// process, and a sleep in a system call would block a processor.
func newSleeper() (sleepUntil func(time.Time), end func()) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil { // too many open files
		return func(t time.Time) { time.Sleep(time.Until(t)) }, func() {}
	}
	timer := os.NewFile(uintptr(fd), "timer")
	return func(t time.Time) {
		d := time.Until(t)
		if d <= 0 {
			return
		}
		err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
		if err == nil {
			_, err = timer.Read(make([]byte, 8))
		}
		if err != nil {
			time.Sleep(time.Until(t))
		}
	}, func() { timer.Close() }
}
