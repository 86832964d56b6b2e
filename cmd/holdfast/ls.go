package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/admin/jsonout"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

type lsFlags struct {
	*app.Flags
	output
	all, watch bool
	interval   time.Duration
}

func newLs(flags *app.Flags) *cobra.Command {
	f := &lsFlags{Flags: flags}
	cmd := &cobra.Command{
		Use:        "ls [PATTERN]",
		SuggestFor: []string{"list", "status", "locks"},
		Short:      "List the locks in use, their holders and their waiters",
		Long: `List the locks in use, their holders and their waiters in order: all locks, those
that a pattern matches as it would in a policy (* is one component or part of one, **
any number; ? is one character), or without * and ? the lock of that name and those
below it.

LEFT is what is left of the lease, HELD for how long the lock has been held, both at the
moment at which the entry was read, in the ZooKeeper leader's time, not by this machine's
clock. A lease that is renewed does not run out; one that has expired is cleaned up by
the next waiter or the reaper. After a change of the leader what is shown may be off by
as much as the two clocks, until the holder has renewed. Nothing is changed. Entries of
other libraries are shown as not ours, those that are damaged or of another version as
unreadable: holdfast show tells why.

The goroutines of one process that want the same lock have one entry together: those that
wait for each other are in no listing. Their process's metrics count them.

A narrow terminal gets fewer columns. A long listing shows its progress on a terminal.

With --watch the list is read anew every --interval until Ctrl-C: a terminal shows
the last one; elsewhere each follows the one before, with --json in one line each.

Exit status: 1 if some nodes could not be read; their number and the first twenty of them
are told.`,
		Example: `  holdfast ls
  holdfast ls 'orders/*' --watch
  holdfast ls orders --json | jq -r '.locks[] | .name + " " + .holders[0].owner'`,
		Args:              app.Args(0, 1, "the name or pattern of locks, or none"),
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			what, err := chosen(optional(args))
			if err != nil {
				return err
			}
			if f.interval < minInterval {
				return app.Usage("--interval %v: must be at least %v", f.interval, minInterval)
			}
			return withTree(cmd, flags, func(_ *config.Config, _ *lock.Client, tree admin.Tree) error {
				if f.watch {
					read := func(ctx context.Context) (list.Listing, error) { return f.read(ctx, tree, what, new(list.Progress)) }
					return f.watchList(cmd, read)
				}
				progress := new(list.Progress)
				done := showProgress(cmd.ErrOrStderr(), progress)
				l, err := f.read(cmd.Context(), tree, what, progress)
				done()
				if err != nil {
					return err
				}
				return errors.Join(f.print(cmd, l.Document(), table(l)), unread(l))
			})
		},
	}
	f.output.add(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "list unused locks, ancestors and other nodes, too")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "list again and again, until Ctrl-C")
	cmd.Flags().DurationVar(&f.interval, "interval", 2*time.Second, "with --watch: how often")
	return cmd
}

// oneName requires one argument, the name of a lock.
var oneName = app.Args(1, 1, "the name of one lock")

// optional returns the only argument; "" if there is none.
func optional(args []string) string { return strings.Join(args, "") }

// minInterval is the shortest interval of repeated reads.
const minInterval = 100 * time.Millisecond

// selection selects the locks at and below the node start whose names match.
type selection struct {
	start   string
	pattern string
	match   func(name string) bool // nil: all
}

// chosen returns the selection of a pattern, or of a lock's name and the locks below it; "" selects all
// locks.
func chosen(pattern string) (selection, error) {
	if !strings.ContainsAny(pattern, "*?") {
		if pattern != "" {
			if err := znode.CheckName(pattern); err != nil {
				return selection{}, app.Usage("%w", err)
			}
		}
		return selection{start: pattern}, nil
	}
	if _, err := policy.ParsePattern(pattern); err != nil { // ParsePattern takes ? literally
		return selection{}, app.Usage("%w", err)
	}
	above, _, _ := cutLast(pattern[:strings.IndexAny(pattern, "*?")], "/")
	return selection{above, pattern, matcher(pattern)}, nil
}

// cutLast is like strings.Cut, but cuts at the last sep. If there is none, before is "".
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// matcher returns a function that matches names like a policy's pattern; in addition a ? matches
// any one character.
func matcher(pattern string) func(name string) bool {
	var re strings.Builder
	for component := range strings.SplitSeq(pattern, "/") {
		if component == "**" {
			re.WriteString("(/[^/]+)*")
			continue
		}
		re.WriteString("/" + wildcards.Replace(regexp.QuoteMeta(component)))
	}
	all := regexp.MustCompile("(?s)^" + re.String() + "$")
	return func(name string) bool { return all.MatchString("/" + name) }
}

// wildcards replaces the wildcards of a component, quoted by regexp.QuoteMeta.
var wildcards = strings.NewReplacer(`\*`, "[^/]*", `\?`, "[^/]")

// read reads the selected locks: those in use, or with --all all of them.
func (f *lsFlags) read(ctx context.Context, tree admin.Tree, what selection, progress *list.Progress) (list.Listing, error) {
	l, err := list.Read(ctx, tree, what.start, progress)
	if err != nil {
		return l, err
	}
	if what.match != nil {
		l = l.Only(what.match)
		l.Path = tree.Path(what.pattern)
	}
	if !f.all {
		l = l.InUse()
	}
	return l, nil
}

// table prints the listing as a table that fits the terminal.
func table(l list.Listing) func(w io.Writer, colour bool) error {
	return func(w io.Writer, colour bool) error { return l.Table(w, width(w), colour) }
}

// watchList lists repeatedly until the context ends. The end of the context is no error.
func (f *lsFlags) watchList(cmd *cobra.Command, read func(context.Context) (list.Listing, error)) error {
	out, ctx := cmd.OutOrStdout(), cmd.Context()
	screen := newScreen(out, !f.asJSON && app.IsTerminal(out))
	defer screen.close()
	for {
		l, err := read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		var frame strings.Builder
		if f.asJSON {
			err = jsonout.Line(&frame, l.Document(), false)
		} else if err = l.Table(&frame, width(out), coloured(cmd)); err == nil {
			if why := unread(l); why != nil {
				frame.WriteString(why.Error() + "\n")
			}
		}
		if err == nil {
			err = screen.show(frame.String())
		}
		if err != nil {
			return err
		}
		select {
		case <-time.After(f.interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// mostUnread is the largest number of unread nodes that an error names.
const mostUnread = 20

// unread returns an error if a listing is incomplete.
func unread(l list.Listing) error {
	if len(l.Unread) == 0 {
		return nil
	}
	var names strings.Builder
	for _, u := range l.Unread[:min(len(l.Unread), mostUnread)] {
		names.WriteString("\n" + text.Printable(fmt.Sprintf("%s: %v", u.Path, u.Err)))
	}
	if more := len(l.Unread) - mostUnread; more > 0 {
		fmt.Fprintf(&names, "\nand %d more, which holdfast ls --json names", more)
	}
	return fmt.Errorf("the listing is incomplete: %s could not be read:%s", text.Count(len(l.Unread), "node", "nodes"), &names)
}

// withTree connects with the configuration of the flags and with the options, calls f, and closes
// the client.
func withTree(cmd *cobra.Command, flags *app.Flags, f func(*config.Config, *lock.Client, admin.Tree) error, opts ...lock.Option) error {
	cfg, err := flags.Load(cmd.Context())
	if err != nil {
		return err
	}
	locks, err := app.Dial(cmd.Context(), cfg, app.Logger(cfg.Log, cmd.ErrOrStderr()), opts...)
	if err != nil {
		return err
	}
	defer locks.Close()
	return f(cfg, locks, admin.New(locks))
}
