// Package localhost has servers on 127.0.0.1 for tests whose clients are other processes: the ensemble
// in memory, and one that never answers.
package localhost

import (
	"net"
	"testing"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// Serve serves an ensemble in memory by its first member. stop ends it.
func Serve(opts locktest.Options) (ens *locktest.Ensemble, addr string, stop func() error, err error) {
	if ens, err = locktest.New(opts); err != nil {
		return nil, "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		ens.Close()
		return nil, "", nil, err
	}
	served := make(chan error, 1)
	go func() { served <- ens.Serve(l, ens.Servers()[0]) }()
	return ens, l.Addr().String(), func() error { ens.Close(); return <-served }, nil
}

// InMemory is Serve until the end of the test.
func InMemory(t testing.TB, opts locktest.Options) (ens *locktest.Ensemble, addr string) {
	t.Helper()
	ens, addr, stop, err := Serve(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return ens, addr
}

// Silent returns the address of a server that accepts connections until the end of the test, and never
// answers.
func Silent(t testing.TB) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the connections stay in its backlog
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}
