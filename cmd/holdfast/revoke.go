package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func newRevoke(flags *app.Flags) *cobra.Command {
	var reason string
	var out output
	cmd := &cobra.Command{
		Use:        "revoke NAME [--reason TEXT]",
		SuggestFor: []string{"release"},
		Short:      "Ask the holders of a lock to release it",
		Long: `Ask the holders of a lock to release it, and tell them your name and why.

A holder that listens is told at once: a program by the library's Hold.Revoked,
holdfast run by --on-revoke. Any other holder is not told. The holder decides; nothing forces it to release. This
prints the holders that were asked, and does not wait. "holdfast ls NAME" shows the
holders then.

Exit status: 1 if no client holds the lock, or another library does.`,
		Example:           `  holdfast revoke orders/42 --reason 'node3 is drained'`,
		Args:              oneName,
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := znode.CheckName(args[0]); err != nil {
				return app.Usage("%w", err)
			}
			if err := znode.CheckReason(reason); err != nil {
				return app.Usage("--reason: %w", err)
			}
			return withTree(cmd, flags, func(_ *config.Config, locks *lock.Client, tree admin.Tree) error {
				state, err := tree.Inspect(cmd.Context(), args[0]) // first, because holders may obey at once
				if err != nil {
					return fmt.Errorf("revoke %q: %w", args[0], err)
				}
				if err := locks.Revoke(cmd.Context(), args[0], reason); err != nil {
					return err
				}
				var outcomes []outcome
				for _, c := range list.Holders(state) {
					outcomes = append(outcomes, outcome{Entry: c.Path, Owner: c.Owner, Host: c.Host, PID: c.PID, Result: asked})
				}
				return printOutcomes(cmd, out, outcomes)
			}, lock.WithOwner(userName("holdfast revoke")))
		},
	}
	out.add(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", fmt.Sprintf("`TEXT` that the holders are told, at most %d bytes", lock.MaxReason))
	return cmd
}
