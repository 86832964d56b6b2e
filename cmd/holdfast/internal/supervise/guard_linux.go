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

// leash is what the guard is told, each time anew: which group to kill, and when
// at the latest. It goes over the pipe as one line of two decimal numbers: the
// group's id, and nanoseconds of CLOCK_BOOTTIME.
type leash struct {
	group int
	until time.Duration
}

func (l leash) encode() []byte { return fmt.Appendf(nil, "%d %d\n", l.group, l.until.Nanoseconds()) }

// decodeLeash decodes a line, given without the line break.
func decodeLeash(line []byte) (leash, error) {
	group, until, _ := bytes.Cut(line, []byte(" "))
	id, err1 := strconv.ParseInt(string(group), 10, 32)
	ns, err2 := strconv.ParseInt(string(until), 10, 64)
	// Group 1 would be all processes: kill(-1) signals every one.
	if err1 != nil || err2 != nil || id <= 1 {
		return leash{}, fmt.Errorf("%q is no process group and time", line)
	}
	return leash{int(id), time.Duration(ns)}, nil
}

// armed is what the guard answers to the first leash.
const armed = "armed\n"

// guard is the guard's process, as the supervisor sees it.
type guard struct {
	pid    int
	news   *os.File
	opened chan struct{} // closed when the gate is open, or will never be
	reaped atomic.Bool
}

// startGuard starts the guard of a lock's command. When it is armed, it opens the
// gate; if it dies before, it closes it unopened.
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
	_ = child.Release() // we wait for it by its id
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

// tell sends the guard a leash. One that does not read, because it is stopped, is
// not waited for: a pipe takes a line whole or not at all. It has no deadline, which
// could pass before the first try: the command would start at the next look only.
func (g *guard) tell(l leash) {
	news, err := g.news.SyscallConn()
	if err != nil {
		return // it was dismissed
	}
	// What fails needs nothing done here: a full pipe's guard kills by what it was told
	// before, which is earlier, and watch tells of one that has died.
	_ = news.Write(func(fd uintptr) bool {
		_, err := unix.Write(int(fd), l.encode())
		for err == unix.EINTR {
			_, err = unix.Write(int(fd), l.encode())
		}
		return true
	})
}

// dismiss ends the guard: it kills no process any more.
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

// guardMain is the guard's program: it reads leashes, tells when it has the first,
// and kills the group when its time has come or the pipe closes.
func guardMain(lock string) int {
	// A service manager that ends all our processes signals this one too; but it is
	// here for a command that does not end. And it must not die of a closed stderr.
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

// keepWatch returns when it is time to kill a group, and why it is. The group is 0
// if it was told of none. Whatever goes wrong is a reason to kill.
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
		case fds[0].Revents == 0: // news first: it may say that it is not time yet
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
			at := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, l.until.Nanoseconds()))} // 0 would disarm it
			if err := unix.TimerfdSettime(timer, unix.TFD_TIMER_ABSTIME, &at, nil); err != nil {
				return l.group, fmt.Sprintf("no timer: %v", err)
			}
			if group == 0 {
				_, _ = io.WriteString(out, armed) // fails if holdfast run has died: in tells
				out.Close()
			}
			group = l.group
		}
	}
}
