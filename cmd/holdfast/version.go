package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/admin/jsonout"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version of the module, the commit that the program was built from, and what
it was built with.`,
		Example: `  holdfast version
  holdfast version --json | jq -r .commit`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return jsonout.Document(cmd.OutOrStdout(), app.ReadBuild())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "holdfast", app.Version())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
