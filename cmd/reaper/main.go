// Reaper cleans up after crashed clients: it deletes expired entries and empty lock trees, by the
// policies of a configuration file.
//
//	reaper --config config.yaml             sweeps by schedule until it is stopped
//	reaper --config config.yaml --once      sweeps once, for a scheduled job
//	reaper --config config.yaml --dry-run   prints what a sweep would delete
//
// It logs on stderr. With --once or --dry-run it prints the report of the sweep on stdout as JSON,
// and its progress on stderr if that is a terminal. SIGTERM and SIGINT stop it, after the deletes
// in flight. Of several reapers one is active; the other daemons stand by.
//
// A daemon reloads its configuration when the file has changed, and on SIGHUP; on a terminal,
// SIGHUP ends it. If the new configuration has a mistake, the old one stays in force. A reload can
// change policies, schedules and limits, and add or remove roots. Changes of a root's servers,
// credentials and lock, of the log and of the status page need a restart: the reaper logs a warning.
//
// If the configuration has several roots, each has its own client, and a failure of one does not
// stop the others. The reports are then a list.
//
// The exit status is 0 if the sweep is complete or the daemon was stopped, 1 if the sweep or the daemon
// failed, or the sweep is incomplete, 2 for bad configuration or usage, and 3 if --once swept nothing
// because another reaper is active.
package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/reaper"
)

func main() { app.Main(run) }

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	return app.Run(ctx, command(), args, in, out, errs)
}

func command() *cobra.Command {
	p := new(program)
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

Of several reapers one is active; the others stand by. SIGTERM and SIGINT stop it,
after the deletes that are on their way. With --listen, or reaper.listen in the file, a
daemon serves a status page, /metrics, /healthz and /readyz. Policies, schedules,
bounds and the list of roots are read again when the file has changed, and on SIGHUP.

Exit status: 0 done, also if an ACL forbade some nodes, which the report names;
1 the sweep failed or is incomplete; 2 bad usage or configuration; 3 with --once,
another reaper is the active one, and nothing was swept. That there is no root yet is
no failure: nothing is swept, and a warning says so.`,
		Example: `  reaper --config config.yaml
  reaper --config config.yaml --once > report.json
  reaper --servers zk1:2181,zk2:2181 --dry-run`,
		Args:    app.NoArgs,
		Version: app.Version(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	p.Add(cmd.PersistentFlags())
	cmd.Flags().BoolVar(&p.once, "once", false, "sweep all policies once and print the report as JSON")
	cmd.Flags().StringVar(&p.address, "listen", "", "serve the status page, metrics and health at this port of 127.0.0.1, or host:port")
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "like --once, but only tell what would be deleted")
	return cmd
}

// program is a run of the command: its flags, and its state.
type program struct {
	app.Flags
	once, dryRun bool
	address      string // address of --listen; "" means that of the configuration

	errs    io.Writer
	hangups <-chan os.Signal
	changes *changes // changes of the configuration file; nil if there is no regular file to follow
}

// run sweeps once, or by schedule until it is stopped.
func (p *program) run(cmd *cobra.Command) error {
	once := p.once || p.dryRun
	if p.address != "" {
		address, err := config.ParseListen(p.address)
		if err != nil {
			return app.Usage("--listen %q: %w", p.address, err)
		}
		if once {
			return app.Usage("--listen: only a daemon serves a page: leave it out with --once and --dry-run")
		}
		p.address = address
	}
	app.SurvivePipe() // else a closed standard error could leave the lock's entry behind
	p.errs = cmd.ErrOrStderr()
	if f, ok := p.errs.(*os.File); ok { // a log without a reader must not stop the sweeps, or the end
		aside := &app.Aside{File: f}
		defer aside.Flush(time.Second)
		p.errs = aside
	}
	if !once {
		p.listen()
	}
	cfg, err := p.load(cmd.Context())
	if err != nil {
		return err
	}
	if once {
		return p.sweep(cmd.Context(), cfg, cmd.OutOrStdout())
	}
	return p.serve(cmd.Context(), cfg)
}

// load reads and checks the configuration.
func (p *program) load(ctx context.Context) (*config.Config, error) {
	cfg, err := p.Load(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Status.Listen = cmp.Or(p.address, cfg.Status.Listen)
	return cfg, app.CheckReapers(cfg)
}

// options returns the options of a root's reaper, with a new monitor.
func (p *program) options(n config.Named, log *zerolog.Logger) reaper.Options {
	o := app.ReaperOptions(n.Config)
	o.DryRun, o.Log = p.dryRun, log
	o.Monitor = reaper.NewMonitor(reaper.About{Name: n.Name, Version: app.Version(), File: p.File(), Servers: n.ZooKeeper.Servers, Root: n.Root})
	return o
}

// logger returns a logger that adds the root's name, if it has one.
func logger(log zerolog.Logger, n config.Named) zerolog.Logger {
	if n.Name == "" {
		return log
	}
	return log.With().Str("root_name", n.Name).Logger()
}

// failed gives an error the exit status 1, unless it is a mistake in the configuration or the usage.
// So an interrupted sweep has the status of an incomplete sweep.
func failed(err error) error {
	if err == nil || app.Status(context.Background(), err) != app.StatusFailed {
		return err
	}
	return &app.Exit{Status: app.StatusFailed, Err: err}
}
