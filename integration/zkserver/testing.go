package zkserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// Main runs the tests of a package with a shared server, and returns the exit status for os.Exit.
// While the tests run, [External] names the server, also in processes that they start. If
// HOLDFAST_ZOOKEEPER names servers, Main uses them. If ZooKeeper is not installed and cannot be,
// the server is in memory, and tests that need a real one are skipped ([NeedReal]).
//
// At the end, or on SIGINT, SIGTERM or SIGHUP, Main stops all servers that this process started. If
// the tests pass but leave a goroutine or a server behind, the exit status is 1.
func Main(m interface{ Run() int }) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	stopShared := func() error { return nil }
	if External() != nil && os.Getenv(EnvRoots) == "" && !Embedded() {
		fmt.Fprintf(os.Stderr, "zkserver: the logs of %v are not audited: these tests have not started that server\n", External())
	}
	if External() == nil {
		var err error
		if stopShared, err = share(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.Unsetenv(EnvServers)
		defer os.Unsetenv(EnvEmbedded)
	}
	uninterrupted := context.AfterFunc(ctx, func() {
		fmt.Fprintln(os.Stderr, "zkserver: interrupted, stopping the servers")
		if err := stopAll(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	})

	code := m.Run()

	if !uninterrupted() {
		select {} // the interruption ends the process
	}
	stop()
	err := stopShared()
	if code == 0 {
		err = errors.Join(err, goleak.Find())
	}
	if err = errors.Join(err, stopAll()); err != nil {
		fmt.Fprintln(os.Stderr, "zkserver: after the tests:", err)
		code = max(code, 1)
	}
	return code
}

// share starts the shared server, and names it in the environment.
func share(ctx context.Context) (stop func() error, err error) {
	shared, err := StartAny(ctx)
	if err != nil {
		return nil, err
	}
	if shared.Missing != nil {
		fmt.Fprintf(os.Stderr, "%v\nzkserver: some tests are skipped; the others run on a ZooKeeper in memory\n", shared.Missing)
	}
	for _, variable := range shared.Env() {
		name, value, _ := strings.Cut(variable, "=")
		os.Setenv(name, value)
	}
	return shared.Stop, nil
}

// ForTest starts a server for one test or benchmark, and stops it at the test's end. If the test
// failed, it logs the end of the server's log. It skips the test if there is no ZooKeeper.
func ForTest(t testing.TB, opts Options) *Server {
	t.Helper()
	return EnsembleForTest(t, 1, opts).servers[0]
}

// EnsembleForTest starts n servers for one test, and stops them at the test's end. If the test
// failed, it logs the ends of the servers' logs. It skips the test if there is no ZooKeeper.
func EnsembleForTest(t testing.TB, n int, opts Options) *Ensemble {
	t.Helper()
	NeedReal(t)
	if slices.ContainsFunc(opts.Config, func(line string) bool { return strings.Contains(line, nettyFactory) }) && !hasNetty(os.Getenv(EnvHome)) {
		NotRun(t, "needs a ZooKeeper with Netty, as for TLS: Debian's 3.4.13 has none")
	}
	e, err := StartEnsemble(t.Context(), n, opts)
	iferr.Fatal(t, err)
	for _, s := range e.servers {
		s.audited = true
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range e.servers {
				t.Logf("the end of the log of server %s:\n%s", s.Addr(), s.LogTail(tailLines))
			}
		}
		iferr.Error(t, e.Stop())
	})
	return e
}

// live has the servers of this process that are not stopped.
var live sync.Map

func stopAll() error {
	e := new(Ensemble)
	for s := range live.Range {
		s := s.(*Server)
		s.audited = false // an audit proves nothing, because the test may be interrupted
		e.servers = append(e.servers, s)
	}
	return e.Stop()
}

const (
	// EnvEmbedded, if not empty, says that HOLDFAST_ZOOKEEPER names a ZooKeeper in memory
	// ([StartAny]).
	EnvEmbedded = "HOLDFAST_EMBEDDED"
	// EnvNotRun names the file to which [NotRun] adds tests; empty: none.
	EnvNotRun = "HOLDFAST_NOT_RUN"
)

// embedded returns the options of a ZooKeeper in memory. Of opts only TickTime and MaxSessionTimeout
// apply.
func embedded(opts Options) locktest.Options {
	opts = opts.withDefaults()
	return locktest.Options{TickTime: opts.TickTime, MaxSessionTimeout: opts.MaxSessionTimeout}
}

// Any is a ZooKeeper of this machine, or one in memory.
type Any struct {
	Addr    string
	Home    string // installation of the real server; "": the server is in memory
	Missing error  // reason why the server is in memory
	Stop    func() error
}

// StartAny starts this machine's ZooKeeper, or one in memory if it is not installed and cannot be.
func StartAny(ctx context.Context) (*Any, error) {
	found, err := Find(ctx)
	if errors.Is(err, ErrNotInstalled) && ctx.Err() == nil {
		_, addr, stop, embeddedErr := localhost.Serve(embedded(Options{}))
		if embeddedErr != nil {
			return nil, errors.Join(err, embeddedErr)
		}
		return &Any{Addr: addr, Missing: err, Stop: stop}, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := Start(ctx, Options{Installation: found})
	if err != nil {
		return nil, err
	}
	removeRoots, err := shareRoots()
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	s.audited = true
	return &Any{Addr: s.Addr(), Home: found.Home, Stop: func() error { return errors.Join(s.Stop(), removeRoots()) }}, nil
}

// Env returns the environment variables that name the server to tests and commands.
func (a *Any) Env() []string {
	env := []string{EnvServers + "=" + a.Addr}
	if a.Missing != nil {
		env = append(env, EnvEmbedded+"=1")
	} else {
		env = append(env, EnvRoots+"="+os.Getenv(EnvRoots))
	}
	return env
}

// Embedded reports whether [External] is a ZooKeeper in memory.
func Embedded() bool { return os.Getenv(EnvEmbedded) != "" }

// NeedReal skips the test if the shared server is in memory ([Embedded]).
func NeedReal(t testing.TB) {
	t.Helper()
	if Embedded() {
		NotRun(t, "needs a real ZooKeeper")
	}
}

// NotRun skips a test because the machine lacks something, or because another target of make runs
// it. It appends the reason and the test, separated by a tab, to the file in HOLDFAST_NOT_RUN, which
// make test prints at its end.
func NotRun(t testing.TB, reason string, args ...any) {
	t.Helper()
	reason = strings.Join(strings.Fields(fmt.Sprintf(reason, args...)), " ")
	if path := os.Getenv(EnvNotRun); path != "" {
		if err := appendLine(path, reason+"\t"+t.Name()); err != nil {
			t.Fatalf("zkserver: %s: %v", EnvNotRun, err)
		}
	}
	t.Skip("not run: " + reason)
}

// ClockForTest returns a clock, as [NewClock] does. The test is skipped if libfaketime is missing.
func ClockForTest(t testing.TB, ahead time.Duration) *Clock {
	t.Helper()
	c, err := NewClock(t.Context(), t.TempDir(), ahead)
	if errors.Is(err, ErrNotInstalled) {
		NotRun(t, "needs libfaketime: %v", err)
	}
	iferr.Fatal(t, err)
	return c
}

// AddrForTest starts a server and returns its address, for tests that only connect. Without a real
// ZooKeeper the server is in memory, and only the tick time and the session timeout of opts apply.
func AddrForTest(t testing.TB, opts Options) string {
	t.Helper()
	if !Embedded() {
		return ForTest(t, opts).Addr()
	}
	_, addr := localhost.InMemory(t, embedded(opts))
	return addr
}
