package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/golden"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/integration/iferr"
)

// The logs of two of three servers, recorded by TestHistory of package integration: a killed holder,
// a leader whose clock is stepped by an hour, a forced release, a node deleted by hand, an election.
const (
	incidentLogs = "testdata/incident"
	incidentRoot = "/it-7472e92e4a8df3a6"
)

// incidentArgs returns the arguments of history for the logs in incidentLogs, followed by more.
func incidentArgs(more ...string) []string {
	args := []string{"history", "--root", incidentRoot}
	for _, server := range []string{"server-1", "server-3"} {
		args = append(args, "--logs", filepath.Join(incidentLogs, server))
	}
	return append(args, more...)
}

func TestHistoryGolden(t *testing.T) {
	for file, args := range map[string][]string{
		"history.txt":          incidentArgs("orders/42"),
		"history-overview.txt": incidentArgs(),
		"history-owner.txt":    incidentArgs("--owner", "shop-3"),
		"history-window.txt":   incidentArgs("orders/42", "--since", "2026-11-26T11:53:20", "--until", "2026-11-26T11:53:31"),
		"history-since.txt":    incidentArgs("orders/42", "--since", "12:54:24"), // before another leader's stamps fall
		"history-at.txt":       incidentArgs("orders/42", "--at", "11:53:18.5", "--at", "2026-11-26T11:53:30.148Z", "--at", "12:20", "--at", "0x100000044", "--at", "2026-11-26T11:00", "--at", "2026-11-27"),
		"history.json":         incidentArgs("orders/*", "--json"),
		"history-at.json":      incidentArgs("orders/42", "--json", "--at", "11:53:18.5"),
	} {
		out, errs, status := holdfast(t, args...)
		if status != 0 || errs != "" {
			t.Errorf("%s: status %d: %s", file, status, errs)
		}
		golden.Check(t, file, []byte(out))
	}
}

// TestHistoryMoments: for each recorded moment of the incident, --at names the right holder, whether
// the moment is given by its time or by its zxid.
func TestHistoryMoments(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(incidentLogs, "moments.txt"))
	iferr.Fatal(t, err)
	asked := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t") // time, zxid, owner, pid, what
		for _, at := range fields[:2] {
			if at == "" {
				continue
			}
			asked++
			out, errs, status := holdfast(t, incidentArgs("orders/42", "--json", "--at", at)...)
			var doc struct {
				Moments []struct {
					Where string
					Locks []struct {
						Holders []struct {
							Client struct {
								Owner string
								PID   int
							}
						}
					}
				}
			}
			if err := json.Unmarshal([]byte(out), &doc); err != nil || status != 0 || len(doc.Moments) != 1 {
				t.Fatalf("%s: %v, status %d, %s\n%s", at, err, status, errs, out)
			}
			var got []string
			for _, l := range doc.Moments[0].Locks {
				for _, h := range l.Holders {
					if fields[3] != "0" {
						h.Client.Owner = fmt.Sprint(h.Client.PID)
					}
					got = append(got, h.Client.Owner)
				}
			}
			want := fields[2]
			if fields[3] != "0" {
				want = fields[3]
			}
			if strings.Join(got, " ") != want || doc.Moments[0].Where != "within" {
				t.Errorf("%s, at %s: held by %q, want %q; %s", fields[4], at, got, want, doc.Moments[0].Where)
			}
		}
	}
	if asked < 20 {
		t.Errorf("only %d moments", asked)
	}
}

// TestHistoryPage: the page refers to no other file and runs no script. A second call replaces the
// page, and leaves no temporary file.
func TestHistoryPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "incident.html")
	for range 2 { // the second one replaces the first
		out, errs, status := holdfast(t, incidentArgs("orders/42", "--html", file)...)
		if status != 0 || !strings.Contains(out, "1 lock") {
			t.Fatalf("status %d: %s%s", status, out, errs)
		}
	}
	page, err := os.ReadFile(file)
	iferr.Fatal(t, err)
	for _, want := range []string{"Content-Security-Policy", "default-src &#39;none&#39;", "What happened to orders/42", "hangs since the step", "<svg"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if found := regexp.MustCompile(`<script|https?:|src="|href=|url\(| style="`).Find(page); found != nil {
		t.Errorf("the page has %q", found)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestHistoryOfNothing: if there is nothing to tell, history says why and fails.
func TestHistoryOfNothing(t *testing.T) {
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"no lock orders/43 in these logs, which go from 2026-11-26 11:53:17 to 2026-11-26 11:54:32 UTC; they have orders/42\n": incidentArgs("orders/43"),
		"no lock that matches x/* in these logs":                                    incidentArgs("x/*"),
		"no client nobody in these logs":                                            incidentArgs("--owner", "nobody"),
		"nothing happened at that time: the logs go from":                           incidentArgs("orders/42", "--since", "2026-11-26T13:00"),
		"there are locks below " + incidentRoot + "/orders: is --root to name that": {"history", "--logs", incidentLogs + "/server-1"},
	} {
		if out, _, status := holdfast(t, args...); status != app.StatusFailed || !strings.Contains(out, want) {
			t.Errorf("%q: status %d, %q; want %q", args, status, out, want)
		}
	}
	if out, _, status := holdfast(t, incidentArgs("orders/43", "--json")...); status != app.StatusFailed || !json.Valid([]byte(out)) || !strings.Contains(out, `"none": "no lock orders/43`) {
		t.Errorf("status %d: %s", status, out)
	}
	if _, errs, status := holdfast(t, "history", "--logs", empty); status != app.StatusFailed || !strings.Contains(errs, empty) {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestSnapshotsAlone: of a server whose logs are in a dataLogDir, history and audit ask for both folders
// if only its dataDir is given, and warn if only its dataLogDir is.
func TestSnapshotsAlone(t *testing.T) {
	dataDir, dataLogDir := t.TempDir(), t.TempDir()
	for _, file := range []string{"snapshot.0", "snapshot.100000000", "log.100000001"} {
		data, err := os.ReadFile(filepath.Join(incidentLogs, "server-1", file))
		iferr.Fatal(t, err)
		folder := filepath.Join(dataDir, "version-2")
		if strings.HasPrefix(file, "log.") {
			folder = filepath.Join(dataLogDir, "version-2")
		}
		iferr.Fatal(t, os.MkdirAll(folder, 0o700))
		iferr.Fatal(t, os.WriteFile(filepath.Join(folder, file), data, 0o600))
	}
	for _, args := range [][]string{{"history"}, {"history", "orders/42"}, {"history", "--at", "0x100000044"}, {"audit"}} {
		args = append(args, "--logs", filepath.Join(dataDir, "version-2"))
		out, errs, status := holdfast(t, args...)
		if status != app.StatusFailed || out != "" || !strings.Contains(errs, "give the version-2 of dataDir and that of dataLogDir") {
			t.Errorf("%q: status %d: %s%s", args, status, out, errs)
		}
	}
	args := []string{"history", "--root", incidentRoot, "--at", "0x100000044", "--logs", dataLogDir}
	out, errs, status := holdfast(t, args...)
	if status != 0 || !strings.Contains(out, "held by shop-4") || !strings.Contains(errs, "warning: these logs begin in the middle, and no snapshot is given") {
		t.Errorf("the dataLogDir alone: status %d: %s%s", status, out, errs)
	}
	out, errs, status = holdfast(t, append(args, "--logs", dataDir)...)
	if status != 0 || !strings.Contains(out, "held by shop-4") || errs != "" {
		t.Errorf("both: status %d: %s%s", status, out, errs)
	}
}

// TestHistoryCalm: if nothing happened, or nothing stands out, history says so, and succeeds; also for a time
// after the end of the logs, even if an earlier leader's clock skipped that time of day.
func TestHistoryCalm(t *testing.T) {
	for want, args := range map[string][]string{
		"Nothing happened in this time. At the end of the logs:\n  no client held it": incidentArgs("orders/42", "--since", "2026-11-26T11:53:19", "--until", "2026-11-26T11:53:20"),
		"Nothing stands out.\n\nLOCK":                                   incidentArgs("--since", "2026-11-26T11:53:17", "--until", "2026-11-26T11:53:18.1"),
		"of 11:54:32.807\n  no client held it or waited for it":         incidentArgs("orders/42", "--at", "11:54:32.807"),
		"this is the state then, zxid 0x200000008\n  no client held it": incidentArgs("orders/42", "--at", "11:54:33"),
		"removed": incidentArgs("orders/42", "--since", "12:54:20", "--until", "12:59"),
	} {
		out, errs, status := holdfast(t, args...)
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("%q: status %d, %s\n%s; want %q", args, status, errs, out, want)
		}
	}
}

// TestHistoryDamage: history reads the rest of a damaged log and prints a warning. With another
// server's log nothing is missing.
func TestHistoryDamage(t *testing.T) {
	log := filepath.Join("server-1", "log.100000001")
	whole, err := os.ReadFile(filepath.Join(incidentLogs, log))
	iferr.Fatal(t, err)
	damaged := bytes.Clone(whole)
	at := bytes.Index(whole, []byte("hangs since the step"))
	copy(damaged[at:], "HANGS")
	for name, c := range map[string]struct {
		log    []byte
		says   string
		status int
		event  string // printed in spite of the damage
	}{
		"cut off": {whole[:len(whole)/2], "warning: ", 0, "granted   #3"},
		"damaged": {damaged, "warning: ", app.StatusFailed, "renewed   #6"},
		"no log":  {[]byte("not a log"), "warning: ", app.StatusFailed, ""},
	} {
		dir := t.TempDir()
		iferr.Fatal(t, os.WriteFile(filepath.Join(dir, filepath.Base(log)), c.log, 0o600))
		out, errs, status := holdfast(t, "history", "orders/42", "--root", incidentRoot, "--logs", dir)
		if status != c.status || !strings.Contains(errs, c.says) || !strings.Contains(out, c.event) {
			t.Errorf("%s: status %d\n%s\n%s", name, status, errs, out)
		}
		// With the folder of another server nothing is missing.
		out, errs, _ = holdfast(t, "history", "orders/42", "--root", incidentRoot, "--logs", dir, "--logs", filepath.Join(incidentLogs, "server-3"), "--at", "0x100000044")
		if !strings.Contains(out, "held by shop-4") {
			t.Errorf("%s, with another server: %s\n%s", name, errs, out)
		}
	}
}

// TestHistoryUnwritten: a page or an output that cannot be written is a failure.
func TestHistoryUnwritten(t *testing.T) {
	if _, errs, status := holdfast(t, incidentArgs("orders/42", "--html", filepath.Join(t.TempDir(), "none", "x.html"))...); status != app.StatusFailed || !strings.Contains(errs, "--html") {
		t.Errorf("status %d: %s", status, errs)
	}
	if err := run(t.Context(), incidentArgs("orders/42"), strings.NewReader(""), failing{}, io.Discard); err != app.StatusFailed {
		t.Errorf("a full disk: status %d", err)
	}
}

// failing fails each write.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
