package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

type breakFlags struct {
	*app.Flags
	output
	entry    string // name of the entry to break; "": all holders of the lock
	expired  bool
	yes, now bool
	reason   string
	wait     time.Duration // negative: no limit
}

// Results for one entry of a force-release or a release request, for people and tools.
const (
	brokenGone    = "gone"    // the entry is deleted
	brokenMarked  = "marked"  // the request is in the entry, which was not deleted within --wait
	brokenLives   = "lives"   // with --expired-only: the entry has not expired
	brokenForeign = "foreign" // another library's entry, or an unreadable one: not changed
	asked         = "asked"   // revoke has asked the owner to release the lock
)

// outcome is the result for one entry.
type outcome struct {
	Entry  string `json:"entry"`
	Owner  string `json:"owner,omitempty"`
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Result string `json:"result"`
}

func newBreak(flags *app.Flags) *cobra.Command {
	f := &breakFlags{Flags: flags, wait: -1}
	cmd := &cobra.Command{
		Use:        "break NAME [--entry ENTRY|--expired-only] [--reason TEXT]",
		SuggestFor: []string{"unlock", "delete", "kill", "rm"},
		Short:      "Force-release a lock: end the holds on it",
		Long: `Force-release a lock: end the holds on it, and tell the holders your name and reason.

The request is written into the holder's entry. At its next renewal, after a third of
its TTL at most, the holder loses its hold with an error that tells name and reason,
holdfast run ends its command, and the entry is deleted. A dead or unreachable holder
loses the lock when its lease has ended, TTL and grace after its last renewal, as it
would anyway. So no other client has the lock before the holder knows. This command
waits until the entry is gone, for --wait at most.

--now does not wait for that: the entry is deleted at once. Until the holder notices,
two clients may hold the lock, and only resources that check fencing tokens are safe.
Use it for a holder that is known to be dead and has a long TTL.

--entry breaks one entry, as holdfast show --json names it: one of several holders, or
a waiter, which queues again at the end. --expired-only deletes only entries that have
expired and that no client has purged yet.

It asks before it acts, unless --yes says so, which --json needs. "holdfast revoke" asks
the holder, and leaves it the choice.

Exit status: 1 if there was nothing to break, it was not agreed to, or not all that was
to go is gone when --wait is over.`,
		Example: `  holdfast break orders/42 --reason 'node3 hangs, see #815'
  holdfast break orders/42 --expired-only --yes`,
		Args:              oneName,
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args[0], cmd.Flags().Changed("wait")); err != nil {
				return err
			}
			return withTree(cmd, flags, func(cfg *config.Config, locks *lock.Client, tree admin.Tree) error {
				return f.run(cmd, cfg.Policies.For(args[0]), tree, args[0])
			})
		},
	}
	cmd.Flags().Var(app.Given(&f.entry), "entry", "break this `ENTRY` of the lock alone: a node's name, or its path")
	cmd.Flags().BoolVar(&f.expired, "expired-only", false, "delete the entries that have expired, and break none")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&f.now, "now", false, "do not wait until the holder knows: two may hold the lock for a while")
	cmd.Flags().StringVar(&f.reason, "reason", "", fmt.Sprintf("`TEXT` that the holders are told, at most %d bytes", lock.MaxReason))
	cmd.Flags().DurationVar(&f.wait, "wait", f.wait, "how long to wait until the entries are gone; 0: not at all (default as long as it takes)")
	cmd.Flags().Lookup("wait").DefValue = "0s" // hides the default: the usage states it
	f.output.add(cmd)
	return cmd
}

func (f *breakFlags) check(name string, waits bool) error {
	if err := znode.CheckName(name); err != nil {
		return app.Usage("%w", err)
	}
	if err := znode.CheckReason(f.reason); err != nil {
		return app.Usage("--reason: %w", err)
	}
	switch {
	case f.expired && (f.entry != "" || f.now || waits || f.reason != ""):
		return app.Usage("--expired-only: does not go with --entry, --now, --wait or --reason: an expired entry has no owner to inform")
	case f.now && waits:
		return app.Usage("--now: does not go with --wait")
	case waits && f.wait < 0:
		return app.Usage("--wait %v: must not be negative", f.wait)
	case f.asJSON && !f.yes:
		return app.Usage("--json: needs --yes, because the command cannot ask then")
	}
	return nil
}

func (f *breakFlags) run(cmd *cobra.Command, p policy.Rule, tree admin.Tree, name string) error {
	ctx := cmd.Context()
	state, err := tree.Inspect(ctx, name)
	if err != nil {
		return fmt.Errorf("break %q: %w", name, err)
	}
	victims, err := f.victims(tree, state)
	if err != nil {
		return err
	}
	if err := f.ask(cmd, victims, name); err != nil {
		return err
	}
	outcomes, err := f.breakAll(ctx, tree, p.Policy, victims)
	if printed := printOutcomes(cmd, f.output, outcomes); err == nil {
		err = printed
	}
	if err == nil && !f.done(outcomes) {
		err = f.undone(name)
	}
	return err
}

// victims returns the contenders to break: that of --entry, or else all holders. For
// --expired-only it returns all contenders.
func (f *breakFlags) victims(tree admin.Tree, s admin.State) ([]admin.Contender, error) {
	switch {
	case f.entry != "":
		path := f.entry
		if !strings.HasPrefix(path, "/") {
			path = tree.Path(s.Name) + "/" + path
		}
		for _, c := range s.Contenders {
			if c.Path == path {
				return []admin.Contender{c}, nil
			}
		}
		return nil, fmt.Errorf("lock %q has no entry %s now; holdfast show --json %s tells which it has", s.Name, f.entry, text.Name(s.Name))
	case f.expired:
		if len(s.Contenders) == 0 {
			return nil, fmt.Errorf("no client holds lock %q or waits for it, so nothing can have expired", s.Name)
		}
		return s.Contenders, nil
	}
	in := list.Holders(s)
	if len(in) == 0 {
		return nil, fmt.Errorf("break %q: %w", s.Name, lock.ErrNotHeld)
	}
	return in, nil
}

// ask asks the user to confirm, unless --yes is set. Any answer but y or yes is an error.
func (f *breakFlags) ask(cmd *cobra.Command, victims []admin.Contender, name string) error {
	if f.yes {
		return nil
	}
	errs := cmd.ErrOrStderr()
	switch {
	case f.expired:
		fmt.Fprintf(errs, "What has expired of %s of lock %q is to be deleted.\n", text.Count(len(victims), "entry", "entries"), name)
	default:
		fmt.Fprintf(errs, "To be broken of lock %q:\n", name)
		for _, c := range victims {
			fmt.Fprintf(errs, "  %s, entry %s\n", list.Who(c), text.Printable(c.Path))
		}
	}
	if f.now {
		fmt.Fprintln(errs, "Two may hold the lock until the holder notices, and both may act.")
	}
	fmt.Fprint(errs, "Go on? (yes or no) ")
	answer, err := app.Read(cmd.Context(), func() (string, error) {
		return bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 1024)).ReadString('\n')
	})
	if in, ok := cmd.InOrStdin().(io.Writer); err != nil || !ok || !app.IsTerminal(in) {
		fmt.Fprintln(errs) // only a terminal shows the line end of the answer
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("nothing was done: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "yes" && answer != "y" {
		return errors.New("nothing was done, because the answer was not yes; --yes skips the question")
	}
	return nil
}

// breakAll marks all entries as broken before it waits until they are gone, so that the owners react
// at the same time. With --now it deletes the entries and does not wait. With --expired-only it only
// purges expired entries. It skips foreign entries.
func (f *breakFlags) breakAll(ctx context.Context, tree admin.Tree, p lock.Policy, victims []admin.Contender) ([]outcome, error) {
	outcomes := make([]outcome, len(victims))
	broken := make([]*admin.Breaking, len(victims))
	by := breaker(f.reason)
	var failed error
	for i, c := range victims {
		o := &outcomes[i]
		*o = outcome{Entry: c.Path, Owner: c.Owner, Host: c.Host, PID: c.PID, Result: brokenMarked}
		var err error
		switch {
		case !c.Ours:
			o.Result = brokenForeign
		case f.expired:
			var gone bool
			o.Result = brokenLives
			if gone, err = tree.Purge(ctx, c.Path, p); gone {
				o.Result = brokenGone
			}
		default:
			broken[i], err = tree.Break(ctx, c.Path, by)
		}
		failed = errors.Join(failed, err)
	}
	limited := ctx
	if f.wait >= 0 {
		var cancel func()
		limited, cancel = context.WithTimeout(ctx, f.wait)
		defer cancel()
	}
	for i, b := range broken {
		if b == nil {
			continue
		}
		var err error
		if f.now || b.Detached() { // not c.Detached: a client may have attached after the listing
			err = b.Delete(ctx, p)
		} else {
			err = b.Wait(limited, p)
		}
		switch {
		case err == nil:
			outcomes[i].Result = brokenGone
		case !errors.Is(err, context.DeadlineExceeded) || f.wait < 0:
			failed = errors.Join(failed, err)
		}
	}
	return outcomes, failed
}

// breaker returns the author of a force-release, as the holders see it.
func breaker(reason string) znode.Broken {
	by := znode.Broken{Owner: userName("holdfast break"), PID: os.Getpid(), Reason: reason}
	by.Host, _ = os.Hostname() // empty if unknown
	return by
}

// userName returns the user of this process; if it is unknown, the command's name.
func userName(command string) string {
	if u, err := user.Current(); err == nil && znode.CheckOwner(u.Username) == nil {
		return u.Username
	}
	return command
}

func printOutcomes(cmd *cobra.Command, out output, outcomes []outcome) error {
	document := struct {
		Entries []outcome `json:"entries"`
	}{outcomes}
	return out.print(cmd, document, func(w io.Writer, _ bool) error {
		for _, o := range outcomes {
			who := "another library's, or unreadable"
			if o.Owner != "" {
				who = text.Who(o.Owner, o.Host, o.PID)
			}
			if _, err := fmt.Fprintf(w, "%s: %s, entry %s\n", o.Result, who, text.Printable(o.Entry)); err != nil {
				return err
			}
		}
		return nil
	})
}

// done reports whether all entries are gone; with --expired-only, whether any is.
func (f *breakFlags) done(outcomes []outcome) bool {
	gone := 0
	for _, o := range outcomes {
		if o.Result == brokenGone {
			gone++
		}
	}
	return gone == len(outcomes) || f.expired && gone > 0
}

func (f *breakFlags) undone(name string) error {
	if f.expired {
		return fmt.Errorf("nothing of lock %q has expired", name)
	}
	return fmt.Errorf("not all entries of lock %q are gone: those that are marked go within the holder's TTL and grace, those of other libraries only with their owners' sessions", name)
}
