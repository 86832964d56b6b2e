//go:build linux

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/kdc"
	"github.com/holdfast-io/holdfast/integration/testpki"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// testSecure: the programs work over TLS with the configured certificate and password. The
// administrator has created the root and closed / to others. Without the password they are refused.
// No output and no process's arguments show the password.
func testSecure(t *testing.T, bin string) {
	s := startSecure(t)
	const password = "tr0ub4dor"
	administrator := s.raw(s.authority.Issue(t, "administrator"), "admin:top secret")
	if err := administrator.Ensure("/closed", nil, zk.DigestACL(zk.PermAll, "svc", password)); err != nil {
		t.Fatal(err)
	}
	if err := administrator.Restrict("/", zk.DigestACL(zk.PermAll, "admin", "top secret")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"ca.pem": s.authority.PEM, "svc.pem": s.ours.Cert, "svc.key": s.ours.Key, "password": []byte(password + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configured := func(name, auth string) *cli {
		file := filepath.Join(dir, name+".yaml")
		text := fmt.Sprintf(`
log: {level: trace}
root: /closed
zookeeper:
  servers: ["%s"]
  session_timeout: %v
  tls: {ca_file: ca.pem, cert_file: svc.pem, key_file: svc.key}
%s`, s.secure, programSession, auth)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b := &bench{TB: t, ctx: s.ctx, servers: []string{s.secure}, root: "/closed"}
		return &cli{bench: b, dir: dir, prog: filepath.Join(bin, "holdfast"), args: []string{"--config", file, "--servers", s.secure}, name: "x"}
	}
	var shown strings.Builder
	keep := func(p *program, out string) {
		shown.WriteString(out + p.Stderr() + strings.Join(p.cmd.Args, " "))
	}
	ours := configured("ours", "  auth: {user: svc, password_file: password}\n")
	p := ours.start("run", ours.name, "--", "/bin/sh", "-c", "tr '\\0' ' ' < /proc/$PPID/cmdline; echo")
	keep(p, p.rest())
	p.mustExit(0)
	env := configured("env", "  auth: {user: svc, password_env: HOLDFAST_IT_PASSWORD}\n")
	withPassword := exec.Command(env.prog, slices.Concat([]string{"run"}, env.args, []string{env.name, "--on-lost", "env", "--", "/bin/sh", "-c", "env; echo done"})...)
	withPassword.Env = append(os.Environ(), "HOLDFAST_IT_PASSWORD="+password)
	p = &program{env, env.bench.start(withPassword)}
	passed := p.rest()
	keep(p, passed)
	p.mustExit(0)
	if !strings.Contains(passed, "HOLDFAST_LOCK=x\n") || strings.Contains(passed, "HOLDFAST_IT_PASSWORD") {
		t.Errorf("the command's environment:\n%s", passed)
	}
	p = ours.start("ls")
	keep(p, p.rest())
	p.mustExit(0)
	sweeper := *ours
	sweeper.prog = filepath.Join(bin, "reaper")
	p = sweeper.start("--once")
	out := p.rest()
	keep(p, out)
	p.mustExit(0)
	if !strings.Contains(out, `"complete": true`) {
		t.Errorf("the reaper's report: %s", out)
	}

	p = configured("strangers", "").start("run", ours.name, "--", "/bin/true")
	keep(p, p.rest())
	if p.status() == 0 {
		t.Error("a stranger's command ran")
	}
	p.mustSay("access denied")
	if strings.Contains(shown.String(), password) {
		t.Errorf("the password is shown:\n%s", shown.String())
	}
}

// testKerberos: the programs work with the configured keytab, or with a credential cache. Without, a
// command is refused; with a keytab that is outdated, the command and the doctor say what to do.
func testKerberos(t *testing.T, bin string) {
	k := startKerberized(t, kdc.Options{})
	k.AddPrincipal(t, "changed")
	k.keytabs["changed"] = k.Keytab(t, "changed")
	k.Admin(t, "cpw -randkey changed")
	dir := t.TempDir()
	cache := filepath.Join(dir, "cache")
	k.Kinit(t, "svc", k.keytabs["svc"], cache)
	ca := testpki.File(t, "ca.pem", k.authority.PEM)
	b := &bench{TB: t, ctx: k.ctx, servers: []string{k.secure.secure}, root: "/locks"}
	configured := func(sasl string) *cli {
		file := writeConfig(t, fmt.Sprintf("zookeeper:\n  servers: [%q]\n  session_timeout: %v\n  tls: {ca_file: %s}\n%s", k.secure.secure, programSession, ca, sasl))
		return &cli{bench: b, dir: dir, prog: filepath.Join(bin, "holdfast"), args: []string{"--config", file, "--servers", k.secure.secure}, name: "x"}
	}
	gssapi := func(keys string, args ...any) *cli {
		return configured(fmt.Sprintf("  sasl: {mechanism: gssapi, krb5_conf: %s, %s}\n", k.Conf, fmt.Sprintf(keys, args...)))
	}
	ours := gssapi("principal: svc, keytab: %s", k.keytabs["svc"])
	for _, c := range []*cli{ours, gssapi("ccache: %s", cache)} {
		p := c.start("run", c.name, "--", "/bin/true")
		p.rest()
		p.mustExit(0)
	}
	sweeper := *ours
	sweeper.prog = filepath.Join(bin, "reaper")
	p := sweeper.start("--once")
	out := p.rest()
	if p.mustExit(0); !strings.Contains(out, `"complete": true`) {
		t.Errorf("the reaper's report: %s", out)
	}
	p = configured("").start("run", ours.name, "--", "/bin/true")
	p.rest()
	if p.mustSay("access denied"); p.status() == 0 {
		t.Error("a stranger's command ran")
	}
	outdated := gssapi("principal: changed, keytab: %s", k.keytabs["changed"])
	p = outdated.start("ls")
	p.rest()
	if p.mustSay("the keytab is outdated"); p.status() == 0 {
		t.Error("a command with an outdated keytab ran")
	}
	found, err := exec.CommandContext(k.ctx, outdated.prog, append([]string{"doctor"}, outdated.args...)...).Output()
	if err == nil || !strings.Contains(string(found), "sasl-failed") || !strings.Contains(strings.Join(strings.Fields(string(found)), " "), "the keytab is outdated") {
		t.Errorf("the doctor, %v:\n%s", err, found)
	}
}

// TestTLSAsDocumented: a server with the lines for zoo.cfg in lock/SECURING.md serves a client with
// the configuration there.
func TestTLSAsDocumented(t *testing.T) {
	page := text(t, "../lock/SECURING.md")
	zoo := regexp.MustCompile("(?s)```text\n(secureClientPort=.*?)\n```").FindStringSubmatch(page)
	client := regexp.MustCompile("(?s)```yaml\n(zookeeper:.*?  tls:.*?)```").FindStringSubmatch(page)
	if zoo == nil || client == nil {
		t.Fatal("lock/SECURING.md shows no zoo.cfg, or no configuration")
	}
	ports, err := zkserver.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	authority := testpki.New(t)
	zkserver.ForTest(t, zkserver.Options{Config: strings.Split(strings.NewReplacer(
		"=2281", fmt.Sprintf("=%d\nsecureClientPortAddress=127.0.0.1", ports[0]),
		"/etc/zookeeper/server.pem", testpki.File(t, "server.pem", authority.Issue(t, "127.0.0.1").Bundle(authority)),
		"/etc/zookeeper/ca.pem", testpki.File(t, "ca.pem", authority.PEM),
	).Replace(zoo[1]), "\n")})
	file := filepath.Join(filepath.Dir(testpki.File(t, "ca.pem", authority.PEM)), "config.yaml")
	cfg, err := policy.Parse(file, []byte(strings.ReplaceAll(client[1], `"zk1:2281", "zk2:2281", "zk3:2281"`, fmt.Sprintf(`"127.0.0.1:%d"`, ports[0]))))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := cfg.Options()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wholeTest)
	defer cancel()
	locks, err := lock.Dial(ctx, cfg.ZooKeeper.Servers, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if err := locks.Mutex("orders/42").Do(ctx, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

// TestClosedEnsembleAsDocumented: the commands in lock/SECURING.md create a root for one user, and
// close / to all others except the administrator.
func TestClosedEnsembleAsDocumented(t *testing.T) {
	var commands []string
	for line := range strings.Lines(text(t, "../lock/SECURING.md")) {
		if command, ok := strings.CutPrefix(line, "zk> "); ok {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	if len(commands) == 0 {
		t.Fatal("no commands in the page")
	}
	server := zkserver.ForTest(t, zkserver.Options{})
	b := &bench{TB: t, ctx: t.Context(), servers: []string{server.Addr()}, root: "/locks"}
	b.zkCli(strings.Join(commands, "\n"))
	ours := b.client(lock.WithDigest("holdfast", "PASSWORD"))
	b.unlock(b.lock(ours, "orders/42"))
	if r, err := admin.CheckServer(b.ctx, ours); err != nil || r.Refused != nil || r.Unchecked != nil {
		t.Errorf("CheckServer: %+v, %v", r, err)
	}
	for name, stranger := range map[string]*lock.Client{"no user": b.client(), "another root": b.client(lock.WithRoot("/others"), lock.WithDigest("holdfast", "PASSWORD"))} {
		if _, err := stranger.Mutex("orders/42").Lock(b.ctx); !errors.Is(err, lock.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
