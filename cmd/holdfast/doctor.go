package main

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
)

type doctorFlags struct {
	*app.Flags
	output
	catalogue, strict bool
	watch             time.Duration
}

func newDoctor(flags *app.Flags) *cobra.Command {
	f := &doctorFlags{Flags: flags}
	cmd := &cobra.Command{
		Use:        "doctor",
		SuggestFor: []string{"check", "diagnose"},
		Short:      "Find faults of the servers and the configuration, and remedies",
		Long: `Look for what is wrong with the servers, the tree of locks and the configuration, and
say what it means and how to mend it: whether the server has the behavior that locks require, its
clock and the grace that it needs, session timeout and TTLs, access lists, the size of
requests, what is left behind, and more. --list tells all that is looked for; the IDs of
the findings stay the same from release to release.

Nothing is changed: what is written to try the server is gone again. The whole tree is
read once, as by a sweep.

Exit status: 1 if there is an error among the findings, with --strict also if there is
a warning; 2 bad usage or configuration.`,
		Example: `  holdfast doctor --config config.yaml
  holdfast doctor --json | jq -r '.findings[] | .id + ": " + .mend'`,
		Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.catalogue {
				document := struct {
					Findings []doctor.Finding `json:"findings"`
				}{doctor.Known()}
				return f.print(cmd, document, doctor.Catalogue)
			}
			if f.watch < 0 || f.watch > time.Hour {
				return app.Usage("--watch-clock %v: must be within 0s..1h", f.watch)
			}
			return f.run(cmd)
		},
	}
	f.output.add(cmd)
	cmd.Flags().BoolVar(&f.catalogue, "list", false, "tell all that is looked for, and look for nothing")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "fail for warnings, too")
	cmd.Flags().DurationVar(&f.watch, "watch-clock", 3*time.Second, "for how long to watch the leader's clock")
	return cmd
}

// run examines the servers and the configuration, and prints the report. It fails if there is an
// error among the findings, or with --strict a warning.
func (f *doctorFlags) run(cmd *cobra.Command) error {
	report, err := f.examine(cmd)
	if err != nil {
		return err
	}
	if err := f.print(cmd, report, report.Print); err != nil {
		return err
	}
	switch worst := report.Worst(); {
	case worst == doctor.Error:
		return errors.New("there are errors among the findings")
	case f.strict && worst == doctor.Warning:
		return errors.New("there are warnings among the findings, and --strict was given")
	}
	return nil
}

func (f *doctorFlags) examine(cmd *cobra.Command) (doctor.Report, error) {
	cfg, err := f.Load(cmd.Context())
	if err != nil {
		return doctor.Report{}, err
	}
	app.TellRoots(cfg, app.Logger(cfg.Log, cmd.ErrOrStderr()))
	return doctor.Examine(cmd.Context(), doctor.Options{
		Config: cfg, Watch: f.watch, Log: zerolog.Nop(), // the report says everything
		Dial: func(ctx context.Context, opts ...lock.Option) (*lock.Client, error) {
			client, err := app.Dial(ctx, cfg, zerolog.Nop(), opts...)
			var unreachable *app.Unreachable
			if errors.As(err, &unreachable) {
				err = unreachable.Unwrap() // the finding has advice of its own
			}
			return client, err
		},
	})
}
