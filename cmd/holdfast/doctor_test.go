package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestDoctorGivesAdviceOnce: if no server can be reached, the finding says why, and only its remedy
// says what to do.
func TestDoctorGivesAdviceOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	iferr.Fatal(t, os.WriteFile(file, []byte("zookeeper: {servers: [\"127.0.0.1:1\"], session_timeout: 200ms}\n"), 0o600))
	t.Setenv("HOLDFAST_ZOOKEEPER", "")
	out, errs, status := holdfast(t, "doctor", "--config", file)
	if status != 1 {
		t.Errorf("status %d: %s", status, errs)
	}
	if n := strings.Count(out, "--servers"); n != 1 || !strings.Contains(out, "no session with ZooKeeper within 200ms") {
		t.Errorf("--servers %d times, want once:\n%s", n, out)
	}
}
