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
	p.signal(syscall.SIGHUP)
	b.eventually("it is refused again", func() bool { return len(p.logged(saysRefused)) > 1 })
	b.mustSweep("a/2")

	c.configure(policiesOf("b") + "root: /elsewhere\nlog: {level: debug}\n")
	line = p.logs(saysInPart)
	if changed := fmt.Sprint(line["changed"]); fmt.Sprint(line["takes_a_restart"]) != "[log]" || // root is no change, because --root takes precedence
		changed != "[policy often: match: b/**, was a/**]" {
		t.Errorf("%v", line)
	}
	b.mustSweep("b/1")
	p.signal(syscall.SIGHUP)
	b.eventually("it is read again", func() bool { return len(p.logged(saysInPart)) > 1 })
	b.mustSweep("b/2")
	next := filepath.Join(c.dir, "next.yaml") // another file in its place, as editors have it
	writeFile(t, next, policiesOf("b"))
	iferr.Fatal(t, os.Rename(next, filepath.Join(c.dir, "config.yaml")))
	b.eventually("the rest is as it was", func() bool { return len(p.logged(saysTheSame)) > 0 })
	c.configure("")
	b.eventually("an empty file is refused", func() bool { return len(p.logged(saysRefused)) > 2 })
	b.mustSweep("b/3")
	if n := len(p.logged(saysReloaded)); n != 0 {
		t.Errorf("%d times all is said to be in force", n)
	}
	p.end()
}

// testReaperRoots: the reaper sweeps two roots although it cannot sweep a third, one of them with
// credentials of its own, which the log does not show. With --once its exit status reports the failure.
func testReaperRoots(t *testing.T, bin string) {
	one, two := onShared(t), onShared(t)
	third := one.root + "-denied"
	c := newReaper(one, bin)
	c.args = c.args[:2] // keeps only the flag --config
	c.configure(fmt.Sprintf(`
zookeeper: {servers: ["%s"], session_timeout: %v}
policies: [{name: all, match: "**", ttl: %v, grace: %v, orphan_after: 1s}]
reaper: {schedule: "@every 1s"}
roots:
  - {name: one, root: %s}
  - {name: denied, root: %s}
  - {name: two, root: %s, policies: [{name: own, match: "**", ttl: %v, grace: %v, orphan_after: 1s}], zookeeper: {auth: {user: two, password_file: password}}}
`, strings.Join(one.servers, `", "`), programSession, long, grace, one.root, third, two.root, long, grace))
	writeFile(t, filepath.Join(c.dir, "password"), "tr0ub4dor")
	iferr.Fatal(t, two.raw.AddAuth("digest", []byte("two:tr0ub4dor")))
	iferr.Fatal(t, two.raw.Ensure(two.root, nil, zk.DigestACL(zk.PermAll, "two", "tr0ub4dor")))
	one.create(third, "", 0)
	iferr.Fatal(t, iferr.Of(one.raw.SetACL(third, zk.WorldACL(zk.PermRead), -1)))
	defer func() {
		iferr.Error(t, one.raw.Delete(third, -1))
	}()
	p := c.start()
	p.logs("this root cannot be swept, and is tried again; the others are swept all the same")
	one.mustSweep("a")
	two.mustSweep("b", lock.WithDigest("two", "tr0ub4dor"))
	names := map[any]bool{}
	for _, line := range p.logged(saysStarted) {
		names[line["root_name"]] = true
	}
	if !names["one"] || !names["two"] {
		t.Errorf("started: %v", names)
	}
	if strings.Contains(p.Stderr(), "tr0ub4dor") {
		t.Error("the log has a password")
	}
	p.end()

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
}

// testReaperRootsChange: after roots were added, moved or removed in the file, the reaper sweeps
// the present roots only, and the status page shows them.
func testReaperRootsChange(t *testing.T, bin string) {
	one, two, three := onShared(t), onShared(t), onShared(t)
	c := newReaper(one, bin)
	c.args = append(c.args[:2], "--listen", "127.0.0.1:0")
	configure := func(rest string) {
		c.configure(fmt.Sprintf("zookeeper: {servers: [\"%s\"], session_timeout: %v}\npolicies: [{name: all, match: \"**\", ttl: %v, grace: %v, orphan_after: 1s}]\nreaper: {schedule: \"@every 1s\"}\n%s\n",
			strings.Join(one.servers, `", "`), programSession, long, grace, rest))
	}
	configure("root: " + one.root)
	p := c.start()
	at := page{one, strings.TrimSuffix(fmt.Sprint(p.logs("status page, metrics and health are served")["url"]), "/")}
	shows := func(labels ...string) {
		t.Helper()
		var status struct{ Roots []struct{ Label string } }
		if _, text := at.get("/api/v1/status"); json.Unmarshal([]byte(text), &status) != nil {
			t.Fatal(text)
		}
		var shown []string
		for _, r := range status.Roots {
			shown = append(shown, r.Label)
		}
		_, metrics := at.get("/metrics")
		if n := strings.Count(metrics, "\nholdfast_reaper_sweep_duration_seconds_count{"); !slices.Equal(shown, labels) || n != 2*len(labels) {
			t.Errorf("the page tells of %q, want %q, and there are %d series of how long sweeps took", shown, labels, n)
		}
	}
	reload := func(rest string) {
		t.Helper()
		reloads := func() int { return len(p.logged(saysReloaded)) + len(p.logged(saysInPart)) }
		before := reloads()
		configure(rest)
		one.eventually("it is reloaded", func() bool { return reloads() > before })
	}
	one.mustSweep("a")
	shows(one.root)

	reload(fmt.Sprintf("roots: [{name: one, root: %s}, {name: two, root: %s}]", one.root, two.root))
	one.mustSweep("b")
	two.mustSweep("a")
	shows("one", "two")

	reload(fmt.Sprintf("roots: [{name: two, root: %s, zookeeper: {session_timeout: 1m}}, {name: three, root: %s}]", two.root, three.root))
	two.mustSweep("b")
	three.mustSweep("a")
	shows("two", "three")
	if slices.Contains(one.nodes(), one.root+"/"+reaper.DefaultLock) {
		t.Error("the lock of the root that is given up was not given back")
	}
	if line := p.logs(saysInPart); fmt.Sprint(line["takes_a_restart"]) != "[root two: zookeeper.session_timeout]" ||
		fmt.Sprint(line["changed"]) != "[root three: added root one: removed]" {
		t.Errorf("%v", line)
	}

	reload(fmt.Sprintf("roots: [{name: two, root: %s}]", one.root)) // the name two now has another root
	one.mustSweep("c")
	shows("two")
	if len(two.nodes()) > 0 && slices.Contains(two.nodes(), two.root+"/"+reaper.DefaultLock) {
		t.Error("the root that has moved is swept where it stood")
	}
	gone := p.logged("this root is not in the configuration any more: it is not swept from now on")
	if len(gone) != 4 { // the root without a name, one, three, and the old root of two
		t.Errorf("given up: %v", gone)
	}

	reload("root: " + one.root)
	one.mustSweep("d")
	shows(one.root)
	p.end()
}
