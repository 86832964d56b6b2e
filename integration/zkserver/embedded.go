package zkserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// EnvEmbedded, if not empty, says that HOLDFAST_ZOOKEEPER names a ZooKeeper in memory
// ([StartEmbedded]). It is the file to which [NeedReal] adds the tests that it skips.
const EnvEmbedded = "HOLDFAST_EMBEDDED"

// StartEmbedded serves a ZooKeeper in memory on loopback, as holdfast dev does, where there
// is no real one to run. Of the options it takes the session timeouts. Stop ends it.
func StartEmbedded(opts Options) (addr string, stop func() error, err error) {
	if opts, err = opts.withDefaults(); err != nil {
		return "", nil, err
	}
	ens, err := locktest.New(locktest.Options{
		TickTime: opts.TickTime, MinSessionTimeout: opts.MinSessionTimeout, MaxSessionTimeout: opts.MaxSessionTimeout,
	})
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

// Embedded reports whether [External] is a ZooKeeper in memory.
func Embedded() bool { return os.Getenv(EnvEmbedded) != "" }

// NeedReal skips a test that needs a real ZooKeeper if there is none, and notes its name in
// the file of HOLDFAST_EMBEDDED.
func NeedReal(t testing.TB) {
	t.Helper()
	if !Embedded() {
		return
	}
	f, err := os.OpenFile(os.Getenv(EnvEmbedded), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintln(f, t.Name())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatalf("zkserver: %s: %v", EnvEmbedded, err)
	}
	t.Skip("not run: it needs a real ZooKeeper, and there is none to run")
}

// AddrForTest starts a server for one test that does no more than connect to it, and
// returns its address: where there is no real ZooKeeper to run, one in memory.
func AddrForTest(t testing.TB, opts Options) string {
	t.Helper()
	if !Embedded() {
		return ForTest(t, opts).Addr()
	}
	addr, stop, err := StartEmbedded(opts)
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
