package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/admin/jsonout"
)

// output prints the result of a command, for people or as JSON.
type output struct{ asJSON bool }

// add adds the flag --json.
func (o *output) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print one JSON document")
}

// print prints document as JSON, or the same for people by text.
func (o *output) print(cmd *cobra.Command, document any, text func(w io.Writer, colour bool) error) error {
	if o.asJSON {
		return jsonout.Document(cmd.OutOrStdout(), document)
	}
	return text(cmd.OutOrStdout(), coloured(cmd))
}

// coloured reports whether the command prints with colors.
func coloured(cmd *cobra.Command) bool {
	return text.Coloured(app.IsTerminal(cmd.OutOrStdout()))
}

// tempFile creates a temporary file, with mode 0600, that can be renamed to name: it is in the same
// folder.
func tempFile(name string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
}

// replaceFile replaces a file atomically. If it fails, the old file stays.
func replaceFile(name string, mode os.FileMode, write func(io.Writer) error) (err error) {
	temp, err := tempFile(name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	if err := errors.Join(write(temp), temp.Chmod(mode), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}
