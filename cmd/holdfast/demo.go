package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/policy"
)

func newDemo(flags *app.Flags) *cobra.Command {
	var reaper string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the promises kept, on a real ZooKeeper",
		Long: `Show the promises kept, on a real ZooKeeper, in about half a minute: processes are
killed and sessions expired, and at the end a table tells what was expected and
what was seen.

It works below a node of its own, /holdfast-demo-<id>, which it removes at the
end, also after Ctrl-C. Of the configuration it takes the servers, which must
let any client create a node at the top.

Exit status: 0 if every promise was kept.`,
		Example: `  holdfast demo --servers 127.0.0.1:2181`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := flags.Load(cmd.Context())
			if err != nil {
				return err
			}
			if reaper, err = findReaper(reaper); err != nil {
				return err
			}
			base := demo.NewBase()
			cfg := policy.Default()
			cfg.ZooKeeper.Servers, cfg.Root = loaded.ZooKeeper.Servers, base.Root()
			locks, err := app.Dial(cmd.Context(), cfg, zerolog.Nop())
			if err != nil {
				return err
			}
			err = demo.Run(cmd.Context(), locks, demo.Options{
				Base: base, Servers: cfg.ZooKeeper.Servers, Reaper: reaper,
				Out: cmd.OutOrStdout(), Colour: app.IsTerminal(cmd.OutOrStdout()) && os.Getenv("NO_COLOR") == "",
			})
			return errors.Join(err, locks.Close())
		},
	}
	cmd.Flags().StringVar(&reaper, "reaper", "", "the reaper's program, `path` (default beside this one, or in $PATH)")
	return cmd
}

// findReaper returns the reaper's program: path if it is given, or else the one beside this
// program or in $PATH.
func findReaper(path string) (string, error) {
	if path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", app.Usage("--reaper: %w", err)
		}
		return found, nil
	}
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), "reaper")); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath("reaper")
	if err != nil {
		return "", app.Usage("the demo needs the reaper's program, which is neither beside this one nor in $PATH: " +
			"build it with go build ./cmd/reaper, or name it with --reaper")
	}
	return found, nil
}
