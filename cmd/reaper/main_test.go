package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestCommandLine: invalid limits are mistakes in the configuration, even if no server can be reached.
// --listen with --once is an error of usage. With several roots the output is a list, which is empty if no
// root can be reached.
func TestCommandLine(t *testing.T) {
	const away, limits = `zookeeper: {servers: ["127.0.0.1:1"], session_timeout: 1s}` + "\n", "reaper: {batch: 501, concurrency: 1001}\n"
	wrong := []string{"reaper.batch 501: must be from 1 to 500", "reaper.concurrency 1001: must be from 1 to 1000"}
	t.Setenv(app.EnvServers, "")
	for _, test := range []struct {
		config, args string
		status       int
		out          string
		says         []string
	}{
		{away + limits, "--once", app.StatusUsage, "", wrong},
		{away + limits, "--dry-run", app.StatusUsage, "", wrong},
		{away + limits, "--once=false", app.StatusUsage, "", wrong},
		{away, "--once --listen 9180", app.StatusUsage, "", []string{"only a daemon serves a page"}},
		{away + "roots: [{name: a, root: /a}, {name: b, root: /b}]\n", "--once", app.StatusFailed, "[]\n", nil},
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		iferr.Fatal(t, os.WriteFile(file, []byte(test.config), 0o600))
		var out, errs bytes.Buffer
		status := run(t.Context(), append(strings.Fields(test.args), "--config", file), strings.NewReader(""), &out, &errs)
		if status != test.status || out.String() != test.out {
			t.Errorf("%s: status %d, printed %q", test.args, status, &out)
		}
		for _, says := range test.says {
			if !strings.Contains(errs.String(), says) {
				t.Errorf("%s: says %q, want %q", test.args, &errs, says)
			}
		}
	}
}
