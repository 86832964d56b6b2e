//go:build linux

package integration_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// testSecure has the programs work over TLS, with the configuration's certificate and
// password, below a root that the administrator has made and under a closed /. Without the
// password they are refused. Neither shows it, nor has it among a process's arguments.
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

// TestClosedEnsembleAsDocumented: the commands of package policy's doc make a root for one
// user, and close / to everybody but the administrator.
func TestClosedEnsembleAsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../lock/policy/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for line := range strings.Lines(string(doc)) {
		if command, ok := strings.CutPrefix(line, "//	zk> "); ok {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	if len(commands) == 0 {
		t.Fatal("no commands in the doc")
	}
	server := zkserver.ForTest(t, zkserver.Options{})
	b := &bench{TB: t, ctx: t.Context(), servers: []string{server.Addr()}, root: "/locks"}
	b.zkCli(strings.Join(commands, "\n"))
	ours := b.client(lock.WithDigest("holdfast", "PASSWORD"))
	b.unlock(b.lock(ours, "orders/42"))
	if r, err := admin.CheckServer(b.ctx, ours); err != nil || r.Refused != nil || r.Unchecked != nil {
		t.Errorf("CheckServer: %+v, %v", r, err)
	}
	for name, stranger := range map[string]*lock.Client{"nobody": b.client(), "another root": b.client(lock.WithRoot("/others"), lock.WithDigest("holdfast", "PASSWORD"))} {
		if _, err := stranger.Mutex("orders/42").Lock(b.ctx); !errors.Is(err, lock.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
