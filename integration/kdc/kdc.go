//go:build unix

// Package kdc runs a Kerberos KDC for tests: MIT Kerberos, as in Debian's and Ubuntu's packages.
// The KDC listens on a free port of 127.0.0.1, runs as this user, and has its files in a temporary
// folder.
package kdc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// Realm is the default realm.
const Realm = "EXAMPLE.COM"

// Options are the settings of a KDC. The zero value suits tests.
type Options struct {
	Realm string // default: the constant Realm
	// TicketLife is the longest life of a ticket, in whole seconds; default a day.
	TicketLife time.Duration
	// Ahead is how far the KDC's clock is ahead; negative: behind.
	Ahead  time.Duration
	Config []string // additional lines of [libdefaults] in krb5.conf
}

// KDC is a KDC with its realm.
type KDC struct {
	Realm string
	Conf  string // path of a krb5.conf that names this KDC
	Addr  string // 127.0.0.1:port

	dir      string
	clock    *zkserver.Clock // nil: this machine's clock
	env      []string
	programs programs
	proc     *zkserver.Process
	keytabs  atomic.Int64
}

type programs struct{ kdc, util, admin, kinit string }

// find returns the paths of the programs, and the packages of the missing programs.
func find() (p programs, missing []string) {
	for _, want := range []struct {
		to            *string
		name, comesBy string
	}{
		{&p.kdc, "krb5kdc", "krb5-kdc"}, {&p.util, "kdb5_util", "krb5-kdc"},
		{&p.admin, "kadmin.local", "krb5-admin-server"}, {&p.kinit, "kinit", "krb5-user"},
	} {
		for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
			if path, err := exec.LookPath(filepath.Join(dir, want.name)); err == nil {
				*want.to = path
				break
			}
		}
		if *want.to == "" && !slices.Contains(missing, want.comesBy) {
			missing = append(missing, want.comesBy)
		}
	}
	return p, missing
}

// ForTest starts a KDC, and stops it at the end of the test. It installs MIT Kerberos as
// [zkserver.Find] installs ZooKeeper. If MIT Kerberos cannot be installed, the test is skipped.
func ForTest(t testing.TB, opts Options) *KDC {
	t.Helper()
	k := &KDC{Realm: cmp.Or(opts.Realm, Realm), dir: t.TempDir()}
	err := zkserver.Install(t.Context(), func() (missing []string, err error) {
		k.programs, missing = find()
		return missing, nil
	})
	if errors.Is(err, zkserver.ErrNotInstalled) {
		zkserver.NotRun(t, "needs a Kerberos KDC: %v", err)
	}
	if opts.Ahead != 0 {
		k.clock = zkserver.ClockForTest(t, opts.Ahead)
	}
	if err == nil {
		err = k.create(t.Context(), opts)
	}
	if err == nil {
		err = k.Start(t.Context())
	}
	if err != nil {
		t.Fatalf("kdc: %v", err)
	}
	t.Cleanup(k.Stop)
	return k
}

// create writes the configuration and the database.
func (k *KDC) create(ctx context.Context, opts Options) error {
	ports, err := zkserver.FreePorts(1)
	if err != nil {
		return err
	}
	k.Addr = fmt.Sprintf("127.0.0.1:%d", ports[0])
	k.Conf = filepath.Join(k.dir, "krb5.conf")
	profile := filepath.Join(k.dir, "kdc.conf")
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.Conf, "KRB5_KDC_PROFILE="+profile, "KRB5CCNAME="+filepath.Join(k.dir, "ccache"))
	life := cmp.Or(opts.TicketLife, 24*time.Hour)
	for file, text := range map[string]string{
		k.Conf: fmt.Sprintf("[libdefaults]\n  default_realm = %s\n  dns_lookup_kdc = false\n  rdns = false\n%s\n[realms]\n  %s = {\n    kdc = %s\n  }\n",
			k.Realm, strings.Join(opts.Config, "\n"), k.Realm, k.Addr),
		profile: fmt.Sprintf(`[kdcdefaults]
  kdc_listen = %s
  kdc_tcp_listen = %s
[realms]
  %s = {
    database_name = %s
    key_stash_file = %s
    acl_file = %s
    max_life = %ds
    max_renewable_life = 7d
    default_principal_flags = +preauth
  }
[logging]
  kdc = FILE:%s
`, k.Addr, k.Addr, k.Realm, filepath.Join(k.dir, "principal"), filepath.Join(k.dir, "stash"), filepath.Join(k.dir, "acl"), int(life.Seconds()), k.log()),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	if _, err := k.run(ctx, k.programs.util, "-r", k.Realm, "-P", "master", "create", "-s"); err != nil {
		return err
	}
	if k.clock != nil {
		k.env = append(k.env, k.clock.Env()...)
	}
	return nil
}

func (k *KDC) log() string { return filepath.Join(k.dir, "kdc.log") }

// Log returns the KDC's log, or the text of the error if the log cannot be read.
func (k *KDC) Log() string {
	text, err := os.ReadFile(k.log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// run runs a program in the KDC's environment, and returns its output.
func (k *KDC) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir = k.env, k.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return string(out), err
}

// Start starts the stopped KDC, and waits until it accepts connections.
func (k *KDC) Start(ctx context.Context) (err error) {
	cmd := exec.Command(k.programs.kdc, "-n", "-r", k.Realm, "-P", filepath.Join(k.dir, "pid"))
	cmd.Env, cmd.Dir = k.env, k.dir
	output, err := os.Create(filepath.Join(k.dir, "output"))
	if err != nil {
		return err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if k.proc, err = zkserver.StartProcess(cmd); err != nil {
		return err
	}
	return wait.Until(ctx, time.Minute, "the KDC listens", func() (bool, error) {
		if err := k.proc.Running(); err != nil {
			said, _ := os.ReadFile(output.Name())
			return false, fmt.Errorf("%w\n%s", err, said)
		}
		c, err := net.Dial("tcp", k.Addr)
		if err != nil {
			return false, nil
		}
		return true, c.Close()
	})
}

// Stop stops the KDC, if it runs. [KDC.Start] starts it again.
func (k *KDC) Stop() {
	if k.proc != nil {
		_ = k.proc.Stop(syscall.SIGTERM, time.Minute) // an error means only that the KDC had ended, or had to be killed
		k.proc = nil
	}
}

// Admin runs a request of kadmin.local, such as "addprinc -randkey zookeeper/localhost", and
// returns the output.
func (k *KDC) Admin(t testing.TB, request string) string {
	t.Helper()
	out, err := k.run(t.Context(), k.programs.admin, "-r", k.Realm, "-q", request)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, ": ") && strings.Contains(out, "while ") { // an error, although the exit status is 0
		t.Fatalf("kadmin.local -q %q: %s", request, out)
	}
	return out
}

// AddPrincipal creates principals with random keys.
func (k *KDC) AddPrincipal(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		k.Admin(t, "addprinc -randkey "+name)
	}
}

// Keytab returns the path of a new keytab with the present keys of the principals.
func (k *KDC) Keytab(t testing.TB, names ...string) string {
	t.Helper()
	path := filepath.Join(k.dir, fmt.Sprintf("keytab%d", k.keytabs.Add(1)))
	k.Admin(t, "ktadd -norandkey -k "+path+" "+strings.Join(names, " "))
	return path
}

// Kinit gets a ticket for a principal by its keytab, and writes it to a credential cache. args are
// additional arguments of kinit.
func (k *KDC) Kinit(t testing.TB, principal, keytab, cache string, args ...string) {
	t.Helper()
	args = append(args, "-c", "FILE:"+cache, "-k", "-t", keytab, principal)
	if _, err := k.run(t.Context(), k.programs.kinit, args...); err != nil {
		t.Fatal(err)
	}
}
