package zkserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

const (
	// EnvEmbedded, if not empty, says that HOLDFAST_ZOOKEEPER names a ZooKeeper in memory
	// ([StartAny]).
	EnvEmbedded = "HOLDFAST_EMBEDDED"
	// EnvNotRun names the file to which [NotRun] adds tests; empty: none.
	EnvNotRun = "HOLDFAST_NOT_RUN"
)

// startEmbedded serves a ZooKeeper in memory on loopback, as holdfast dev does, for machines
// without a real one. It uses only the options of sessions. Stop ends it.
func startEmbedded(opts Options) (addr string, stop func() error, err error) {
	opts = opts.withDefaults()
	ens, err := locktest.New(locktest.Options{TickTime: opts.TickTime, MaxSessionTimeout: opts.MaxSessionTimeout})
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	served := make(chan error, 1)
	go func() { served <- ens.Serve(l, ens.Servers()[0]) }()
	return l.Addr().String(), func() error { ens.Close(); return <-served }, nil
}

// Any is a ZooKeeper of this machine, or one in memory.
type Any struct {
	Addr    string
	Home    string // of the real one; empty: it is in memory
	Missing error  // why it is in memory
	Stop    func() error
}

// StartAny starts this machine's ZooKeeper, or one in memory if it is not installed and cannot be.
func StartAny(ctx context.Context) (*Any, error) {
	found, err := Find(ctx)
	if errors.Is(err, ErrNotInstalled) && ctx.Err() == nil {
		addr, stop, embeddedErr := startEmbedded(Options{})
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
	return &Any{Addr: s.Addr(), Home: found.Home, Stop: s.Stop}, nil
}

// Env returns the environment variables that name the server to tests and commands.
func (a *Any) Env() []string {
	env := []string{EnvServers + "=" + a.Addr}
	if a.Missing != nil {
		env = append(env, EnvEmbedded+"=1")
	}
	return env
}

// Embedded reports whether [External] is a ZooKeeper in memory.
func Embedded() bool { return os.Getenv(EnvEmbedded) != "" }

// NeedReal skips a test that needs a real ZooKeeper if there is none.
func NeedReal(t testing.TB) {
	t.Helper()
	if Embedded() {
		NotRun(t, "needs a real ZooKeeper")
	}
}

// NotRun skips a test because the machine lacks something. It appends the reason and the test,
// separated by a tab, to the file in HOLDFAST_NOT_RUN, which make test prints at its end.
func NotRun(t testing.TB, reason string, args ...any) {
	t.Helper()
	reason = strings.Join(strings.Fields(fmt.Sprintf(reason, args...)), " ")
	if path := os.Getenv(EnvNotRun); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = fmt.Fprintf(f, "%s\t%s\n", reason, t.Name())
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatalf("zkserver: %s: %v", EnvNotRun, err)
		}
	}
	t.Skip("not run: " + reason)
}

// AddrForTest starts a server for a test that only connects, and returns its address. Without a
// real ZooKeeper the server is in memory.
func AddrForTest(t testing.TB, opts Options) string {
	t.Helper()
	if !Embedded() {
		return ForTest(t, opts).Addr()
	}
	addr, stop, err := startEmbedded(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return addr
}
