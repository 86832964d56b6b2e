package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/adler32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/golden"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/integration/iferr"
)

// auditArgs returns the arguments of audit for the logs in incidentLogs, in which a node was deleted
// by hand, followed by more.
func auditArgs(more ...string) []string {
	args := []string{"audit"}
	for _, server := range []string{"server-1", "server-3"} {
		args = append(args, "--logs", filepath.Join(incidentLogs, server))
	}
	return append(args, more...)
}

func TestAuditGolden(t *testing.T) {
	for file, args := range map[string][]string{"audit.txt": auditArgs(), "audit.json": auditArgs("--json")} {
		out, errs, status := holdfast(t, args...)
		if status != statusViolations || !strings.HasSuffix(errs, "2 violations\n") {
			t.Errorf("%s: status %d: %s", file, status, errs)
		}
		golden.Check(t, file, []byte(out))
	}
}

func TestAuditStatus(t *testing.T) {
	empty, clean, damaged := t.TempDir(), t.TempDir(), t.TempDir()
	data, err := os.ReadFile(filepath.Join(incidentLogs, "server-1", "log.100000001"))
	iferr.Fatal(t, err)
	deletion := bytes.Index(data, []byte("4389ca0f33b6805a-lock-0000000006")) // the next entry joins before the deletion by hand
	if deletion < 0 {
		t.Fatal("the incident's log has changed")
	}
	gap := append(data[:2000:2000], data[2100:deletion]...)
	for folder, data := range map[string][]byte{clean: data[:deletion], damaged: gap} {
		iferr.Fatal(t, os.WriteFile(filepath.Join(folder, "log.100000001"), data, 0o600))
	}
	for name, tt := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"clean":            {[]string{"audit", "--logs", clean}, 0, ""},
		"nothing to judge": {auditArgs("--since", "2026-11-27T12:00"), app.StatusFailed, "nothing was judged: the logs end at 2026-11-26T11:54:32Z, before --since"},
		"nothing since":    {[]string{"audit", "--logs", incidentLogs + "/server-3/log.200000001", "--since", "2026-11-26T11:54:32.8"}, app.StatusFailed, "nothing was judged: since 2026-11-26T11:54:32Z these logs have no writes of Holdfast's locks"},
		"no logs":          {[]string{"audit", "--logs", empty}, app.StatusFailed, empty},
		"a gap":            {[]string{"audit", "--logs", damaged}, app.StatusFailed, "not all could be read"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, status := holdfast(t, tt.args...)
			if status != tt.status || !strings.Contains(errs, tt.says) {
				t.Errorf("status %d, wanted %d: %s\n%s", status, tt.status, errs, out)
			}
		})
	}
}

// TestAuditDisagree: if the data of servers differs, audit reports from which zxid on, with an exit
// status of its own, and no violation.
func TestAuditDisagree(t *testing.T) {
	other := t.TempDir()
	data, err := os.ReadFile(filepath.Join(incidentLogs, "server-1", "log.100000001"))
	iferr.Fatal(t, err)
	out, errs, status := disagreeing(t, other, data)
	if status != statusDisagree || !strings.Contains(errs, "the servers disagree on their data from 0x") {
		t.Errorf("status %d: %s\n%s", status, errs, out)
	}
	var doc struct {
		Disagree   string
		Violations []any
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Disagree == "" || len(doc.Violations) != 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// disagreeing audits the first server's log together with a changed copy of log, which it writes to
// folder: owner shop-2 is shop-9 there.
func disagreeing(t *testing.T, folder string, log []byte) (out, errs string, status int) {
	t.Helper()
	changed := 0
	for at := 16; at+12 < len(log); { // each entry: checksum, length, payload, 'B'
		n := int(binary.BigEndian.Uint32(log[at+8:]))
		if n == 0 {
			break
		}
		payload := log[at+12 : at+12+n]
		if i := bytes.Index(payload, []byte(`"owner":"shop-2"`)); i >= 0 {
			copy(payload[i:], `"owner":"shop-9"`)
			binary.BigEndian.PutUint64(log[at:], uint64(adler32.Checksum(payload)))
			changed++
		}
		at += 12 + n + 1
	}
	if changed == 0 {
		t.Fatal("the log has no client shop-2")
	}
	iferr.Fatal(t, os.WriteFile(filepath.Join(folder, "log.100000001"), log, 0o600))
	return holdfast(t, "audit", "--json", "--logs", filepath.Join(incidentLogs, "server-1"), "--logs", folder)
}
