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

// Command is a program to be run with our standard files.
type Command struct {
	Path string   // of the file to execute
	Args []string // Args[0] is the name that the program is told
	Env  []string
}

// Hold is a hold of a lock, as [github.com/holdfast-io/holdfast/lock.Hold] is one.
type Hold interface {
	Name() string
	Remaining() time.Duration
	Context() context.Context
	Err() error
}

// Result is how a command ended.
type Result struct {
	// Status is the exit status as a shell gives it: the command's own, or 128
	// plus the number of the signal that ended it.
	Status int
	// Ended says why the command was ended before its time, to protect the
	// lock; nil if it was not.
	Ended error
}

// Run runs the command while the hold lasts, whose lease is renewed to ttl, and
// returns when the command and all that it left in its process group has ended.
// Signals are passed on to the group meanwhile. If ctx has ended before the
// command is started, it is not started, and the error is the context's cause;
// later the context does not matter. Tell gets a line for people when something
// is done for the lock's sake; flush waits a moment until it is written, before this process
// stops itself. Only one Run at a time: it waits for all children of
// this process.
func Run(ctx context.Context, hold Hold, ttl time.Duration, cmd Command, tell func(format string, args ...any), flush func()) (Result, error) {
	signals := make(chan os.Signal, 16)
	for _, s := range append(passedOn, syscall.SIGPIPE) { // SIGPIPE: not to die of a closed stderr
		if !signal.Ignored(s) { // by nohup, say: then it stays so, for the command too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	if ctx.Err() != nil { // from here on no signal gets lost
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
	return Result{Status: exitStatus(p.finish()), Ended: s.why}, nil
}

// supervisor is one run of a command.
type supervisor struct {
	hold    Hold
	leads   leads
	process *process
	tell    func(format string, args ...any)
	flush   func()

	end    time.Duration // of the lease, on the clock of now
	until  time.Duration // when the guard kills
	asked  bool          // SIGTERM was sent
	killed bool          // SIGKILL was sent
	why    error         // for the first of these
}

// loop looks after the command until it has ended.
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
				if now() >= s.until { // we were late, and the guard was not
					s.kill(s.lapse())
				}
				return
			}
		}
	}
}

// look does what is to be done at this time, and returns when to look again.
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

// left returns how much is surely left of the lease, and tells the guard.
func (s *supervisor) left() time.Duration {
	before := now()
	if left := s.hold.Remaining(); left > 0 {
		s.end, s.until = before+left, before+left-s.leads.kill
		s.process.allow(s.until)
	}
	// Otherwise the hold is lost; or in doubt, since the machine was suspended or
	// its clock was set, until a renewal: what was known before still stands.
	return s.end - now()
}

// lapse says that the lease is not renewed.
func (s *supervisor) lapse() error {
	return fmt.Errorf("lock %q: its lease ends in %v and is not renewed",
		s.hold.Name(), max(0, s.end-now()).Round(time.Millisecond))
}

// kill ends the group at once.
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

// event is what happens to the processes.
type event struct {
	what   happening
	signal syscall.Signal // by which the command is stopped
}

type happening int

const (
	ended     happening = iota // the command has; it is not reaped yet
	stopped                    // the command is, by a signal
	unguarded                  // the guard has died
)

func exitStatus(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// CannotRun returns the exit status of a shell for a program that could not be
// found or executed.
func CannotRun(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}
