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

	"github.com/holdfast-io/holdfast/integration/testpki"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
)

// testSecure: the programs work over TLS with the configured certificate and password, below a root
// that only svc may use. Without the password a command is refused. No output and no process's
// arguments show the password, and the command's environment lacks it.
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

// testSASL: the programs authenticate by SASL, over TLS, with the configured user and password.
// With a wrong password the doctor names the entry of the JAAS file. No output and no process's
// arguments show a password.
func testSASL(t *testing.T, bin string) {
	s := startSecure(t, withSASL(t))
	administrator := s.raw(s.authority.Issue(t, "administrator"), "admin:top secret")
	if err := administrator.Ensure("/closed", nil, saslACL("svc")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"ca.pem": s.authority.PEM, "svc.pem": s.ours.Cert, "svc.key": s.ours.Key,
		"password": []byte(saslUsers["svc"] + "\n"), "wrong": []byte("wr0ng\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var shown strings.Builder
	run := func(sasl, program string, args ...string) (p *program, out string) {
		text := fmt.Sprintf("log: {level: trace}\nroot: /closed\nzookeeper:\n  servers: [%q]\n  session_timeout: %v\n  tls: {ca_file: ca.pem, cert_file: svc.pem, key_file: svc.key}\n%s",
			s.secure, programSession, sasl)
		file := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b := &bench{TB: t, ctx: s.ctx, servers: []string{s.secure}, root: "/closed"}
		c := &cli{bench: b, dir: dir, prog: filepath.Join(bin, program), args: []string{"--config", file, "--servers", s.secure}, name: "x"}
		p = c.start(args...)
		out = p.rest()
		p.status()
		shown.WriteString(out + p.Stderr() + strings.Join(p.cmd.Args, " "))
		return p, out
	}
	const ours = "  sasl: {mechanism: digest-md5, user: svc, password_file: password}\n"
	for _, args := range [][]string{{"holdfast", "run", "x", "--", "/bin/sh", "-c", "tr '\\0' ' ' < /proc/$PPID/cmdline"}, {"holdfast", "ls"}, {"reaper", "--once"}, {"holdfast", "doctor"}} {
		p, out := run(ours, args[0], args[1:]...)
		p.mustExit(0)
		if args[0] == "reaper" && !strings.Contains(out, `"complete": true`) {
			t.Errorf("the reaper's report: %s", out)
		}
	}
	p, out := run("  sasl: {mechanism: digest-md5, user: svc, password_file: wrong}\n", "holdfast", "doctor")
	p.mustExit(1)
	if !strings.Contains(out, "sasl-failed") || !strings.Contains(out, "user_svc") {
		t.Errorf("the doctor says\n%s", out)
	}
	p, _ = run("  sasl: {mechanism: digest-md5, user: svc, password_file: wrong}\n", "holdfast", "run", "x", "--", "/bin/true")
	p.mustExit(1)
	p.mustSay("SASL authentication failed")
	p, _ = run("", "holdfast", "run", "x", "--", "/bin/true")
	p.mustSay("access denied")
	if strings.Contains(shown.String(), saslUsers["svc"]) || strings.Contains(shown.String(), "wr0ng") {
		t.Errorf("the password is shown:\n%s", shown.String())
	}
}

// TestTLSAsDocumented: a client with the configuration of lock/SECURING.md can lock on a server
// with the page's lines for zoo.cfg.
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
	cfg, err := config.Parse(file, []byte(strings.ReplaceAll(client[1], `"zk1:2281", "zk2:2281", "zk3:2281"`, fmt.Sprintf(`"127.0.0.1:%d"`, ports[0]))))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := cfg.Options(t.Context())
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

// TestClosedEnsembleAsDocumented: the commands of lock/SECURING.md create a root for one user.
// Without that user's password, and below other roots, a lock is refused.
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
