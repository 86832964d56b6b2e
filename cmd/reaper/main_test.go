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

// TestInvalidLimitsAreReportedAtOnce: invalid limits are reported as mistakes in the configuration,
// even if no server can be reached.
func TestInvalidLimitsAreReportedAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "zookeeper: {servers: [\"127.0.0.1:1\"]}\nreaper: {batch: 501, concurrency: 1001}\n"
	iferr.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
	for _, how := range []string{"--once", "--dry-run", "--once=false"} {
		var out, errs bytes.Buffer
		status := run(t.Context(), []string{"--config", file, how}, strings.NewReader(""), &out, &errs)
		if status != app.StatusUsage || out.Len() > 0 {
			t.Errorf("%s: status %d, printed %q", how, status, &out)
		}
		for _, says := range []string{"reaper.batch 501: must be from 1 to 500", "reaper.concurrency 1001: must be from 1 to 1000"} {
			if !strings.Contains(errs.String(), says) {
				t.Errorf("%s: says %q, want %q", how, &errs, says)
			}
		}
	}
}

// TestListenIsTheDaemons: --listen with --once is an error of usage.
func TestListenIsTheDaemons(t *testing.T) {
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"--once", "--listen", "9180"}, strings.NewReader(""), &out, &errs)
	if status != app.StatusUsage || !strings.Contains(errs.String(), "only a daemon serves a page") {
		t.Errorf("status %d, says %q", status, &errs)
	}
}

// TestReportsAreAList: with several roots the output is a list, which is empty if no root can be
// reached.
func TestReportsAreAList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "zookeeper: {servers: [\"127.0.0.1:1\"], session_timeout: 1s}\nroots: [{name: a, root: /a}, {name: b, root: /b}]\n"
	iferr.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
	t.Setenv("HOLDFAST_ZOOKEEPER", "")
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"--once", "--config", file}, strings.NewReader(""), &out, &errs)
	if status != app.StatusFailed || out.String() != "[]\n" {
		t.Errorf("status %d, printed %q", status, &out)
	}
}
