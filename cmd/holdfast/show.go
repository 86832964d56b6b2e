package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func newShow(flags *app.Flags) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:        "show NAME",
		SuggestFor: []string{"get", "info", "describe"},
		Short:      "Show one lock: its holders, its waiters, and what each waits for",
		Long: `Show one lock: its holders (●), its waiters (○) in the order of their turn, and the
one entry that each of them waits for and watches. An arrow (▲) points to the entry
right ahead. Then come what is left of the lease, the TTL, and the fencing token;
below, what the owner says of itself.

Nothing is changed. What is left is reckoned as by holdfast ls, and as there one process
has one entry, however many of its goroutines wait.

Exit status: 1 if the lock could not be read, its node is not Holdfast's or is damaged, or
there is none of that name: it is free, or its name is another.`,
		Example: `  holdfast show orders/42
  holdfast show orders/42 --json | jq -r '.waiters[].owner'`,
		Args:              oneName,
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if err := znode.CheckName(name); err != nil {
				return app.Usage("%w", err)
			}
			return withTree(cmd, flags, func(cfg *config.Config, _ *lock.Client, tree admin.Tree) error {
				q := list.Queue{Root: tree.Root(), Policy: cfg.Policies.For(name), Unconfigured: flags.File() == ""}
				var err error
				q.Time, err = tree.Now(cmd.Context()) // Inspect judges leases by this sample of ensemble time
				q.NoRoot = errors.Is(err, zk.ErrNoNode)
				if err != nil && !errors.Is(err, lock.ErrDenied) && !q.NoRoot {
					return fmt.Errorf("show %q: %w", name, err)
				}
				if q.State, err = tree.Inspect(cmd.Context(), name); err != nil {
					return fmt.Errorf("show %q: %w", name, err)
				}
				if q.Asked, err = pendingRequests(cmd.Context(), tree, q.State); err != nil {
					return fmt.Errorf("show %q: %w", name, err)
				}
				err = out.print(cmd, q.Document(), q.Picture)
				if err == nil && q.State.Foreign != nil {
					err = fmt.Errorf("lock %q cannot be taken: %w", name, q.State.Foreign)
				}
				if err != nil || q.State.Kind != "" || len(q.State.Contenders)+len(q.State.Children) > 0 {
					return err
				}
				return notThere(cmd.Context(), tree, name)
			})
		},
	}
	out.add(cmd)
	return cmd
}

// pendingRequests returns the pending requests to release a lock, by the paths of the holders' entries.
func pendingRequests(ctx context.Context, tree admin.Tree, s admin.State) (map[string]admin.Revocation, error) {
	all := map[string]admin.Revocation{}
	for _, c := range list.Holders(s) {
		r, err := tree.Revocation(ctx, path.Base(c.Path))
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		case err != nil:
			return nil, fmt.Errorf("read the requests to release it: %w", err)
		case r.Err == nil && !r.Stale:
			all[c.Path] = r
		}
	}
	return all, nil
}

// mostAsked is the largest number of names that notThere compares with.
const mostAsked = 10_000

// notThere returns the error for a lock without a node, with a similar name if there is one.
func notThere(ctx context.Context, tree admin.Tree, name string) error {
	hint := ""
	if near := nearest(ctx, tree, name); near != "" && near != name {
		hint = fmt.Sprintf("; did you mean %s?", text.Name(near))
	}
	return fmt.Errorf("there is no lock %q: it is free, or its name is another%s", name, hint)
}

// nearest returns the name of a node whose parts are those of the name, or similar; "" if there is none.
func nearest(ctx context.Context, tree admin.Tree, name string) string {
	near := ""
	for part := range strings.SplitSeq(name, "/") {
		s, err := tree.Inspect(ctx, near)
		if err != nil {
			return ""
		}
		best, similar := 3, "" // a part that differs in so many characters is another one
		for _, child := range s.Children[:min(len(s.Children), mostAsked)] {
			if d := distance(part, child); d < best && d < max(len(part), len(child)) {
				best, similar = d, child
			}
		}
		if similar == "" {
			return ""
		}
		near = path.Join(near, similar)
	}
	return near
}

// distance returns the number of characters to insert, delete or replace to make b of a.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		above := row[0]
		row[0] = i + 1
		for j, s := range to {
			cost := above
			if r != s {
				cost++
			}
			above = row[j+1]
			row[j+1] = min(cost, above+1, row[j]+1)
		}
	}
	return row[len(to)]
}
