package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Command is a program to run with this process's standard files.
type Command struct {
	Path string   // path of the file to execute
	Args []string // Args[0] is the program's name
	Env  []string
}

// Hold is the part of [github.com/holdfast-io/holdfast/lock.Hold] that a supervisor uses.
type Hold interface {
	Name() string
	Remaining() time.Duration
	Context() context.Context
	Err() error
}

// Result tells how a command has ended.
type Result struct {
	// Status is the exit status as a shell returns it: the command's own, or 128 plus the number
	// of the signal that ended it.
	Status int
	// Ended says why the command was ended early, to protect the lock. It is nil if the command ended
	// by itself.
	Ended error
}

// Run runs the command while the hold lasts. ttl is the length of a renewed lease. Run returns when
// the command and its whole process group have ended. Meanwhile it forwards signals to the group.
//
// If ctx has ended before the start, Run does not start the command, and returns the context's cause.
// After the start ctx has no effect. Run calls tell with a message at each action that protects the
// lock. Before this process stops itself, Run calls flush, which must wait until the messages are
// written, but not for long. A process must not call Run twice at a time: Run waits for all children
// of the process.
func Run(ctx context.Context, hold Hold, ttl time.Duration, cmd Command, tell func(format string, args ...any), flush func()) (Result, error) {
	signals := make(chan os.Signal, 16)
	for _, s := range append(passedOn, syscall.SIGPIPE) { // SIGPIPE: survive a closed stderr
		if !signal.Ignored(s) { // a signal that nohup ignores stays ignored, by the command too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	if ctx.Err() != nil { // checked after Notify, so that no signal is lost in between
		return Result{}, context.Cause(ctx)
	}
	// The kernel kills the command when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := start(hold.Name(), cmd)
	if err != nil {
		return Result{}, err
	}
	s := &supervisor{hold: hold, leads: leadsFor(ttl), process: p, tell: tell, flush: flush}
	s.loop(signals)
	if n := p.others(); n > 0 && !s.killed {
		tell("the command has ended, and left processes running (%d): they are killed, since the lock is given up", n)
	}
	return Result{Status: exitStatus(p.finish()), Ended: s.why}, nil
}

// supervisor is one run of a command.
type supervisor struct {
	hold    Hold
	leads   leads
	process *process
	tell    func(format string, args ...any)
	flush   func()

	end    time.Duration // end of the lease, on the clock of now
	until  time.Duration // time at which the guard kills, on the same clock
	asked  bool          // SIGTERM was sent
	killed bool          // SIGKILL was sent
	why    error         // reason of the first signal
}

// loop supervises the command until it has ended.
func (s *supervisor) loop(signals <-chan os.Signal) {
	lost := s.hold.Context().Done()
	timer := time.NewTimer(s.look())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(s.look())
		case <-lost:
			lost = nil
			s.kill(s.hold.Err())
		case sig := <-signals:
			s.pass(sig.(syscall.Signal))
		case e := <-s.process.events:
			switch e.what {
			case stopped:
				s.process.suspend(e.signal, s.tell, s.flush)
			case unguarded:
				s.kill(fmt.Errorf("lock %q: the process that guards the command has died", s.hold.Name()))
			case ended:
				if now() >= s.until { // this process was late, and the guard has killed the command
					s.kill(s.lapse())
				}
				return
			}
		}
	}
}

// look takes the action that is due, and returns the time until the next call.
func (s *supervisor) look() time.Duration {
	action, wait := s.leads.decide(s.left(), s.asked)
	switch action {
	case terminate:
		s.asked, s.why = true, s.lapse()
		s.tell("%v: the command is asked to end", s.why)
		s.pass(syscall.SIGTERM)
	case kill:
		s.kill(s.lapse())
	}
	return wait
}

// left returns how much of the lease is surely left, and informs the guard.
func (s *supervisor) left() time.Duration {
	before := now()
	if left := s.hold.Remaining(); left > 0 {
		s.end, s.until = before+left, before+left-s.leads.kill
		s.process.allow(s.until)
	}
	// If Remaining is 0, the hold is lost, or it is in doubt until a renewal, because the machine
	// was suspended or its clock was set. In both cases the earlier end still counts.
	return s.end - now()
}

// lapse returns the error for a lease that is not renewed.
func (s *supervisor) lapse() error {
	return fmt.Errorf("lock %q: its lease ends in %v and is not renewed",
		s.hold.Name(), max(0, s.end-now()).Round(time.Millisecond))
}

// kill kills the group at once. The first call also records why, unless a reason is known, and tells
// the user.
func (s *supervisor) kill(why error) {
	err := s.process.signal(syscall.SIGKILL)
	if s.killed {
		return
	}
	s.killed = true
	if s.why == nil {
		s.why = why
	}
	if errors.Is(err, syscall.EPERM) {
		s.tell("%v: the command cannot be ended: it has become another user's; it goes on without the lock", why)
		return
	}
	s.tell("%v: the command is ended", why)
}

// event is a change of the command or of its guard.
type event struct {
	what   happening
	signal syscall.Signal // the signal that has stopped the command
}

type happening int

const (
	ended     happening = iota // the command has ended; it is not reaped yet
	stopped                    // a signal has stopped the command
	unguarded                  // the guard has died
)

func exitStatus(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// CannotRun returns a shell's exit status for a program that was not found or cannot be executed.
func CannotRun(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}
