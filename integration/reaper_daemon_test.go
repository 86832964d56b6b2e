//go:build linux

package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/reaper"
)

// logged returns the lines of the program's log that have the message.
func (p *program) logged(msg string) (lines []map[string]any) {
	p.Helper()
	for text := range strings.Lines(p.Stderr()) {
		line := map[string]any{}
		if !strings.HasSuffix(text, "\n") || json.Unmarshal([]byte(text), &line) != nil { // an incomplete line, or no log line
			continue
		}
		if line["message"] == msg {
			lines = append(lines, line)
		}
	}
	return lines
}

// logs waits until the program logs the message, and returns the first line that has it.
func (p *program) logs(msg string) map[string]any {
	p.Helper()
	p.eventually(fmt.Sprintf("%v logs %q", p.cmd, msg), func() bool { return len(p.logged(msg)) > 0 })
	return p.logged(msg)[0]
}

// end sends the program SIGTERM. The program must exit with status 0.
func (p *program) end() {
	p.Helper()
	p.signal(syscall.SIGTERM)
	p.mustExit(0)
}

const (
	saysStarted  = "reaper started"
	saysActive   = "active: sweeping by schedule"
	saysReloaded = "configuration reloaded: it is in force"
	saysInPart   = "configuration reloaded in part: the rest takes a restart"
	saysTheSame  = "configuration read again: nothing is different"
	saysRefused  = "the new configuration is refused; the one before stays in force"
)

// policiesOf returns a configuration that sweeps the locks below a name each second, and all other
// locks once a day.
func policiesOf(often string) string {
	return fmt.Sprintf(`
zookeeper: {session_timeout: %v}
policies:
  - {name: often, match: "%s/**", ttl: %v, grace: %v, orphan_after: 1s, schedule: "@every 1s"}
  - {name: seldom, match: "**", ttl: %v, grace: %v, orphan_after: 1s}
reaper: {schedule: "@every 24h"}
`, programSession, often, long, grace, long, grace)
}

// mustSweep creates a lock with an abandoned entry, and waits until a sweep has deleted the lock.
func (b *bench) mustSweep(name string, opts ...lock.Option) {
	b.Helper()
	b.abandon(name, opts...)
	b.eventually(name+" is swept away", func() bool { return !slices.Contains(b.nodes(), b.root+"/"+name) })
}

// testReaperReload: the reaper loads a changed file, also on SIGHUP. It refuses a file with a
// mistake, says why, and sweeps by the old policies. It logs which changes need a restart.
func testReaperReload(t *testing.T, bin string) {
	b := onShared(t)
	c := newReaper(b, bin)
	c.configure(policiesOf("a"))
	p := c.start()
	p.logs(saysStarted)
	b.mustSweep("a/1")

	c.configure(strings.Replace(policiesOf("b"), "orphan_after", "orphans_after", 1))
	line := p.logs(saysRefused)
	if !strings.Contains(fmt.Sprint(line["error"]), "policies[0].orphans_after: is not a known key; did you mean orphan_after?") || line["level"] != "error" {
		t.Errorf("refused with %v", line)
	}
	b.mustSweep("a/2")

	c.configure(policiesOf("b") + "root: /elsewhere\nlog: {level: debug}\n")
	line = p.logs(saysInPart)
	if changed := fmt.Sprint(line["changed"]); fmt.Sprint(line["takes_a_restart"]) != "[log]" || // root is no change, because --root takes precedence
		changed != "[policy often: match: b/**, was a/**]" {
		t.Errorf("%v", line)
	}
	p.signal(syscall.SIGHUP)
	b.eventually("it is read again", func() bool { return len(p.logged(saysInPart)) > 1 })
	b.mustSweep("b/1")
	next := filepath.Join(c.dir, "next.yaml") // another file in its place, as editors have it
	writeFile(t, next, policiesOf("b"))
	iferr.Fatal(t, os.Rename(next, filepath.Join(c.dir, "config.yaml")))
	b.eventually("the rest is as it was", func() bool { return len(p.logged(saysTheSame)) > 0 })
	if n := len(p.logged(saysReloaded)); n != 0 {
		t.Errorf("%d times all is said to be in force", n)
	}
	p.end()
}

// testReaperRoots: the reaper sweeps two roots although it cannot sweep a third, one of them with
// credentials of its own, which the log does not show. With --once its exit status reports the failure.
// After a reload it sweeps the present roots only, and the status page shows them.
func testReaperRoots(t *testing.T, bin string) {
	one, two, three := onShared(t), onShared(t), onShared(t)
	denied := one.root + "-denied"
	c := newReaper(one, bin)
	c.args = c.args[:2] // keeps only the flag --config
	configure := func(roots string) {
		c.configure(fmt.Sprintf("zookeeper: {servers: [\"%s\"], session_timeout: %v}\npolicies: [{name: all, match: \"**\", ttl: %v, grace: %v, orphan_after: 1s}]\nreaper: {schedule: \"@every 1s\"}\nroots: [%s]\n",
			strings.Join(one.servers, `", "`), programSession, long, grace, roots))
	}
	own := fmt.Sprintf("{name: two, root: %s, zookeeper: {auth: {user: two, password_file: password}}}", two.root)
	configure(fmt.Sprintf("{name: one, root: %s}, {name: denied, root: %s}, %s", one.root, denied, own))
	writeFile(t, filepath.Join(c.dir, "password"), "tr0ub4dor")
	iferr.Fatal(t, two.raw.AddAuth("digest", []byte("two:tr0ub4dor")))
	iferr.Fatal(t, two.raw.Ensure(two.root, nil, zk.DigestACL(zk.PermAll, "two", "tr0ub4dor")))
	one.create(denied, "", 0)
	iferr.Fatal(t, iferr.Of(one.raw.SetACL(denied, zk.WorldACL(zk.PermRead), -1)))
	defer func() {
		iferr.Error(t, one.raw.Delete(denied, -1))
	}()

	once := c.start("--once")
	var reports []reaper.Report
	iferr.Fatal(t, json.Unmarshal([]byte(once.rest()), &reports))
	once.mustExit(1) // because one root cannot be swept
	complete := map[string]bool{}
	for _, r := range reports {
		complete[r.Name+" "+r.Root] = r.Complete
	}
	if !complete["one "+one.root] || !complete["two "+two.root] {
		t.Errorf("reports: %v", complete)
	}

	p := c.start("--listen=127.0.0.1:0")
	p.logs("this root cannot be swept, and is tried again; the others are swept all the same")
	one.mustSweep("a")
	two.mustSweep("a", lock.WithDigest("two", "tr0ub4dor"))

	configure(fmt.Sprintf("{name: one, root: %s}, %s", three.root, own)) // the name one now has another root
	p.logs(saysReloaded)
	two.mustSweep("b", lock.WithDigest("two", "tr0ub4dor"))
	three.mustSweep("a")
	if slices.Contains(one.nodes(), one.root+"/"+reaper.DefaultLock) {
		t.Error("the lock of the root that is given up was not given back")
	}
	at := page{one, strings.TrimSuffix(fmt.Sprint(p.logs("status page, metrics and health are served")["url"]), "/")}
	var status struct{ Roots []struct{ Label string } }
	_, text := at.get("/api/v1/status")
	iferr.Fatal(t, json.Unmarshal([]byte(text), &status))
	_, metrics := at.get("/metrics")
	if n := strings.Count(metrics, "\nholdfast_reaper_sweep_duration_seconds_count{"); fmt.Sprint(status.Roots) != "[{one} {two}]" || n != 2*2 {
		t.Errorf("the page tells of %v, and there are %d series of how long sweeps took", status.Roots, n)
	}
	if gone := p.logged("this root is not in the configuration any more: it is not swept from now on"); len(gone) != 2 {
		t.Errorf("given up: %v, want denied and the old root of one", gone)
	}
	p.end()
	if strings.Contains(p.Stderr(), "tr0ub4dor") {
		t.Error("the log has a password")
	}
}
