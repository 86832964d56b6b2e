package supervise

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// leash is a message to the guard: the group to kill, and the time at which to kill it. It is one
// line of two decimal numbers on the pipe: the group's id, and nanoseconds of CLOCK_BOOTTIME.
type leash struct {
	group int
	until time.Duration
}

func (l leash) encode() []byte { return fmt.Appendf(nil, "%d %d\n", l.group, l.until.Nanoseconds()) }

// decodeLeash decodes a line without its line break.
func decodeLeash(line []byte) (leash, error) {
	group, until, _ := bytes.Cut(line, []byte(" "))
	id, err1 := strconv.ParseInt(string(group), 10, 32)
	ns, err2 := strconv.ParseInt(string(until), 10, 64)
	// Group 1 would mean all processes: kill(-1) signals all that it may signal.
	if err1 != nil || err2 != nil || id <= 1 {
		return leash{}, fmt.Errorf("%q is no process group and time", line)
	}
	return leash{int(id), time.Duration(ns)}, nil
}

// armed is the guard's answer to the first leash.
const armed = "armed\n"

// guard is the supervisor's side of the guard's process.
type guard struct {
	pid    int
	news   *os.File      // the pipe for leashes
	opened chan struct{} // closed when the gate is open, or will never open
	reaped atomic.Bool   // the process has ended, and was waited for
}

// startGuard starts the guard of a lock's command. In the background it opens the gate when the guard
// is armed. If the guard dies first, startGuard closes the gate without opening it.
func startGuard(lock string, gate *os.File) (*guard, error) {
	in, news, err := os.Pipe()
	if err != nil {
		gate.Close()
		return nil, err
	}
	defer in.Close()
	answers, out, err := os.Pipe()
	if err != nil {
		gate.Close()
		news.Close()
		return nil, err
	}
	defer out.Close()
	child, err := os.StartProcess(self, []string{guardName, lock}, &os.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []*os.File{in, out, os.Stderr},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		gate.Close()
		news.Close()
		answers.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	g := &guard{pid: child.Pid, news: news, opened: make(chan struct{})}
	_ = child.Release() // reap waits for it by its pid
	go func() {
		defer close(g.opened)
		answer, err := io.ReadAll(answers)
		if err == nil && string(answer) == armed {
			_, _ = gate.Write([]byte{1}) // fails if the command was killed
		}
		answers.Close()
		gate.Close()
	}()
	return g, nil
}

// tell sends the guard a leash. It does not wait if the guard does not read, for example because it
// is stopped: a pipe takes a line as a whole or not at all. A write deadline would not do. It could
// pass before the first try, and the command would start only at the next renewal.
func (g *guard) tell(l leash) {
	news, err := g.news.SyscallConn()
	if err != nil {
		return // the guard was dismissed
	}
	// An error needs no action here. If the pipe is full, the guard kills at the previous time,
	// which is earlier. If the guard has died, watch reports it.
	_ = news.Write(func(fd uintptr) bool {
		_, err := unix.Write(int(fd), l.encode())
		for err == unix.EINTR {
			_, err = unix.Write(int(fd), l.encode())
		}
		return true
	})
}

// dismiss ends the guard without killing the group.
func (g *guard) dismiss() {
	if !g.reaped.Load() {
		_ = unix.Kill(g.pid, unix.SIGKILL)
		g.reap()
	}
	g.news.Close()
	<-g.opened
}

func (g *guard) reap() {
	reap(g.pid)
	g.reaped.Store(true)
}

// guardMain is the guard's program. It reads leashes, and confirms the first one. It kills the group at
// the time of the latest leash, or when the pipe closes.
func guardMain(lock string) int {
	// A service manager that ends the whole service also signals the guard, which must stay until
	// the command has ended. The guard must not die of a closed standard error either.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE)
	group, why := keepWatch(os.Stdin, os.Stdout)
	if group == 0 {
		return 0 // there is no command yet
	}
	if err := unix.Kill(-group, unix.SIGKILL); err != nil && err != unix.ESRCH {
		fmt.Fprintf(os.Stderr, "holdfast guard: lock %q: %s: process group %d cannot be killed: %v\n", lock, why, group, err)
		return 1
	}
	fmt.Fprintf(os.Stderr, "holdfast guard: lock %q: %s: killed the command's process group %d\n", lock, why, group)
	return 0
}

// keepWatch waits until it is time to kill the group, and returns the group and the reason. Every
// error is a reason to kill. The group is 0 if there was no leash.
func keepWatch(in *os.File, out io.WriteCloser) (group int, why string) {
	timer, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Sprintf("no timer: %v", err)
	}
	defer unix.Close(timer)
	fds := []unix.PollFd{
		{Fd: int32(in.Fd()), Events: unix.POLLIN},
		{Fd: int32(timer), Events: unix.POLLIN},
	}
	var text []byte
	buffer := make([]byte, 4096)
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return group, fmt.Sprintf("no news can be had: %v", err)
		case fds[0].Revents == 0: // read messages first: they may extend the time
			return group, "its lease ends and no renewal was told of"
		}
		n, err := in.Read(buffer)
		if err != nil {
			return group, "holdfast run has died"
		}
		text = append(text, buffer[:n]...)
		for {
			line, rest, whole := bytes.Cut(text, []byte("\n"))
			if !whole {
				break
			}
			text = rest
			l, err := decodeLeash(line)
			if err != nil {
				return group, err.Error()
			}
			// At least 1, because 0 would disarm the timer.
			at := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, l.until.Nanoseconds()))}
			if err := unix.TimerfdSettime(timer, unix.TFD_TIMER_ABSTIME, &at, nil); err != nil {
				return l.group, fmt.Sprintf("no timer: %v", err)
			}
			if group == 0 {
				_, _ = io.WriteString(out, armed) // fails if holdfast run has ended, which the next read from in shows
				out.Close()
			}
			group = l.group
		}
	}
}
