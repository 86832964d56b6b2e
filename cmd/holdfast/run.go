package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
)

// Exit statuses of run, besides those of the command and of package app.
const (
	// EX_TEMPFAIL of sysexits.h: another try may succeed. --held-status replaces it.
	statusNotAcquired = 75
	statusLost        = 76 // the command was ended to protect the lock
	statusCannotRun   = 126
)

// Variables that run adds to the environment of the command and of the hooks.
const (
	envLock  = "HOLDFAST_LOCK"
	envToken = "HOLDFAST_TOKEN"
)

// Variables for the hooks of --on-risk, --on-lost and --on-revoke.
const (
	envLeft = "HOLDFAST_LEFT"
	envWhy  = "HOLDFAST_WHY"
	envWho  = "HOLDFAST_WHO"
)

// patience is the wait for a lock after which the user gets a message. The library logs the wait
// for ZooKeeper.
var patience = 5 * time.Second

type runFlags struct {
	*app.Flags
	ticketFlags
	tickFlags
	ttl  time.Duration // 0: from the policy
	wait time.Duration // negative: no limit

	quiet      bool // no messages about waiting, or about another client that holds the lock
	heldStatus int  // exit status if another client holds the lock

	atLeast        time.Duration // shortest time for which the lock is held
	onRisk, onLost string        // shell commands; "": none
	onRevoke       string
}

func newRun(flags *app.Flags) *cobra.Command {
	f := &runFlags{Flags: flags, wait: -1, heldStatus: statusNotAcquired}
	cmd := &cobra.Command{
		Use:        "run NAME [--ttl D] [--wait D] [--tick T] -- CMD ARGS...",
		SuggestFor: []string{"lock", "exec"},
		Short:      "Run a command while holding a lock",
		Long: `Run a command while holding a lock.

The command has a process group of its own, which does not outlive the lock: when
renewals fail, it gets SIGTERM when a third of the TTL is left (at most 30s), and
SIGKILL when a tenth is left (at most 3s). On Linux that is so even when this
program is killed or stopped. What is left of the group when the command ends is
killed, and then the lock is unlocked. With --detach it is kept for the process that goes
on with the ticket, by --attach, and no other client enters in between. If the command
failed, the lock is unlocked all the same, unless --detach-failed is given.

Processes that leave the group, such as daemons and the jobs of an interactive shell, are
not ended. Nor is a command that becomes another user's, as by sudo: only root can end it,
and a message says so when that is tried. There, use sudo holdfast run.

A command that asks at the terminal gets it, also where standard input or output is none,
unless this program is in the background. A script without #! is executed by sh.

After 5s of waiting, a message names the holder; with --quiet none does, and none says
that the lock is held by another client.

The command finds the lock's name in $` + envLock + ` and the fencing token, a text
that sorts higher with each holder, in $` + envToken + `. It does not get the variable
that password_env of the configuration names. Signals are passed on to its group.

For jobs of cron or systemd timers on several hosts, use --tick: the command runs once for
each tick of a schedule, although each host starts this program. One of them takes the
tick that is nearest to the present, by the ZooKeeper leader's clock, and waits for it if
it is yet to come. The others exit with 0. The tick is recorded before the command runs,
and never runs again; with --at-least-once it is recorded afterwards, and runs again when
this program is started next if the command was interrupted. --missed says which ticks run
that came while no host could run them, --overlap what becomes of a tick that comes while
the command of an earlier one runs. The schedule is in UTC, unless it begins with
CRON_TZ=. The lock is jobs/NAME, the tick is in $` + envTick + `. holdfast jobs shows what
came of it. If the tick was missed, a message says so, and the exit status is 0.

With --at-least the lock is held on to when the command has ended sooner. A signal gives
it back at once. It spaces out commands that have no schedule. For those that have one it
is not enough: it works only if the hosts' clocks differ by less than that.

The command of --on-risk is run by sh when only half of the TTL is left because
renewals fail, or half of it until max_hold, and again if that happens again; the
whole seconds that are left are in $` + envLeft + `. That of --on-lost is run when
the lock was lost, or the command was ended because it could not be kept; why is in
$` + envWhy + `. That of --on-revoke is run when a client requests the lock's release, see
holdfast revoke: $` + envWho + ` names the client, $` + envWhy + ` the reason. The command
is not ended by it; the hook may do that. All have the command's environment too. They
write to standard error, delay nothing, and are killed when they run for more than 10s
after the lock was given back.

Exit status: the command's own, 128+n if signal n ended it, or
   75  the lock was not acquired within --wait, because another client
       holds it (or what --held-status says), or ZooKeeper could not be
       reached within that and the session timeout
   76  the command was ended because the lock could not be kept
  126  the command cannot be executed
  127  the command was not found
    2  bad usage or configuration
    1  another failure, such as no ticket for --detach`,
		Example: `  holdfast run nightly-report -- ./report.sh
  holdfast run deploy/shop --wait 0 -- make deploy     # or fail at once
  holdfast run hourly --wait 0 -q --held-status 0 -- ./job   # or do nothing
  holdfast run mail --on-lost 'logger lost $HOLDFAST_LOCK' -- ./send
  holdfast run --tick @daily report -- ./report   # from cron of several hosts
  holdfast run import --ttl 5m --wait 1h -- ./import   # survives long outages
  holdfast run etl --detach t --detach-for 5m -- ./extract &&
    holdfast run etl --attach t -- ./load`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args); err != nil {
				return err
			}
			app.SurvivePipe() // else a closed standard error could leave the lock's entry behind
			defer stderr.Flush(time.Second)
			return f.run(cmd.Context(), args[0], args[1:])
		},
	}
	f.add(cmd)
	return cmd
}

func (f *runFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.ttl, "ttl", 0, "how long the lock outlives us, at least 1s (default as the lock's policy says)")
	cmd.Flags().DurationVar(&f.wait, "wait", f.wait, "how long to wait for the lock; 0: not at all (default as long as it takes)")
	cmd.Flags().Lookup("wait").DefValue = "0s" // hides the default: the usage states it
	f.ticketFlags.add(cmd)
	f.tickFlags.add(cmd)
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "do not tell that it waits, nor that the lock is held by another client, nor that ticks were missed")
	cmd.Flags().IntVar(&f.heldStatus, "held-status", f.heldStatus, "exit `STATUS` if another client holds the lock")
	cmd.Flags().DurationVar(&f.atLeast, "at-least", 0, "how long to have the lock, also if the command ends sooner")
	cmd.Flags().StringVar(&f.onRisk, "on-risk", "", "what sh is to run when the lock may be lost soon: `CMD`")
	cmd.Flags().StringVar(&f.onRevoke, "on-revoke", "", "what sh is to run when a client requests the lock's release: `CMD`")
	cmd.Flags().StringVar(&f.onLost, "on-lost", "", "what sh is to run when the lock was lost: `CMD`")
}

// check returns an error for an invalid command line. A given 0 is a value, not a missing flag.
func (f *runFlags) check(cmd *cobra.Command, args []string) error {
	switch {
	case cmd.ArgsLenAtDash() != 1 || len(args) < 2:
		return app.Usage("want one lock name, and after -- the command to run\nUsage: holdfast %s", cmd.Use)
	case cmd.Flags().Changed("ttl") && f.ttl <= 0:
		return app.Usage("--ttl %v: must be at least %v; without it the TTL is the policy's", f.ttl, supervise.MinTTL)
	case cmd.Flags().Changed("wait") && f.wait < 0:
		return app.Usage("--wait %v: must not be negative", f.wait)
	case f.atLeast < 0:
		return app.Usage("--at-least %v: must not be negative", f.atLeast)
	case f.heldStatus < 0 || f.heldStatus > 255:
		return app.Usage("--held-status %d: must be from 0 to 255", f.heldStatus)
	}
	if err := f.tickFlags.check(cmd); err != nil {
		return err
	}
	return f.ticketFlags.check(f.wait)
}

func (f *runFlags) run(ctx context.Context, name string, args []string) error {
	cfg, err := f.Load(ctx)
	if err != nil {
		return err
	}
	if f.tick != "" {
		return f.runTick(ctx, cfg, name, args)
	}
	ttl, err := effectiveTTL(cfg, name, f.ttl)
	if err != nil {
		return err
	}
	p := cfg.Policies.For(name)
	if p.MaxHold != 0 && f.atLeast > p.MaxHold {
		return app.Usage("--at-least %v of lock %q: must not be longer than max_hold, %v, of policy %q", f.atLeast, name, p.MaxHold, p.Name)
	}
	if f.detachFor > p.MaxTTL {
		return app.Usage("--detach-for %v of lock %q: must be at most max_ttl, which is %v, of policy %q", f.detachFor, name, p.MaxTTL, p.Name)
	}
	ticket, err := f.ticket(ctx, name)
	if err != nil {
		return err
	}
	path, err := executable(args[0])
	if err != nil {
		return err
	}

	if os.Getenv(envLock) == name && !f.quiet {
		tell("$%s says that this runs under lock %q already: it would wait for itself", envLock, name)
	}
	taking, stop := untilFatal(ctx, nil)
	defer stop() // deferred, because no signal may end this process before its clean-up
	locks, hold, err := f.take(taking, cfg, name, ttl, args[0], ticket)
	if err != nil {
		return interrupted(taking, f.held(err))
	}
	cmd := supervise.Command{Path: path, Args: args, Env: environment(os.Environ(), name, hold.Token(), cfg.PasswordVariables())}
	return f.supervise(ctx, taking, hold, ttl, cmd, func(kept bool, status int) error {
		end := hold.Unlock
		if kept {
			end = func() error { return f.endHold(hold, status) }
		}
		return errors.Join(end(), locks.Close()) // also after a loss: the entry may still exist
	})
}

// executable returns the path of a command's file. If it cannot be run, the error has a shell's
// exit status.
func executable(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &app.Exit{Status: supervise.CannotRun(err), Err: err}
	}
	if err := supervise.Check(path); err != nil {
		return "", &app.Exit{Status: statusCannotRun, Err: err}
	}
	return path, nil
}

// untilFatal returns a context that ends with ctx, at a signal of [supervise.Fatal], or when stop is
// called. After a signal its cause is an [app.Interrupt]. Signals for which ignore returns true do not
// end it; ignore may be nil.
func untilFatal(ctx context.Context, ignore func(os.Signal) bool) (until context.Context, stop func()) {
	until, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, supervise.Fatal...)
	go func() {
		for {
			select {
			case s := <-signals:
				if ignore == nil || !ignore(s) {
					cancel(app.Interrupt{Signal: s.(syscall.Signal)})
				}
			case <-until.Done():
				return
			}
		}
	}()
	return until, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// interrupted adds the exit status of a signal to an error if a signal has ended ctx.
func interrupted(ctx context.Context, err error) error {
	var by app.Interrupt
	if errors.As(context.Cause(ctx), &by) {
		return &app.Exit{Status: app.StatusSignalled + int(by.Signal), Err: err}
	}
	return err
}

// supervise runs the command and its hooks while the hold lasts. If the context starting ends first,
// supervise does not start the command. After the command it keeps the lock until --at-least is over,
// and calls end, which releases the lock. kept means that the command ran and the hold lasted; status
// is the command's exit status.
func (f *runFlags) supervise(ctx, starting context.Context, hold *lock.Hold, ttl time.Duration, cmd supervise.Command, end func(kept bool, status int) error) error {
	release := time.Now().Add(f.atLeast)
	onRisk, onLost := &hook{flag: "--on-risk", script: f.onRisk, env: cmd.Env}, &hook{flag: "--on-lost", script: f.onLost, env: cmd.Env}
	onRevoke := &hook{flag: "--on-revoke", script: f.onRevoke, env: cmd.Env}
	go warn(hold, onRisk)
	if f.onRevoke != "" {
		go ask(hold, onRevoke)
	}
	result, err := supervise.Run(starting, hold, ttl, cmd, tell, func() { stderr.Flush(time.Second) })
	lost := result.Ended
	if err == nil && lost == nil {
		holding, stop := untilFatal(ctx, nil)
		lost = holdOn(holding, hold, release)
		stop()
	}
	if lost != nil { // run the hook now, because the unlock may take long
		onLost.start(envWhy + "=" + lost.Error())
	}
	unlocked := end(err == nil && lost == nil, result.Status)
	if err == nil && lost == nil && errors.Is(unlocked, lock.ErrLost) {
		onLost.start(envWhy + "=" + unlocked.Error())
	}
	deadline := time.Now().Add(hookTime)
	onRisk.end(deadline)
	onLost.end(deadline)
	onRevoke.end(deadline)
	switch {
	case err != nil:
		return interrupted(starting, err)
	case result.Ended != nil:
		return &app.Exit{Status: statusLost}
	case lost != nil: // lost after the command's end, during --at-least
		tell("the command has ended, but its lock was not held for %v: %v", f.atLeast, lost)
	case errors.Is(unlocked, lock.ErrLost): // the unlock found that the hold was lost
		return &app.Exit{Status: statusLost, Err: unlocked}
	case errors.Is(unlocked, errNoTicket) && result.Status == 0: // no process can attach to the hold
		return &app.Exit{Status: app.StatusFailed, Err: fmt.Errorf("the command has ended, but: %w", unlocked)}
	case unlocked != nil:
		tell("the command has ended, but: %v", unlocked)
	}
	return &app.Exit{Status: result.Status}
}

// warn runs the hook whenever the hold is at risk, until the hold has ended.
func warn(hold *lock.Hold, onRisk *hook) {
	for {
		select {
		case left := <-hold.AtRisk():
			onRisk.start(fmt.Sprintf("%s=%d", envLeft, int(left.Seconds())))
		case <-hold.Context().Done():
			return
		}
	}
}

// ask runs the hook at each request to release the lock, until the hold has ended.
func ask(hold *lock.Hold, onRevoke *hook) {
	for {
		select {
		case r := <-hold.Revoked():
			onRevoke.start(fmt.Sprintf("%s=%s (host %s, pid %d)", envWho, r.Owner, r.Host, r.PID), envWhy+"="+r.Reason)
		case <-hold.Context().Done():
			return
		}
	}
}

// holdOn waits until the given time, or until a signal ends ctx. If the lock is lost during the wait,
// holdOn returns the reason.
func holdOn(ctx context.Context, hold *lock.Hold, until time.Time) error {
	wait := time.Until(until)
	if wait <= 0 || hold.Err() != nil {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-hold.Context().Done():
	}
	return hold.Err()
}

// stderr receives run's messages. Writes to it never block, so that a stuck reader can neither cost
// the lock nor keep run from ending.
var stderr app.Aside

// tell prints a message for people.
func tell(format string, args ...any) {
	fmt.Fprintf(&stderr, "holdfast run: "+format+"\n", args...)
}
