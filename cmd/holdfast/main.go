// Holdfast inspects locks, runs commands under them, and demonstrates their guarantees:
//
//	holdfast ls       lists the locks, their holders and their waiters
//	holdfast show     shows one lock: its holders, its waiters, and what each waits for
//	holdfast top      shows the most contended locks, live
//	holdfast run      runs a command while holding a lock
//	holdfast jobs     lists the jobs that run once a tick, and their last runs
//	holdfast shards   shows groups of shards: members, owners, and shards without one
//	holdfast history  tells what happened to locks, from the logs of ZooKeeper
//	holdfast revoke   asks the holders of a lock to release it
//	holdfast break    force-releases a lock: ends the holds on it
//	holdfast sweep    cleans up once, as the reaper does
//	holdfast policy   tells which policy applies to a lock, and why
//	holdfast config   checks a configuration file, without a server
//	holdfast doctor   looks for what is wrong with the servers and the configuration
//	holdfast audit    checks ZooKeeper's own log against the protocol of the locks
//	holdfast demo     shows the promises kept, on a real ZooKeeper
//	holdfast dev      serves a ZooKeeper in memory, for development
//	holdfast version  prints the version
//	holdfast completion  prints a script that completes commands and locks' names in a shell
//
// Each command has a file here; larger ones also have packages in internal. "holdfast help
// COMMAND" describes a command.
package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

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
	cmd.AddCommand(newLs(flags), newShow(flags), newTop(flags), newRun(flags), newJobs(flags), newShards(flags), newHistory(flags), newAudit(), newRevoke(flags), newBreak(flags), newSweep(flags),
		newPolicy(flags), newConfig(flags), newDoctor(flags), newDemo(flags), newDev(), newVersion())
	return cmd
}
