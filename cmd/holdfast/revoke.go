package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func newRevoke(flags *app.Flags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "revoke NAME [--reason TEXT]",
		Short: "Ask those who hold a lock to give it up",
		Long: `Ask those who hold a lock to give it up, and tell them why.

They are told at once, if they listen: programs by the library's Hold.Revoked,
and holdfast run with --on-revoke. What comes of it they decide; nobody is
forced. This returns when they are asked, and does not wait. "holdfast ls NAME"
tells who holds the lock then.

Exit status: 1 if nobody holds the lock, or another library does.`,
		Example:           `  holdfast revoke orders/42 --reason 'node3 is drained'`,
		Args:              app.OneName,
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := znode.CheckName(args[0]); err != nil {
				return app.Usage("%w", err)
			}
			if err := znode.CheckReason(reason); err != nil {
				return app.Usage("--reason: %w", err)
			}
			cfg, err := flags.Load(cmd.Context())
			if err != nil {
				return err
			}
			locks, err := app.Dial(cmd.Context(), cfg, app.Logger(cfg.Log, cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer locks.Close()
			return locks.Revoke(cmd.Context(), args[0], reason)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", fmt.Sprintf("`TEXT` that the holders are told, at most %d bytes", lock.MaxReason))
	return cmd
}
