// Holdfast inspects locks, runs commands under them, and demonstrates their guarantees. "holdfast help"
// lists its commands, and "holdfast help COMMAND" describes one. Each command has a file here; larger
// ones also have packages in internal.
package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

func main() {
	supervise.Helper() // returns unless "run" has started this process as a helper
	demo.Helper()      // returns unless "demo" has started this process as a worker
	app.Main(run)
}

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	return app.Run(ctx, newCommand(), args, in, out, errs)
}

func newCommand() *cobra.Command {
	flags := new(app.Flags)
	cmd := &cobra.Command{
		Use:   "holdfast",
		Short: "Locks on ZooKeeper that hold through session flaps",
		Long: `Locks on ZooKeeper that hold through session flaps.

A setting comes from its flag, else from the environment ($` + app.EnvConfig + `,
$` + app.EnvServers + `), else from the configuration file, else it has its default.

Exit status: 0 done, 1 failed, 2 bad usage or configuration, 128+n ended by signal n;
more with run.`,
		Version: app.Version(),
		Args:    app.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags.Add(cmd.PersistentFlags())
	cmd.AddCommand(newLs(flags), newShow(flags), newTop(flags), newRun(flags), newJobs(flags), newShards(flags), newHistory(flags), unconfigured(newAudit()), newRevoke(flags), newBreak(flags), newSweep(flags),
		newPolicy(flags), newConfig(flags), newDoctor(flags), newDemo(flags), unconfigured(newDev()), unconfigured(newVersion()))
	return cmd
}

// unconfigured hides the flags of the configuration in the help of a command that does not use them. It
// takes them as others do, because they may be part of an alias.
func unconfigured(cmd *cobra.Command) *cobra.Command {
	set := pflag.NewFlagSet("", pflag.PanicOnError)
	new(app.Flags).Add(set)
	set.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	cmd.Flags().AddFlagSet(set)
	return cmd
}
