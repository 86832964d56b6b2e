// Reaper cleans up after lock holders that died: it sweeps away expired entries
// and empty lock trees, by the policies of a configuration file.
//
//	reaper --config config.yaml             sweeps by schedule until it is told to stop
//	reaper --config config.yaml --once      sweeps once, for a scheduled job
//	reaper --config config.yaml --dry-run   tells what a sweep would delete
//
// It logs on stderr. With --once or --dry-run the report of the sweep is printed
// on stdout as JSON. SIGTERM and SIGINT stop it, after the deletes that are on
// their way. Of several reapers one is active; a daemon stands by until it is its
// turn.
//
// The exit status is 0 when all was done, 1 if the sweep failed or is incomplete
// (also when another reaper is the active one), and 2 for bad configuration or
// usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

func main() { app.Main(run) }

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	return app.Run(ctx, command(), args, in, out, errs)
}

func command() *cobra.Command {
	var flags app.Flags
	var once, dryRun bool
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
after the deletes that are on their way.

Exit status: 0 done, also if an ACL forbade some nodes, which the report names;
1 the sweep failed or is incomplete, or another reaper is the active one; 2 bad
usage or configuration.`,
		Example: `  reaper --config config.yaml
  reaper --config config.yaml --once > report.json
  reaper --servers zk1:2181,zk2:2181 --dry-run`,
		Args:    cobra.NoArgs,
		Version: app.Version(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.Load()
			if err != nil {
				return err
			}
			log := app.Logger(cfg.Log, cmd.ErrOrStderr())
			if err := options(cfg, log).Validate(); err != nil {
				return err
			}
			if once || dryRun {
				return sweep(cmd.Context(), cfg, log, dryRun, cmd.OutOrStdout())
			}
			return serve(cmd.Context(), cfg, log)
		},
	}
	flags.Add(cmd.PersistentFlags())
	cmd.Flags().BoolVar(&once, "once", false, "sweep all policies once and print the report as JSON")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "like --once, but only tell what would be deleted")
	return cmd
}

func options(cfg *policy.Config, log zerolog.Logger) reaper.Options {
	return reaper.Options{
		Policies: cfg.Policies, Schedule: cfg.Reaper.Schedule, Concurrency: cfg.Reaper.Concurrency,
		Batch: cfg.Reaper.Batch, Lock: cfg.Reaper.Lock, Log: &log,
	}
}

// sweep makes one pass and prints its report.
func sweep(ctx context.Context, cfg *policy.Config, log zerolog.Logger, dryRun bool, out io.Writer) (err error) {
	locks, err := app.DialChecked(ctx, cfg, log)
	if err != nil {
		return failed(err)
	}
	defer func() { err = failed(errors.Join(err, locks.Close())) }()
	o := options(cfg, log)
	o.DryRun = dryRun
	r, err := reaper.New(locks, o)
	if err != nil {
		return err
	}
	report, err := r.Sweep(ctx)
	text, encoding := json.MarshalIndent(report, "", "  ")
	_, printing := fmt.Fprintln(out, string(text))
	return errors.Join(err, encoding, printing)
}

// failed gives an error the exit status 1, unless it is one of configuration: a
// scheduled job that was interrupted is incomplete like any other.
func failed(err error) error {
	if err == nil || app.Status(context.Background(), err) != app.StatusFailed {
		return err
	}
	return &app.Exit{Status: app.StatusFailed, Err: err}
}

// serve sweeps by schedule until ctx ends. It waits for ZooKeeper, at the start
// as after an outage.
func serve(ctx context.Context, cfg *policy.Config, log zerolog.Logger) error {
	locks, err := app.DialChecked(ctx, cfg, log)
	for errors.Is(err, lock.ErrUnavailable) && ctx.Err() == nil {
		log.Error().Err(err).Msg("no ZooKeeper yet; trying again")
		select {
		case <-time.After(cfg.ZooKeeper.SessionTimeout / 2):
			locks, err = app.DialChecked(ctx, cfg, log)
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil && locks == nil {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := reaper.New(locks, options(cfg, log))
	if err == nil {
		err = r.Run(ctx)
	}
	log.Info().Msg("stopped")
	return errors.Join(err, locks.Close())
}
