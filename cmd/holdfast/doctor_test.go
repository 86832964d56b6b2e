package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorGivesAdviceOnce: if no server can be reached, the finding says why, and only its remedy
// says what to do.
func TestDoctorGivesAdviceOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // from now on the address refuses connections
	file := filepath.Join(t.TempDir(), "config.yaml")
	config := "zookeeper: {servers: [\"" + l.Addr().String() + "\"], session_timeout: 200ms}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOLDFAST_ZOOKEEPER", "")
	out, errs, status := holdfast(t, "doctor", "--config", file)
	if status != 1 {
		t.Errorf("status %d: %s", status, errs)
	}
	if n := strings.Count(out, "--servers"); n != 1 || !strings.Contains(out, "no session with ZooKeeper within 200ms") {
		t.Errorf("--servers %d times, want once:\n%s", n, out)
	}
}
