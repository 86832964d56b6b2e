// Package app is shared by the commands of Holdfast. It has their flags, their configuration, the
// logger, the connection to ZooKeeper, and the exit statuses.
//
// A setting comes from the first of these that has it: its flag, the environment, the
// configuration file, its default:
//
//	flag        environment          configuration        default
//	--config    HOLDFAST_CONFIG                           no file
//	--servers   HOLDFAST_ZOOKEEPER   zookeeper.servers    127.0.0.1:2181
//	--root                           root                 /locks
//
// The commands only read a named file: a config.yaml in the current folder has no effect. Without
// a file, a terminal gets the log in the format for people.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // schedules name time zones, which an image from scratch lacks

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
)

// Exit statuses.
const (
	StatusFailed    = 1
	StatusUsage     = 2   // bad usage or configuration
	StatusSignalled = 128 // plus the number of the signal that ended the command
)

// hangup receives the SIGHUP that ends the program, until [Hangups] is called.
var hangup = make(chan os.Signal, 1)

// Main runs a program and ends the process with its exit status. The program's context ends with
// the first SIGINT, SIGTERM or SIGHUP, with an [Interrupt] as its cause. Further signals have no
// effect, because some senders send twice and the program must clean up. SIGQUIT ends the process at
// once. If the program has called [Hangups], SIGHUP does not end its context.
func Main(run func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(hangup, syscall.SIGHUP)
	}
	go func() {
		select {
		case s := <-signals:
			cancel(Interrupt{s.(syscall.Signal)})
		case <-hangup:
			cancel(Interrupt{syscall.SIGHUP})
		}
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Hangups returns a channel that receives SIGHUP, even if it was ignored. Of those that come while one
// waits to be received, none is added. After the call SIGHUP has no other effect, so a daemon can reload
// its configuration.
func Hangups() chan os.Signal {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // first, because a SIGHUP that no channel receives ends the process
	signal.Stop(hangup)
	return hangups
}

// Run runs a command line and returns the exit status. It prints an error as "NAME: message", and
// waits at most a second until errs takes it.
func Run(ctx context.Context, cmd *cobra.Command, args []string, in io.Reader, out, errs io.Writer) int {
	started := false
	cmd.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.SetIn(in)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	cmd.CompletionOptions.HiddenDefaultCmd = !cmd.HasSubCommands()
	cmd.InitDefaultCompletionCmd(args...) // after SetOut, because it keeps the output
	cmd.InitDefaultHelpCmd()
	for _, c := range cmd.Commands() {
		refuseOthers(c)
		if c.Name() == "help" {
			c.Run, c.RunE = nil, help
		}
	}
	fitHelp(cmd, helpWidth(out))
	cmd.SetArgs(args)
	ran, err := cmd.ExecuteContextC(ctx)
	var unwritten *fs.PathError                                // --version writes before the command starts
	if err != nil && !started && !errors.As(err, &unwritten) { // cobra refused the command line
		err = &Exit{StatusUsage, fmt.Errorf("%w\nTry: %s --help", err, ran.CommandPath())}
	}
	if err != nil && err.Error() != "" {
		hint := ""
		// The hint is about ACLs: the text of a bare ErrNoAuth is only "not authenticated". What a quota
		// refuses matches ErrDenied too, and does not say so.
		denied := errors.Is(err, lock.ErrDenied) && strings.Contains(err.Error(), lock.ErrDenied.Error())
		if (denied || errors.Is(err, zk.ErrNoAuth)) && !errors.Is(err, lock.ErrSASL) {
			hint = "; is zookeeper.auth or zookeeper.sasl in the configuration a user that the ACL there allows? holdfast doctor tells more"
		}
		within(func() { fmt.Fprintf(errs, "%s: %v%s\n", cmd.Name(), err, hint) })
	}
	return Status(ctx, err)
}

// refuseOthers makes a command that only has subcommands refuse an unknown one. Cobra would show
// its help without an error.
func refuseOthers(cmd *cobra.Command) {
	if cmd.Runnable() || !cmd.HasSubCommands() {
		return
	}
	cmd.Args = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := ""
		if below := cmd.Commands(); len(below) == 1 {
			hint = fmt.Sprintf("; did you mean %s %s?", below[0].CommandPath(), args[0])
		}
		return Usage("%w\nTry: %s --help", unknown(cmd, args[0], hint), cmd.CommandPath())
	}
}

// help shows the help of the command that args name. Cobra's own would show that of the program for
// an unknown one, without an error.
func help(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return Usage("%w\nTry: %s --help", unknown(of, rest[0], ""), of.CommandPath())
	}
	of.InitDefaultHelpFlag()
	of.InitDefaultVersionFlag()
	return of.Help()
}

// NoArgs refuses arguments. If the command has subcommands, it proposes the one that the argument
// resembles.
func NoArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return unknown(cmd, args[0], "")
	}
	return fmt.Errorf("want no arguments, not %q", args[0])
}

// Args requires a number of arguments from least to most. want names them for an error, such as "the
// name of one lock".
func Args(least, most int, want string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if n := len(args); n < least || n > most {
			return fmt.Errorf("want %s, not %d arguments", want, n)
		}
		return nil
	}
}

// unknown returns the error for an unknown command. hint is for one that resembles none.
func unknown(cmd *cobra.Command, arg, hint string) error {
	cmd.SuggestionsMinimumDistance = 2
	if len(arg) < 4 { // with 2, rm would match run
		cmd.SuggestionsMinimumDistance = 1
	}
	if similar := cmd.SuggestionsFor(arg); len(similar) > 0 {
		hint = "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q%s", arg, cmd.CommandPath(), hint)
}

// Exit is an error with its own exit status. If Err is nil, nothing is printed.
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

// Unwrap returns Err.
func (e *Exit) Unwrap() error { return e.Err }

// Usage returns an [Exit] with [StatusUsage], for an invalid command line.
func Usage(format string, args ...any) error {
	return &Exit{StatusUsage, fmt.Errorf(format, args...)}
}

// Interrupt is the cause of a context that a signal has ended.
type Interrupt struct{ Signal syscall.Signal }

func (i Interrupt) Error() string { return fmt.Sprintf("interrupted by a signal: %v", i.Signal) }

// Status returns the exit status for a command's error.
func Status(ctx context.Context, err error) int {
	var exit *Exit
	var config *config.Error
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
