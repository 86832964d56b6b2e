package main

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func newShow(flags *app.Flags) *cobra.Command {
	var asJSON bool
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

Exit status: 1 if the lock could not be read. An unused lock is no failure.`,
		Example: `  holdfast show orders/42
  holdfast show orders/42 --json | jq -r '.waiters[].owner'`,
		Args:              app.OneName,
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if err := znode.CheckName(name); err != nil {
				return app.Usage("%w", err)
			}
			return withTree(cmd, flags, func(cfg *policy.Config, _ *lock.Client, tree admin.Tree) error {
				q := list.Queue{Root: tree.Root(), Path: tree.Path(name), Policy: cfg.Policies.For(name)}
				var err error
				q.Time, err = tree.Now(cmd.Context()) // Inspect judges leases by this sample of ensemble time
				q.NoRoot = errors.Is(err, zk.ErrNoNode)
				if err != nil && !errors.Is(err, lock.ErrDenied) && !q.NoRoot {
					return fmt.Errorf("show %q: %w", name, err)
				}
				if q.State, err = tree.Inspect(cmd.Context(), name); err != nil {
					return fmt.Errorf("show %q: %w", name, err)
				}
				if asJSON {
					return q.JSON(cmd.OutOrStdout())
				}
				return q.Picture(cmd.OutOrStdout(), coloured(cmd))
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
