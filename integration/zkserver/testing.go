package zkserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package with a shared server, and returns the exit status for os.Exit.
// While the tests run, [External] names the server, also in processes that they start. If
// HOLDFAST_ZOOKEEPER names servers, Main uses those. Without ZooKeeper on this machine the server
// is in memory, and tests that need a real one are skipped ([NeedReal]).
//
// At the end, or on SIGINT, SIGTERM or SIGHUP, Main stops all servers that this process started.
// Passing tests that leave a goroutine or a server behind fail.
func Main(m interface{ Run() int }) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	stopShared := func() error { return nil }
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
		select {} // until the process exits
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

// ForTest starts a server for one test or benchmark, and stops it at its end. If the test failed,
// it logs the end of the server's log. It skips the test if there is no ZooKeeper.
func ForTest(t testing.TB, opts Options) *Server {
	t.Helper()
	return EnsembleForTest(t, 1, opts).servers[0]
}

// EnsembleForTest starts n servers for one test, and stops them at its end. If the
// test failed, it logs the ends of the servers' logs.
func EnsembleForTest(t testing.TB, n int, opts Options) *Ensemble {
	t.Helper()
	NeedReal(t)
	e, err := StartEnsemble(t.Context(), n, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range e.servers {
				t.Logf("the end of the log of server %s:\n%s", s.Addr(), s.LogTail(tailLines))
			}
		}
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// live has the servers of this process that are not stopped.
var live sync.Map

func stopAll() error {
	e := new(Ensemble)
	for s := range live.Range {
		e.servers = append(e.servers, s.(*Server))
	}
	return e.Stop()
}
