package main

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
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
		Args:    app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.Load(cmd.Context())
			if err != nil {
				return err
			}
			if reaper, err = findReaper(reaper); err != nil {
				return err
			}
			return demo.Run(cmd.Context(), demo.Options{
				Servers: cfg.ZooKeeper.Servers, Reaper: reaper, Out: cmd.OutOrStdout(), Colour: coloured(cmd),
			})
		},
	}
	cmd.Flags().StringVar(&reaper, "reaper", "", "the reaper's program, `path` (default beside this one, or in $PATH)")
	return cmd
}

// findReaper returns the path of the reaper's program: the named one, or, if named is "", the one
// beside this program or in $PATH.
func findReaper(named string) (string, error) {
	if named != "" {
		found, err := exec.LookPath(named)
		if err != nil {
			return "", app.Usage("--reaper: %w", err)
		}
		return found, nil
	}
	self, _ := os.Executable()
	for _, path := range []string{filepath.Join(filepath.Dir(self), "reaper"), "reaper"} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", app.Usage("the demo needs the reaper's program, which is neither beside this one nor in $PATH: " +
		"build it with go build ./cmd/reaper, or name it with --reaper")
}
