//go:build linux

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/kdc"
	"github.com/holdfast-io/holdfast/integration/testpki"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// testSASL: the programs authenticate by SASL, over TLS with a certificate of the client, below a root
// that only svc may use. With a wrong password the doctor names the entry of the JAAS file, and without
// one a command is refused. No output and no process's arguments show a password.
func testSASL(t *testing.T, bin string) {
	s := startSecure(t, withSASL(t))
	iferr.Fatal(t, s.raw(s.authority.Issue(t, "administrator"), "admin:top secret").Ensure("/closed", nil, saslACL("svc")))
	passwords := map[string]string{"password": saslUsers["svc"], "wrong": "wr0ng"}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"ca.pem": s.authority.PEM, "svc.pem": s.ours.Cert, "svc.key": s.ours.Key,
		"password": []byte(passwords["password"] + "\n"), "wrong": []byte(passwords["wrong"] + "\n"),
	} {
		writeFile(t, filepath.Join(dir, name), string(content))
	}
	b := &bench{TB: t, ctx: s.ctx, servers: []string{s.secure}, root: "/closed"}
	var shown strings.Builder
	// run runs a program to its end, with the password of a file; "": without one.
	run := func(status int, password, name string, args ...string) (out, says string) {
		t.Helper()
		config := fmt.Sprintf("log: {level: trace}\nroot: /closed\nzookeeper:\n  servers: [%q]\n  session_timeout: %v\n", s.secure, programSession) +
			"  tls: {ca_file: ca.pem, cert_file: svc.pem, key_file: svc.key}\n"
		if password != "" {
			config += "  sasl: {mechanism: digest-md5, user: svc, password_file: " + password + "}\n"
		}
		file := filepath.Join(dir, "config.yaml")
		writeFile(t, file, config)
		cmd := exec.Command(filepath.Join(bin, name), slices.Concat(args[:1], []string{"--config", file, "--servers", s.secure}, args[1:])...)
		p := &program{&cli{bench: b, dir: dir}, b.start(cmd)}
		out = p.rest()
		p.mustExit(status)
		shown.WriteString(out + p.Stderr() + strings.Join(cmd.Args, " "))
		return out, p.Stderr()
	}
	run(0, "password", "holdfast", "run", "x", "--", "/bin/sh", "-c", "tr '\\0' ' ' < /proc/$PPID/cmdline; echo")
	run(0, "password", "holdfast", "ls")
	run(0, "password", "holdfast", "doctor")
	if report, _ := run(0, "password", "reaper", "--once"); !strings.Contains(report, `"complete": true`) {
		t.Errorf("the reaper's report: %s", report)
	}
	if out, _ := run(1, "wrong", "holdfast", "doctor"); !strings.Contains(out, "sasl-failed") || !strings.Contains(out, "user_svc") {
		t.Errorf("the doctor says\n%s", out)
	}
	for password, want := range map[string]string{"wrong": "SASL authentication failed", "": "access denied"} {
		if _, says := run(1, password, "holdfast", "run", "x", "--", "/bin/true"); !strings.Contains(says, want) {
			t.Errorf("standard error is %q, want %q in it", says, want)
		}
	}
	for _, password := range passwords {
		if strings.Contains(shown.String(), password) {
			t.Errorf("the password is shown:\n%s", shown.String())
		}
	}
}

// TestTLSAsDocumented: a client with the configuration of lock/SECURING.md can lock on a server
// with the page's lines for zoo.cfg.
func TestTLSAsDocumented(t *testing.T) {
	t.Parallel()
	page := text(t, "../lock/SECURING.md")
	zoo := regexp.MustCompile("(?s)```text\n(secureClientPort=.*?)\n```").FindStringSubmatch(page)
	client := regexp.MustCompile("(?s)```yaml\n(zookeeper:.*?  tls:.*?)```").FindStringSubmatch(page)
	if zoo == nil || client == nil {
		t.Fatal("lock/SECURING.md shows no zoo.cfg, or no configuration")
	}
	ports, err := zkserver.FreePorts(1)
	iferr.Fatal(t, err)
	authority := testpki.New(t)
	zkserver.ForTest(t, zkserver.Options{Config: strings.Split(strings.NewReplacer(
		"=2281", fmt.Sprintf("=%d\nsecureClientPortAddress=127.0.0.1", ports[0]),
		"/etc/zookeeper/server.pem", testpki.File(t, "server.pem", authority.Issue(t, "127.0.0.1").Bundle(authority)),
		"/etc/zookeeper/ca.pem", testpki.File(t, "ca.pem", authority.PEM),
	).Replace(zoo[1]), "\n")})
	file := filepath.Join(filepath.Dir(testpki.File(t, "ca.pem", authority.PEM)), "config.yaml")
	ctx, cancel := context.WithTimeout(t.Context(), wholeTest)
	defer cancel()
	locks := configured(t, ctx, file, strings.ReplaceAll(client[1], `"zk1:2281", "zk2:2281", "zk3:2281"`, fmt.Sprintf(`"127.0.0.1:%d"`, ports[0])))
	iferr.Error(t, locks.Mutex("orders/42").Do(ctx, func(context.Context) error { return nil }))
}

// TestClosedEnsembleAsDocumented: the commands of lock/SECURING.md create a root for one user.
// Without that user's password, and below other roots, a lock is refused.
func TestClosedEnsembleAsDocumented(t *testing.T) {
	t.Parallel()
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

// testKerberos: holdfast and the reaper work with the configured keytab, and holdfast also with a
// credential cache. Without either, holdfast is refused. If the keytab is outdated, the errors of
// ls and of doctor name the cause.
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
