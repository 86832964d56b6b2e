package main

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// TestSystems: a lock of another system excludes, wakes its waiters, and if it is free costs two
// requests and two transactions. After close the server no longer listens. Systems that are not
// installed are skipped.
func TestSystems(t *testing.T) {
	t.Setenv(zkserver.EnvNoInstall, "1")
	for _, p := range peers {
		if p.start == nil {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			server, err := p.start(t.Context())
			if errors.Is(err, zkserver.ErrNotInstalled) {
				zkserver.NotRun(t, "%v", err)
			}
			iferr.Fatal(t, err)
			t.Log(server.version)
			defer func() {
				iferr.Error(t, server.close())
				if conn, err := net.Dial("tcp", server.addr); err == nil {
					conn.Close()
					t.Errorf("a server still listens on %s", server.addr)
				}
			}()
			testLocks(t, p, server)
		})
	}
}

func testLocks(t *testing.T, p *peer, server *server) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := openAll(ctx, p, server.addr, 2)
	iferr.Fatal(t, err)
	defer func() {
		iferr.Error(t, s.close())
	}()
	at := &site{on: server}
	const path, n = root + "/test", 10
	one, two := s[0].locker(path), s[1].locker(path)
	free := func() (int, error) {
		_, err := timed(n, func(int) error { return one.cycle(ctx) })
		return n, err
	}
	if _, err := free(); err != nil { // warms up
		t.Fatal(err)
	}
	each, err := at.costOf(ctx, s, free)
	iferr.Fatal(t, err)
	renewals := 0.0
	if p.Name == "etcd" { // up to four renewals of its leases may fall among the ten cycles
		renewals = 0.4
	}
	if each.requests < 2 || each.requests > 2+renewals || each.transactions != 2 || each.out < 20 || each.in < 5 {
		t.Errorf("a free lock costs %+v; want 2 requests, 2 transactions, and some bytes", each)
	}

	iferr.Fatal(t, one.lock(ctx))
	if got, err := two.try(ctx); got || err != nil {
		t.Errorf("try of a held lock: %v, %v", got, err)
	}
	locked := make(chan error, 1)
	go func() { locked <- two.lock(ctx) }()
	iferr.Fatal(t, at.allWait(ctx, path, 2))
	select {
	case err := <-locked:
		t.Fatalf("a second client has the held lock: %v", err)
	// wall clock: that the lock is not granted is no event
	case <-time.After(50 * time.Millisecond):
	}
	iferr.Fatal(t, errors.Join(one.unlock(), <-locked))
	if got, err := one.try(ctx); got || err != nil {
		t.Errorf("the first client tries the second one's lock: %v, %v", got, err)
	}
	iferr.Error(t, two.unlock())
	if got, err := two.try(ctx); !got || err != nil {
		t.Errorf("try of a free lock: %v, %v", got, err)
	}
	iferr.Error(t, two.unlock())
}

func TestTurnsTellWhoIsNext(t *testing.T) {
	turns := &turns{room: 1}
	turns.measure(true)
	for _, client := range []int{0, 0, 1, 1, 1, 0} {
		iferr.Fatal(t, iferr.Of(turns.enter(client, time.Now())))
		turns.leave(time.Now(), time.Now())
	}
	if len(turns.latencies) != 6 || turns.passed != 2 {
		t.Errorf("%d handoffs, %d of them to another client; want 6 and 2", len(turns.latencies), turns.passed)
	}
}
