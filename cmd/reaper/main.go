// Reaper cleans up after lock holders that died: it sweeps away expired entries
// and empty lock trees, by the policies of a configuration file.
//
//	reaper --config config.yaml             sweeps by schedule until it is told to stop
//	reaper --config config.yaml --once      sweeps once, for a scheduled job
//	reaper --config config.yaml --dry-run   tells what a sweep would delete
//
// It logs on stderr. With --once or --dry-run the report of the sweep is printed
// on stdout as JSON, and how far it is on stderr if that is a terminal. SIGTERM and
// SIGINT stop it, after the deletes that are on their way. Of several reapers one is
// active; a daemon stands by until it is its turn.
//
// A daemon reads its configuration again when the file has changed, and on SIGHUP; on a
// terminal, SIGHUP ends it. One with a mistake is refused, and the one before stays in
// force. Policies, schedules and bounds can be changed so, and roots be added and removed;
// for the servers and credentials of a root that stays, its lock, the log and the status
// page the reaper is to be started again, and it says so.
//
// Where the configuration names several roots, each is swept by a client of its own, and
// what goes wrong with one does not keep the others. The reports are then a list.
//
// The exit status is 0 when all was done, 1 if the sweep failed or is incomplete
// (also when another reaper is the active one), and 2 for bad configuration or
// usage.
package main

import (
	"context"
	"io"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

func main() { app.Main(run) }

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	return app.Run(ctx, command(), args, in, out, errs)
}

func command() *cobra.Command {
	f := new(reaperFlags)
	cmd := &cobra.Command{
		Use:   "reaper",
		Short: "Cleans up after lock holders that died",
		Long: `Reaper sweeps away expired lock entries and empty lock trees, by the policies of
a configuration file: by schedule until it is told to stop, or once.

It deletes nothing but expired entries of Holdfast's, and empty nodes that
Holdfast made, once they are older than the policy's orphan_after. What was written
under an earlier leader of ZooKeeper counts from when the present one began, by a
clock that cannot be compared with the other's: the node .epoch below the root tells
when that was, and stays. Where leaders follow each other faster than leases end,
only a reaper that keeps running can tell what is dead.

Nodes of format 1, which versions before the first release wrote, are counted and left
alone. --format-1 has them deleted by the same rules: say so only when no process of
such a version uses these locks.

Of several reapers one is active; the others stand by. SIGTERM and SIGINT stop it,
after the deletes that are on their way. With --listen, or reaper.listen in the file, a
daemon serves a status page, /metrics, /healthz and /readyz. Policies, schedules,
bounds and the list of roots are read again when the file has changed, and on SIGHUP.

Exit status: 0 done, also if an ACL forbade some nodes, which the report names;
1 the sweep failed or is incomplete, or another reaper is the active one; 2 bad
usage or configuration. That there is no root yet is no failure: nothing is swept, and
a warning says so.`,
		Example: `  reaper --config config.yaml
  reaper --config config.yaml --once > report.json
  reaper --servers zk1:2181,zk2:2181 --dry-run`,
		Args:    cobra.NoArgs,
		Version: app.Version(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.Add(cmd.PersistentFlags())
	cmd.Flags().BoolVar(&f.once, "once", false, "sweep all policies once and print the report as JSON")
	cmd.Flags().StringVar(&f.listen, "listen", "", "serve the status page, metrics and health at this port of 127.0.0.1, or host:port")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "like --once, but only tell what would be deleted")
	cmd.Flags().BoolVar(&f.format1, "format-1", false, "delete expired entries and empty locks of format 1, too")
	return cmd
}

type reaperFlags struct {
	app.Flags
	once, dryRun bool
	format1      bool
	listen       string
}

// run sweeps once, or by schedule until it is told to stop.
func (f *reaperFlags) run(cmd *cobra.Command) error {
	address, err := f.address()
	if err != nil {
		return err
	}
	p := program{flags: &f.Flags, format1: f.format1, errs: cmd.ErrOrStderr(), address: address}
	once := f.once || f.dryRun
	if !once {
		p.listen(cmd.Context())
	}
	cfg, err := f.Load(cmd.Context())
	if err != nil {
		return err
	}
	if err := app.CheckReapers(cfg); err != nil {
		return err
	}
	if once {
		return p.sweep(cmd.Context(), cfg, f.dryRun, cmd.OutOrStdout())
	}
	return p.serve(cmd.Context(), cfg)
}

// address is where --listen has the page served; "" without it.
func (f *reaperFlags) address() (string, error) {
	if f.listen == "" {
		return "", nil
	}
	address, err := policy.ParseListen(f.listen)
	if err != nil {
		return "", app.Usage("--listen %q: %w", f.listen, err)
	}
	if f.once || f.dryRun {
		return "", app.Usage("--listen: only a daemon serves a page: leave it out with --once and --dry-run")
	}
	return address, nil
}

// program is what a run of the command works with.
type program struct {
	flags   *app.Flags
	format1 bool // delete what is of format 1, too
	errs    io.Writer
	address string // to listen on, in place of the configuration's; "" for that
	hangups <-chan struct{}
	changes *changes // of the configuration file; nil: it is not followed
}

// about is what a reaper of that root tells of itself.
func (p *program) about(n policy.Named) reaper.About {
	return reaper.About{Name: n.Name, Version: app.Version(), File: p.flags.File(), Servers: n.ZooKeeper.Servers, Root: n.Root}
}

// options are those of the reaper of a root.
func (p *program) options(n policy.Named) reaper.Options {
	o := app.ReaperOptions(n.Config)
	o.Format1 = p.format1
	return o
}

// logger is that of a root.
func logger(log zerolog.Logger, n policy.Named) zerolog.Logger {
	if n.Name == "" {
		return log
	}
	return log.With().Str("root_name", n.Name).Logger()
}

// failed gives an error the exit status 1, unless it is one of configuration: a
// scheduled job that was interrupted is incomplete like any other.
func failed(err error) error {
	if err == nil || app.Status(context.Background(), err) != app.StatusFailed {
		return err
	}
	return &app.Exit{Status: app.StatusFailed, Err: err}
}
