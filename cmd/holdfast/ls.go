package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

type lsFlags struct {
	*app.Flags
	asJSON, all, watch bool
	interval           time.Duration
}

func newLs(flags *app.Flags) *cobra.Command {
	f := &lsFlags{Flags: flags}
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the locks in use, their holders and their waiters",
		Long: `List the locks in use, their holders and their waiters in order: all locks, those
that a pattern matches as it would in a policy (* is one component or part of one, **
any number), or without a * the lock of that name and those below it.

What is left of a lease is reckoned in the ZooKeeper leader's time, not by this
machine's clock. A lease that is renewed does not run out; one that has expired
is cleaned up by the next waiter or the reaper. After a change of the leader what
is shown may be off by as much as the two clocks, until the holder has renewed.
Nothing is changed. Entries of other libraries are shown as not ours.

With --watch the list is read anew every --interval until Ctrl-C: a terminal shows
the last one; elsewhere each follows the one before, with --json in one line each.

Exit status: 1 if some nodes could not be read; their number and the first of them
are told.`,
		Example: `  holdfast ls
  holdfast ls 'orders/*' --watch
  holdfast ls orders --json | jq -r '.locks[] | .name + " " + .holders[0].owner'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := ""
			if len(args) > 0 {
				pattern = args[0]
			}
			what, err := chosen(pattern)
			if err != nil {
				return err
			}
			if f.interval < minInterval {
				return app.Usage("--interval %v: must be at least %v", f.interval, minInterval)
			}
			return withTree(cmd, flags, func(_ *policy.Config, _ *lock.Client, tree admin.Tree) error {
				read := func(ctx context.Context) (list.Listing, error) { return f.read(ctx, tree, what) }
				if f.watch {
					return f.watchList(cmd, read)
				}
				l, err := read(cmd.Context())
				if err != nil {
					return err
				}
				if err := f.print(cmd.OutOrStdout(), l, coloured(cmd)); err != nil {
					return err
				}
				return unread(l)
			})
		},
	}
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON document")
	cmd.Flags().BoolVar(&f.all, "all", false, "list unused locks, ancestors and other nodes, too")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "list again and again, until Ctrl-C")
	cmd.Flags().DurationVar(&f.interval, "interval", 2*time.Second, "with --watch: how often")
	return cmd
}

// minInterval is how often locks may be read again and again, at most.
const minInterval = 100 * time.Millisecond

// selection is which locks are to be read: those at and below start that match.
type selection struct {
	start   string
	pattern policy.Pattern // the zero one: all
}

// chosen is what a pattern, or the name of a lock, selects.
func chosen(pattern string) (selection, error) {
	if !strings.Contains(pattern, "*") {
		if pattern != "" {
			if err := znode.CheckName(pattern); err != nil {
				return selection{}, app.Usage("%w", err)
			}
		}
		return selection{start: pattern}, nil
	}
	p, err := policy.ParsePattern(pattern)
	if err != nil {
		return selection{}, app.Usage("%w", err)
	}
	return selection{p.Prefix(), p}, nil
}

// read reads what is to be listed.
func (f *lsFlags) read(ctx context.Context, tree admin.Tree, what selection) (list.Listing, error) {
	l, err := list.Read(ctx, tree, what.start)
	if err != nil {
		return l, err
	}
	if what.pattern != (policy.Pattern{}) {
		l = l.Only(what.pattern.Match)
		l.Path = tree.Path(what.pattern.String())
	}
	if !f.all {
		l = l.InUse()
	}
	return l, nil
}

func (f *lsFlags) print(w io.Writer, l list.Listing, colour bool) error {
	if f.asJSON {
		return l.JSON(w)
	}
	return l.Table(w, colour)
}

// watchList lists until the context ends, which is no error.
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
		switch {
		case f.asJSON:
			err = l.Line(&frame)
		default:
			err = l.Table(&frame, coloured(cmd))
		}
		if err == nil && !f.asJSON {
			if why := unread(l); why != nil {
				frame.WriteString(text.Printable(why.Error()) + "\n")
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

// unread says in one line that a listing is incomplete, if it is.
func unread(l list.Listing) error {
	if len(l.Unread) == 0 {
		return nil
	}
	first := l.Unread[0]
	return fmt.Errorf("the listing is incomplete: %d nodes could not be read, the first is %s: %w", len(l.Unread), first.Path, first.Err)
}

// coloured reports whether what the command prints is to have colours.
func coloured(cmd *cobra.Command) bool {
	return text.Coloured(app.IsTerminal(cmd.OutOrStdout()))
}

// withTree connects as the flags say, calls f, and closes the client.
func withTree(cmd *cobra.Command, flags *app.Flags, f func(*policy.Config, *lock.Client, admin.Tree) error) error {
	cfg, err := flags.Load(cmd.Context())
	if err != nil {
		return err
	}
	locks, err := app.Dial(cmd.Context(), cfg, app.Logger(cfg.Log, cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer locks.Close()
	return f(cfg, locks, admin.New(locks))
}
