// Package app is what the commands of Holdfast share: their flags, the
// configuration that follows from them, the logger, the connection to ZooKeeper,
// and the exit statuses.
//
// A setting comes from its flag, or else from the environment, or else from the
// configuration file, or else it has its default:
//
//	flag        environment          configuration        default
//	--config    HOLDFAST_CONFIG                           no file
//	--servers   HOLDFAST_ZOOKEEPER   zookeeper.servers    127.0.0.1:2181
//	--root                           root                 /locks
//
// No file is read that was not named: a config.yaml that happens to lie in the
// current folder changes nothing. Without one, a terminal gets the log in the
// format for people.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	_ "time/tzdata" // schedules name time zones, of which an image from scratch has none

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// Exit statuses.
const (
	StatusFailed    = 1
	StatusUsage     = 2   // bad usage or configuration
	StatusSignalled = 128 // plus the number of the signal that ended the command
)

// Main runs a program and ends the process with the exit status that it
// returns. The program's context ends with the first SIGINT, SIGTERM or SIGHUP, with
// an [Interrupt] as its cause. Further ones change nothing, because some senders
// send twice and the program is to clean up; SIGQUIT ends it at once. A program that
// asks for [Hangups] gets these in place of an end by SIGHUP.
func Main(run func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	h := &hangups{told: make(chan struct{}, 1), signals: signals}
	go h.follow(cancel)
	os.Exit(run(context.WithValue(ctx, hangupsKey{}, h), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// hangups are what becomes of SIGHUP.
type hangups struct {
	asked   atomic.Bool
	told    chan struct{}
	signals chan os.Signal
}

type hangupsKey struct{}

// follow takes the signals until one ends the program.
func (h *hangups) follow(cancel context.CancelCauseFunc) {
	for s := range h.signals {
		if s != syscall.SIGHUP || !h.asked.Load() {
			cancel(Interrupt{s.(syscall.Signal)})
			return
		}
		select {
		case h.told <- struct{}{}:
		default: // one that was not looked at yet is as good
		}
	}
}

// Hangups has SIGHUP do no more than send to the channel that it returns: for a daemon,
// which takes it for the wish that it reads its configuration again. It returns nil in a
// program that is not one of Main's.
func Hangups(ctx context.Context) <-chan struct{} {
	h, ok := ctx.Value(hangupsKey{}).(*hangups)
	if !ok {
		return nil
	}
	h.asked.Store(true)
	signal.Notify(h.signals, syscall.SIGHUP) // also if it was ignored
	return h.told
}

// Run runs a command line and returns the exit status. It prints the error, if
// there is one, as "NAME: message", and waits for a second at most until errs takes that.
func Run(ctx context.Context, cmd *cobra.Command, args []string, in io.Reader, out, errs io.Writer) int {
	started := false
	cmd.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.InitDefaultCompletionCmd(args...)
	for _, c := range cmd.Commands() {
		refuseOthers(c)
	}
	cmd.SetArgs(args)
	cmd.SetIn(in)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	ran, err := cmd.ExecuteContextC(ctx)
	if err != nil && !started { // cobra did not like the command line
		err = &Exit{StatusUsage, fmt.Errorf("%w\nTry: %s --help", err, ran.CommandPath())}
	}
	if err != nil && err.Error() != "" {
		hint := ""
		if errors.Is(err, lock.ErrDenied) || errors.Is(err, zk.ErrNoAuth) { // which calls itself "not authenticated"
			hint = "; is zookeeper.auth in the configuration a user that the ACL there allows? holdfast doctor tells more"
		}
		within(func() { fmt.Fprintf(errs, "%s: %v%s\n", cmd.Name(), err, hint) })
	}
	return Status(ctx, err)
}

// refuseOthers has a command that is there for its own commands alone refuse what is none
// of them: cobra shows its help then, as if nothing were wrong.
func refuseOthers(cmd *cobra.Command) {
	if cmd.Runnable() || !cmd.HasSubCommands() {
		return
	}
	cmd.Args = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return Usage("unknown command %q for %q\nTry: %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
	}
}

// OneName takes one argument, the name of a lock.
func OneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want the name of one lock, not %d arguments", len(args))
	}
	return nil
}

// Exit is an error with an exit status of its own. Err may be nil: then nothing
// is printed.
type Exit struct {
	Status int
	Err    error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns what went wrong.
func (e *Exit) Unwrap() error { return e.Err }

// Usage returns an error for a command line that makes no sense.
func Usage(format string, args ...any) error {
	return &Exit{StatusUsage, fmt.Errorf(format, args...)}
}

// Interrupt is the cause of a context that a signal has ended.
type Interrupt struct{ Signal syscall.Signal }

func (i Interrupt) Error() string { return fmt.Sprintf("interrupted by a signal: %v", i.Signal) }

// Status returns the exit status for what a command returned.
func Status(ctx context.Context, err error) int {
	var exit *Exit
	var config *policy.ConfigError
	var interrupt Interrupt
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Status
	case errors.As(err, &config), errors.Is(err, lock.ErrInvalid):
		return StatusUsage
	case errors.As(context.Cause(ctx), &interrupt):
		return StatusSignalled + int(interrupt.Signal)
	}
	return StatusFailed
}
