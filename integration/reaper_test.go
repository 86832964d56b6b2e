//go:build linux

package integration_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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
	if err := b.raw.Delete(b.root+"/foreign", -1); err != nil {
		t.Error(err)
	}
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
	active.signal(syscall.SIGTERM)
	active.mustExit(0)
}

func testReaperDaemon(t *testing.T, bin string) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		b := onShared(t)
		c := newReaper(b, bin)
		b.abandon("a/b/c")
		p := c.start()
		b.eventually("the tree is swept away", func() bool { return len(b.nodes()) == 3 }) // the reaper's own lock remains: its parent, anchor and entry
		p.signal(s)
		p.mustExit(0)
		p.mustSay("stopped")
	}
}

// testReaperOutage: a reaper sweeps again after an outage. A second reaper, started during the
// outage, becomes active when the first has stopped.
func testReaperOutage(t *testing.T, bin string) {
	s := zkserver.ForTest(t, zkserver.Options{})
	b := on(t, []string{s.Addr()})
	c := newReaper(b, bin)
	locks := b.client()
	first := c.start()
	b.eventually("the first one is active", func() bool { return len(b.nodes()) > 0 })
	s.Kill()
	second := c.start()
	b.eventually("the second one has noticed", func() bool { return strings.Contains(second.Stderr(), "no ZooKeeper yet") })
	if err := s.Restart(b.ctx); err != nil {
		t.Fatal(err)
	}
	for i, active := range []*program{first, second} {
		name := fmt.Sprintf("lock%d", i)
		b.unlock(b.lock(locks, name))
		b.mustSweep(name)
		active.signal(syscall.SIGTERM) // the second reaper becomes active
		active.mustExit(0)
	}
}
