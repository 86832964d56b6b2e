//go:build linux

package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/reaper"
)

// newReaper returns the reaper's program with a configuration that sweeps every second.
func newReaper(b *bench, bin string) *cli {
	b.Helper()
	c := newCLI(b, bin)
	c.prog = filepath.Join(bin, "reaper")
	c.configure(fmt.Sprintf(`
zookeeper: {session_timeout: %v}
policies: [{name: all, match: "**", ttl: %v, grace: %v, orphan_after: 1s}]
reaper: {schedule: "@every 1s"}
`, programSession, long, grace))
	return c
}

// configure overwrites the configuration file.
func (c *cli) configure(text string) {
	c.Helper()
	writeFile(c, filepath.Join(c.dir, "config.yaml"), text)
}

// report waits until the program ends with the status, and returns the report that it printed.
func (p *program) report(status int) *reaper.Report {
	p.Helper()
	out := p.rest()
	p.mustExit(status)
	r := new(reaper.Report)
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil || d.More() {
		p.Fatalf("standard output is not one report: %v\n%s", err, out)
	}
	return r
}

func testReaperOnce(t *testing.T, bin string) {
	b := onShared(t)
	c := newReaper(b, bin)
	b.orphan("a/b", time.Second)
	live := b.lock(b.client(), "live")
	b.create(b.root+"/foreign", "", 0)
	before := b.nodes()

	planned := c.start("--dry-run").report(0)
	if !planned.DryRun || !planned.Complete || planned.Total.Expired != 1 || planned.Total.Deleted != 0 || len(planned.Planned) == 0 {
		t.Errorf("dry run: %+v", planned)
	}
	if after := b.nodes(); !slices.Equal(after, before) {
		t.Errorf("a dry run has left %q of %q", after, before)
	}

	r := c.start("--once").report(0)
	if r.DryRun || !r.Complete || r.Root != b.root || r.Total.Expired != 1 || r.Total.Deleted != 3 || r.Total.Live != 1 || r.Total.Foreign != 1 || r.Policies["all"] == nil {
		t.Errorf("report: %+v", r)
	}
	b.unlock(live)
	if after := b.nodes(); !slices.Equal(after, []string{b.root + "/foreign"}) {
		t.Errorf("left %q, want the foreign node", after)
	}
	iferr.Error(t, b.raw.Delete(b.root+"/foreign", -1))
}

// testReaperSkips: a second reaper with --once does not sweep while the first is active. Its report
// has the reason, and its exit status is 3.
func testReaperSkips(t *testing.T, bin string) {
	b := onShared(t)
	c := newReaper(b, bin)
	active := c.start()
	b.eventually("the first one is active", func() bool { return len(b.nodes()) > 0 })
	if r := c.start("--once").report(3); r.Complete || r.Skipped == "" {
		t.Errorf("report: %+v", r)
	}
	active.signal(syscall.SIGINT)
	active.mustExit(0)
	active.mustSay("stopped")
}

// page is a reaper's status page.
type page struct {
	*bench
	url string
}

// get returns the HTTP status and the body at the path.
func (p page) get(path string) (int, string) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.ctx, http.MethodGet, p.url+path, nil)
	iferr.Fatal(p, err)
	answer, err := http.DefaultClient.Do(r)
	iferr.Fatal(p, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	iferr.Fatal(p, err)
	return answer.StatusCode, string(body)
}

// testReaperPage: a daemon's status page shows locks and sweeps, readiness is lost during an outage
// and returns, and a second daemon on the same port fails.
func testReaperPage(t *testing.T, bin string) {
	s := zkserver.ForTest(t, zkserver.Options{})
	b := on(t, []string{s.Addr()})
	c := newReaper(b, bin)
	live := b.lock(b.client(), "teams/live")
	b.orphan("dead", 0)
	p := c.start("--listen=0")
	var url []string
	b.eventually("it says where", func() bool {
		url = regexp.MustCompile(`"url":"http://(127\.0\.0\.1:\d+)/"`).FindStringSubmatch(p.Stderr())
		return url != nil
	})
	at := page{b, "http://" + url[1]}
	b.eventually("it has swept", func() bool {
		_, metrics := at.get("/metrics")
		return regexp.MustCompile(`holdfast_reaper_pruned_nodes_total\{policy="all",root="` + b.root + `"\} [1-9]`).MatchString(metrics)
	})
	for _, path := range []string{"/", "/page.js", "/healthz", "/readyz"} {
		if code, body := at.get(path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	b.eventually("the lock is shown", func() bool {
		_, locks := at.get("/api/v1/locks")
		return strings.Contains(locks, `"name":"teams/live","policy":"all","kind":"mutex","state":"held"`) && strings.Contains(locks, live.Token().String())
	})
	_, text := at.get("/api/v1/status")
	var now struct {
		Roots []reaper.Status
	}
	iferr.Fatal(t, json.Unmarshal([]byte(text), &now))
	if r := now.Roots[0]; r.State != reaper.Active || len(r.Reports) == 0 || r.Schedules[0].Next.IsZero() || !strings.HasSuffix(r.File, "config.yaml") {
		t.Errorf("%s", text)
	}
	second := c.start("--listen=" + url[1])
	second.mustExit(1)
	second.mustSay("reaper.listen " + url[1])

	s.Kill()
	b.eventually("it is not ready", func() bool { code, _ := at.get("/readyz"); return code == http.StatusServiceUnavailable })
	iferr.Fatal(t, s.Restart(b.ctx))
	b.eventually("it is ready again", func() bool { code, _ := at.get("/readyz"); return code == http.StatusOK })
	p.signal(syscall.SIGTERM)
	p.mustExit(0)
	b.unlock(live)
}
