package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// TestRefuses: requests with a method other than GET and HEAD, or with a host name that is not allowed,
// are refused. /healthz and /metrics allow every host name. All answers have the security headers.
func TestRefuses(t *testing.T) {
	simulate(t, Options{Hosts: []string{"reaper.example"}}, func(w *world) {
		for _, test := range []struct {
			method, host string
			want         int
		}{
			{"GET", "localhost", 200}, {"HEAD", "localhost:9090", 200}, {"GET", "127.0.0.1:9090", 200}, {"GET", "[::1]:9090", 200},
			{"GET", "[::1]", 200}, {"GET", "10.1.2.3:9090", 200}, {"GET", "LOCALHOST.:9090", 200}, {"GET", "Reaper.Example:9090", 200},
			{"POST", "localhost", 405}, {"PUT", "localhost", 405}, {"DELETE", "localhost", 405}, {"OPTIONS", "localhost", 405}, {"PATCH", "localhost", 405},
			{"GET", "evil.example", 421}, {"GET", "evil.example:9090", 421}, {"GET", "127.0.0.1.evil.example", 421},
			{"GET", "localhost.evil.example:80", 421}, {"GET", "", 421}, {"GET", "2130706433", 421},
		} {
			for _, path := range []string{"/", "/healthz", "/metrics", "/api/v1/locks", "/api/v1/status", "/page.js"} {
				r := httptest.NewRequest(test.method, path, nil)
				r.Host = test.host
				answer := httptest.NewRecorder()
				w.server.ServeHTTP(answer, r)
				want := test.want
				if want == http.StatusMisdirectedRequest && (path == "/healthz" || path == "/metrics") {
					want = http.StatusOK // for scrapers and probes
				}
				if answer.Code != want {
					t.Errorf("%s %s of %q: %d, want %d", test.method, path, test.host, answer.Code, want)
				}
				for key := range security {
					if answer.Header().Get(key) == "" {
						t.Errorf("%s %s of %q: no %s", test.method, path, test.host, key)
					}
				}
			}
		}
		if a := w.get("/page"); a.Code != http.StatusNotFound {
			t.Errorf("/page: %d", a.Code)
		}
	})
}

// TestPageIsWhole: the server has each file that the page refers to. The files have no https: address,
// and no inline style or handler, which the Content-Security-Policy forbids.
func TestPageIsWhole(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		page := w.get("/").Body.String()
		for _, m := range regexp.MustCompile(`(?:href|src)="([^"#]+)"`).FindAllStringSubmatch(page, -1) {
			if a := w.get("/" + m[1]); a.Code != http.StatusOK {
				t.Errorf("%s: %d", m[1], a.Code)
			}
		}
		files, err := pageFiles.ReadDir("page")
		iferr.Fatal(t, err)
		for _, f := range files {
			text, err := pageFiles.ReadFile("page/" + f.Name())
			iferr.Fatal(t, err)
			for _, not := range []string{"https:", "innerHTML", "insertAdjacentHTML", "document.write", "<style", " style=", " onclick=", "eval("} {
				if bytes.Contains(text, []byte(not)) {
					t.Errorf("%s has %q", f.Name(), not)
				}
			}
		}
	})
}

// TestHealth: /healthz fails if sweeps are overdue, /readyz if there is no session. In the status both
// are problems of the level "bad".
func TestHealth(t *testing.T) {
	overdue := reaper.Schedule{Policies: []string{"orders"}, Overdue: true, Late: 90, Running: &reaper.Progress{WaitsFor: "the list of /locks", Waits: 80}}
	for name, test := range map[string]struct {
		change         func(*reaper.Status)
		healthy, ready int
		says           string
	}{
		"all is well": {func(*reaper.Status) {}, 200, 200, "ok"},
		"standby":     {func(s *reaper.Status) { s.State = reaper.Standby }, 200, 200, "ok"},
		"overdue": {func(s *reaper.Status) { s.Schedules = []reaper.Schedule{overdue} }, 503, 200,
			"/locks: sweeps of orders are overdue by 1m30s\n"},
		"an outage": {func(s *reaper.Status) { s.Session.Connected, s.State = false, reaper.Disconnected }, 200, 503, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, Options{}, func(w *world) {
				test.change(&w.told.status)
				healthy := w.get("/healthz")
				if healthy.Code != test.healthy || strings.TrimSpace(healthy.Body.String()) != strings.TrimSpace(test.says) {
					t.Errorf("healthz: %d %q, want %d %q", healthy.Code, healthy.Body, test.healthy, test.says)
				}
				if a := w.get("/readyz"); a.Code != test.ready {
					t.Errorf("readyz: %d %q, want %d", a.Code, a.Body, test.ready)
				}
				if a := w.get("/api/v1/status").Body.String(); strings.Contains(a, `"level":"bad"`) != (test.healthy+test.ready > 400) {
					t.Errorf("problems: %s", a)
				}
			})
		})
	}
}

// TestProblems: what is told of a root, of its active reaper and of its session.
func TestProblems(t *testing.T) {
	late := &reaper.Leader{Owner: "other", Host: "h", PID: 7, TTL: 30, LeaseAge: 20, Late: true}
	const gone = "other (host h, pid 7), the active reaper, has not renewed its lease for 20s"
	for name, test := range map[string]struct {
		change func(*reaper.Status)
		locks  bool // a viewer has seen a lock
		told   string
	}{
		"late":                {func(s *reaper.Status) { s.Leader = late }, false, gone},
		"late, in an outage":  {func(s *reaper.Status) { s.Leader, s.Session = late, reaper.Session{LastFailure: "refused"} }, false, "; last failure: refused"},
		"no root":             {func(s *reaper.Status) { s.NoRoot = true }, false, "/locks was not there when this reaper began"},
		"no root, but a lock": {func(s *reaper.Status) { s.NoRoot = true }, true, ""},
		"refused":             {func(s *reaper.Status) { s.Refused = &reaper.Failure{Error: "a mistake"} }, false, "configuration: not reloaded since 0001-01-01T00:00:00Z, the one before is in force: a mistake"},
		"failed twice":        {func(s *reaper.Status) { s.LastFailure = &reaper.Failure{Error: "why", InARow: 2} }, false, "failed 2 times in a row: why"},
		"succeeded since":     {func(s *reaper.Status) { s.LastFailure = &reaper.Failure{Error: "why"} }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, Options{}, func(w *world) {
				if test.locks {
					w.hold(w.told.locks, "orders/1", 0)
					w.locks("")
					synctest.Wait()
				}
				test.change(&w.told.status)
				all := w.server.snapshot().Problems
				if len(all) != min(1, len(test.told)) || len(all) == 1 && !strings.Contains(all[0].Text, test.told) {
					t.Errorf("%+v, want %q", all, test.told)
				}
			})
		})
	}
}

// TestBeforeTheFirstSession: before the first session only /readyz and the read of one lock fail: nothing
// is known of it.
func TestBeforeTheFirstSession(t *testing.T) {
	m := &told{status: reaper.Status{About: reaper.About{Root: "/locks"}, State: reaper.Disconnected, Session: reaper.Session{Since: time.Now()}}}
	s, err := New(Options{Roots: []Root{{Monitor: m}}})
	iferr.Fatal(t, err)
	defer s.Close()
	w := &world{T: t, server: s}
	for path, want := range map[string]int{"/": 200, "/healthz": 200, "/readyz": 503, "/metrics": 200, "/api/v1/status": 200, "/api/v1/locks": 200, "/api/v1/lock?name=x": 503, "/api/v1/lock?name=x&root=other": 404} {
		if a := w.get(path); a.Code != want {
			t.Errorf("%s: %d, want %d: %s", path, a.Code, want, a.Body)
		}
	}
}

// TestOptions: invalid options are refused.
func TestOptions(t *testing.T) {
	m := &told{}
	for _, o := range []Options{{Roots: []Root{{}}}, {Roots: []Root{{Monitor: m}}, Hosts: []string{""}}, {Roots: []Root{{Monitor: m}}, Hosts: []string{"x:80"}}} {
		if _, err := New(o); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestServe: Serve answers requests until its context ends. Then it returns nil and no longer listens.
func TestServe(t *testing.T) {
	s, err := New(Options{Roots: []Root{{Monitor: &told{}}}})
	iferr.Fatal(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	answer, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%v, %v", answer, err)
	}
	answer.Body.Close()
	cancel()
	iferr.Error(t, <-done)
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil || s.ctx.Err() == nil {
		t.Errorf("it still listens, or its reads may go on: %v, %v", err, s.ctx.Err())
	}
}

// TestStandbyForgets: only the active reaper shows the findings of its last sweep. If a reaper becomes
// active again, it shows no findings before its next sweep.
func TestStandbyForgets(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		report := func() {
			w.told.observer(reaper.Report{
				Started: time.Now(), Complete: true,
				Policies: map[string]*reaper.Counts{"orders": {Locks: 3, Purged: 2, Undecodable: 1, Denied: 1, OldestOverdue: 9}},
			})
		}
		check := func(when string, told bool, purged int) {
			t.Helper()
			scrape, page := w.get("/metrics").Body.String(), w.get("/api/v1/status").Body.String()
			for _, name := range []string{"undecodable_nodes", "denied_nodes", "oldest_overdue_seconds", "locks", "waiting_entries"} {
				if got := strings.Contains(scrape, "holdfast_reaper_"+name+`{policy="orders"`); got != told {
					t.Errorf("%s, %s is told: %v, want %v", when, name, got, told)
				}
			}
			for _, warning := range []string{"it blocks its lock", "denied to the reaper", `"last":`} {
				if got := strings.Contains(page, warning); got != told {
					t.Errorf("%s, the page has %q: %v, want %v", when, warning, got, told)
				}
			}
			if want := fmt.Sprintf("holdfast_reaper_purged_entries_total{policy=\"orders\",root=\"/locks\"} %d\n", purged); !strings.Contains(scrape, want) {
				t.Errorf("%s, no %s", when, want)
			}
		}
		report()
		check("while it is active", true, 2)
		w.told.status.State, w.told.status.ActiveSince = reaper.Standby, time.Time{}
		check("while it stands by", false, 2)
		time.Sleep(time.Second)
		w.told.status.State, w.told.status.ActiveSince = reaper.Active, time.Now()
		check("before its first sweep", false, 2)
		report()
		check("after it", true, 4)
	})
}

// TestPolicyTimes: the status has all times of a policy. A local window that is switched off is 0.
func TestPolicyTimes(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		var err error
		w.told.set, err = policy.NewSet(policy.Rule{
			Match: policy.MustPattern("**"), OrphanAfter: 6 * time.Minute,
			Policy: lock.Policy{Name: "orders", TTL: time.Second, MaxTTL: 2 * time.Second, Grace: 500 * time.Millisecond, MaxHold: time.Minute, LocalWindow: lock.NoLocalWindow},
		})
		iferr.Fatal(w, err)
		const want = `"ttl_seconds":1,"max_ttl_seconds":2,"grace_seconds":0.5,"max_hold_seconds":60,"local_window_seconds":0,"orphan_after_seconds":360,"keep_parent":false`
		if page := w.get("/api/v1/status").Body.String(); !strings.Contains(page, want) {
			w.Errorf("%s\nwant %s in it", page, want)
		}
	})
}

// TestProblemsNameLocks: a problem with nodes names the first lock, in the singular or plural. A node
// that belongs to no lock has no name.
func TestProblemsNameLocks(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		entry := "/" + znode.Prefix(znode.NewID(), znode.Exclusive) + "0000000007"
		w.told.status.LastFailure = &reaper.Failure{Error: "list /locks", InARow: 1}
		w.told.observer(reaper.Report{
			Started: time.Now(), Complete: true,
			Undecodable: []string{"/locks/elsewhere", "/locks/orders/7" + entry},
			Denied:      []reaper.Denial{{Path: "/locks"}, {Path: "/locks/" + znode.Inbox}, {Path: "/locks/orders/8" + entry}},
			Policies: map[string]*reaper.Counts{
				"orders":  {Undecodable: 1, Denied: 3},
				"default": {Undecodable: 1, Denied: 1},
			},
		})
		var got []string
		for _, p := range w.server.snapshot().Problems {
			got = append(got, p.Lock+" | "+p.Text)
		}
		want := []string{
			` | failed: list /locks`,
			`orders/7 | 1 node of orders: damaged or of a newer version; it blocks its lock, "orders/7"`,
			`orders/8 | 3 nodes of orders: denied to the reaper by ACL, such as "orders/8"`,
			`elsewhere | 1 node of default: damaged or of a newer version; it blocks its lock, "elsewhere"`,
			` | 1 node of default: denied to the reaper by ACL`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("the problems are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestMetrics: Prometheus's linter finds nothing in a scrape. The metrics are exactly those in the
// package's doc. No label has the name of a lock. Of a policy that is no longer in force, the counters
// stay, and nothing else.
func TestMetrics(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		w.hold(w.told.locks, "orders/secret", 0)
		w.told.status.Version = "v1.2.3"
		w.group("orders/parts")
		w.swept("orders/parts")
		w.told.observer(reaper.Report{
			Started: time.Now(), Duration: time.Second, Complete: true,
			Policies: map[string]*reaper.Counts{"orders": {Locks: 3, Purged: 2, Scanned: 7, Denied: 1}, "gone": {Locks: 5, Purged: 4}}, Groups: []string{"orders/parts"},
		})
		w.told.observer(reaper.Report{
			Started: time.Now(), Duration: time.Second, Complete: true,
			Policies: map[string]*reaper.Counts{"orders": {Locks: 2, Purged: 1, Scanned: 4}}, Groups: []string{"orders/parts"},
		})
		time.Sleep(time.Second)
		w.told.observer(reaper.Report{Skipped: "another reaper is the active one", Policies: map[string]*reaper.Counts{"orders": {}}})
		scrape := w.get("/metrics").Body.String()
		problems, err := promlint.New(strings.NewReader(scrape)).Lint()
		iferr.Fatal(t, err)
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
		doc, err := os.ReadFile("doc.go")
		iferr.Fatal(t, err)
		documented, served := map[string]string{}, map[string]string{}
		for _, m := range regexp.MustCompile(`(?m)^//\t(holdfast_\w+) +(\w+)`).FindAllStringSubmatch(string(doc), -1) {
			documented[m[1]] = m[2]
		}
		for _, m := range regexp.MustCompile(`(?m)^# TYPE (holdfast_\w+) (\w+)`).FindAllStringSubmatch(scrape, -1) {
			served[m[1]] = m[2]
		}
		if !maps.Equal(documented, served) {
			t.Errorf("documented:\n%v\nserved:\n%v", documented, served)
		}
		for _, m := range regexp.MustCompile(`(?m)^holdfast_\w+\{(.*)\}`).FindAllStringSubmatch(scrape, -1) {
			for _, l := range regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(m[1], -1) {
				if !slices.Contains([]string{"root", "policy", "version", "complete", "le"}, l[1]) {
					t.Errorf("label %s=%q", l[1], l[2])
				}
			}
		}
		for _, want := range []string{
			`holdfast_reaper_locks{policy="orders",root="/locks"} 2`,
			`holdfast_reaper_denied_nodes{policy="orders",root="/locks"} 0`,
			`holdfast_reaper_purged_entries_total{policy="orders",root="/locks"} 3`,
			`holdfast_reaper_purged_entries_total{policy="gone",root="/locks"} 4`,
			`holdfast_reaper_sweep_duration_seconds_count{complete="true",root="/locks"} 3`,
			`holdfast_reaper_sweep_duration_seconds_count{complete="false",root="/locks"} 0`,
			`holdfast_reaper_active{root="/locks"} 1`,
			`holdfast_reaper_clock_known{root="/locks"} 1`,
			`holdfast_reaper_build_info{version="v1.2.3"} 1`,
		} {
			if !strings.Contains(scrape, want+"\n") {
				t.Errorf("no %s in\n%s", want, scrape)
			}
		}
		if gone := regexp.MustCompile(`(?m)^holdfast_reaper_(\w+)\{policy="gone"`).FindAllStringSubmatch(scrape, -1); len(gone) != 5 || strings.Contains(scrape, "secret") || slices.ContainsFunc(gone, func(m []string) bool { return !strings.HasSuffix(m[1], "_total") }) {
			t.Errorf("of a policy that is gone, %q in\n%s", gone, scrape)
		}
	})
}
