package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

func newVersion() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version of the module, the commit that the program was built from, and what
it was built with.`,
		Example: `  holdfast version
  holdfast version --json | jq -r .commit`,
		Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return out.print(cmd, app.ReadBuild(), func(w io.Writer, _ bool) error {
				_, err := fmt.Fprintln(w, "holdfast", app.Version())
				return err
			})
		},
	}
	out.add(cmd)
	return cmd
}
