package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/admin"
)

func newLs(flags *app.Flags) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List the locks in use, their holders and who waits",
		Long: `List the locks in use, their holders and who waits in order: all of them, or
NAME and those below it.

What is left of a lease is reckoned in the ZooKeeper leader's time, not by this
machine's clock. A lease that is renewed does not run out; one that has expired
is cleaned up by the next waiter or the reaper. After a change of the leader what
is shown may be off by as much as the two clocks, until the holder has renewed.
Nothing is changed. Entries of other libraries are shown as not ours.

Exit status: 1 if some nodes could not be read, which are then named.`,
		Example: `  holdfast ls
  holdfast ls orders --json | jq -r '.locks[] | .name + " " + .holders[0].owner'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			cfg, err := flags.Load()
			if err != nil {
				return err
			}
			locks, err := app.Dial(cmd.Context(), cfg, app.Logger(cfg.Log, cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer locks.Close()
			listing, err := list.Read(cmd.Context(), admin.New(locks), name)
			if err != nil {
				return err
			}
			if !all {
				listing = listing.InUse()
			}
			print := listing.Table
			if asJSON {
				print = listing.JSON
			}
			if err := print(cmd.OutOrStdout()); err != nil {
				return err
			}
			for _, u := range listing.Unread {
				fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: cannot read %s: %v\n", u.Path, u.Err)
			}
			if n := len(listing.Unread); n > 0 {
				return fmt.Errorf("the listing is incomplete: %d nodes could not be read", n)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.Flags().BoolVar(&all, "all", false, "list locks that nobody uses, ancestors and other nodes, too")
	return cmd
}
