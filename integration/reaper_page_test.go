//go:build linux

package integration_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/reaper"
)

// page is a reaper's status page.
type page struct {
	*bench
	url string
}

// get returns the HTTP status and the body at the path.
func (p page) get(path string) (int, string) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		p.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.Fatal(err)
	}
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
	if err := json.Unmarshal([]byte(text), &now); err != nil {
		t.Fatal(err)
	}
	if r := now.Roots[0]; r.State != reaper.Active || len(r.Reports) == 0 || r.Schedules[0].Next.IsZero() || !strings.HasSuffix(r.File, "config.yaml") {
		t.Errorf("%s", text)
	}
	second := c.start("--listen=" + url[1])
	second.mustExit(1)
	second.mustSay("reaper.listen " + url[1])

	s.Kill()
	b.eventually("it is not ready", func() bool { code, _ := at.get("/readyz"); return code == http.StatusServiceUnavailable })
	if err := s.Restart(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is ready again", func() bool { code, _ := at.get("/readyz"); return code == http.StatusOK })
	p.signal(syscall.SIGTERM)
	p.mustExit(0)
	b.unlock(live)
}
