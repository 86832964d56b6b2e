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

// closedRoot is a root that only svc may use, on a server with TLS, and what programs there have shown.
type closedRoot struct {
	*secure
	administrator steady
	bin, dir      string
	shown         strings.Builder
}

// closedFor returns a root that only the user of the ACL may use. The files of passwords are beside
// the programs' configuration.
func (s *secure) closedFor(bin string, acl []zk.ACL, passwords map[string]string) *closedRoot {
	s.Helper()
	r := &closedRoot{secure: s, administrator: s.raw(s.authority.Issue(s, "administrator"), "admin:top secret"), bin: bin, dir: s.TempDir()}
	if err := r.administrator.Ensure("/closed", nil, acl); err != nil {
		s.Fatal(err)
	}
	for name, content := range map[string][]byte{"ca.pem": s.authority.PEM, "svc.pem": s.ours.Cert, "svc.key": s.ours.Key} {
		writeFile(s, filepath.Join(r.dir, name), string(content))
	}
	for name, password := range passwords {
		writeFile(s, filepath.Join(r.dir, name), password+"\n")
	}
	return r
}

// run runs a program to its end. The section zookeeper of its configuration ends with the lines of
// auth. env is added to its environment.
func (r *closedRoot) run(env, auth, name string, args ...string) (p *program, out string) {
	r.Helper()
	file := filepath.Join(r.dir, "config.yaml")
	writeFile(r, file, fmt.Sprintf(`
log: {level: trace}
root: /closed
zookeeper:
  servers: [%q]
  session_timeout: %v
  tls: {ca_file: ca.pem, cert_file: svc.pem, key_file: svc.key}
%s`, r.secure.secure, programSession, auth))
	b := &bench{TB: r, ctx: r.ctx, servers: []string{r.secure.secure}, root: "/closed"}
	cmd := exec.Command(filepath.Join(r.bin, name), slices.Concat(args[:1], []string{"--config", file, "--servers", r.secure.secure}, args[1:])...)
	cmd.Env = append(os.Environ(), env)
	p = &program{&cli{bench: b, dir: r.dir}, b.start(cmd)}
	out = p.rest()
	p.status()
	r.shown.WriteString(out + p.Stderr() + strings.Join(cmd.Args, " "))
	return p, out
}

// works runs the programs, which must succeed with the credentials.
func (r *closedRoot) works(auth string) {
	r.Helper()
	for _, args := range [][]string{{"holdfast", "run", "x", "--", "/bin/sh", "-c", "tr '\\0' ' ' < /proc/$PPID/cmdline; echo"}, {"holdfast", "ls"}, {"reaper", "--once"}} {
		p, out := r.run("", auth, args[0], args[1:]...)
		p.mustExit(0)
		if args[0] == "reaper" && !strings.Contains(out, `"complete": true`) {
			r.Errorf("the reaper's report: %s", out)
		}
	}
}

// refuses runs a command without credentials, which must be refused. No password may have been shown.
func (r *closedRoot) refuses(passwords ...string) {
	r.Helper()
	p, _ := r.run("", "", "holdfast", "run", "x", "--", "/bin/true")
	p.mustSay("access denied")
	if p.status() == 0 {
		r.Error("a stranger's command ran")
	}
	for _, password := range passwords {
		if strings.Contains(r.shown.String(), password) {
			r.Errorf("the password is shown:\n%s", r.shown.String())
		}
	}
}

// testSecure: the programs work over TLS with the configured certificate and password, below a root
// that only svc may use. Without the password a command is refused. No output and no process's
// arguments show the password, and the command's environment lacks it.
func testSecure(t *testing.T, bin string) {
	const password = "tr0ub4dor"
	r := startSecure(t).closedFor(bin, zk.DigestACL(zk.PermAll, "svc", password), map[string]string{"password": password})
	if err := r.administrator.Restrict("/", zk.DigestACL(zk.PermAll, "admin", "top secret")); err != nil {
		t.Fatal(err)
	}
	r.works("  auth: {user: svc, password_file: password}\n")
	p, passed := r.run("HOLDFAST_IT_PASSWORD="+password, "  auth: {user: svc, password_env: HOLDFAST_IT_PASSWORD}\n",
		"holdfast", "run", "x", "--on-lost", "env", "--", "/bin/sh", "-c", "env; echo done")
	p.mustExit(0)
	if !strings.Contains(passed, "HOLDFAST_LOCK=x\n") || strings.Contains(passed, "HOLDFAST_IT_PASSWORD") {
		t.Errorf("the command's environment:\n%s", passed)
	}
	r.refuses(password)
}

// testSASL: the programs authenticate by SASL, over TLS, with the configured user and password.
// With a wrong password the doctor names the entry of the JAAS file. No output and no process's
// arguments show a password.
func testSASL(t *testing.T, bin string) {
	r := startSecure(t, withSASL(t)).closedFor(bin, saslACL("svc"), map[string]string{"password": saslUsers["svc"], "wrong": "wr0ng"})
	const ours, wrong = "  sasl: {mechanism: digest-md5, user: svc, password_file: password}\n", "  sasl: {mechanism: digest-md5, user: svc, password_file: wrong}\n"
	r.works(ours)
	p, _ := r.run("", ours, "holdfast", "doctor")
	p.mustExit(0)
	p, out := r.run("", wrong, "holdfast", "doctor")
	p.mustExit(1)
	if !strings.Contains(out, "sasl-failed") || !strings.Contains(out, "user_svc") {
		t.Errorf("the doctor says\n%s", out)
	}
	p, _ = r.run("", wrong, "holdfast", "run", "x", "--", "/bin/true")
	p.mustExit(1)
	p.mustSay("SASL authentication failed")
	r.refuses(saslUsers["svc"], "wr0ng")
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
