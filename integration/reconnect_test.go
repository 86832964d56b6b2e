package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// TestServerThatLimitsRequestSize: a server closes the connection of a client that sends more than
// 50 kB at once. The renewals of 100 holds, with 200 kB, are sent without a reconnect. A client
// whose watches do not fit into one request reconnects to its session, and none of its waiters
// misses an unlock: go-zookeeper sends all watches again in requests of up to 128 kB.
func TestServerThatLimitsRequestSize(t *testing.T) {
	t.Parallel()
	s := zkserver.ForTest(t, zkserver.Options{JVMArgs: []string{"-Djute.maxbuffer=50000"}})
	b := on(t, []string{s.Addr()})
	var dials atomic.Int32
	dialer := func(network, address string, timeout time.Duration) (net.Conn, error) {
		dials.Add(1)
		return net.DialTimeout(network, address, timeout)
	}
	var tap zkserver.Tap
	holder := b.client(lock.WithSessionTimeout(time.Minute), lock.WithDialer(dialer))
	dials.Store(0)
	b.extendMany(holder)
	if n := dials.Load(); n != 0 {
		t.Errorf("%d more connections", n)
	}
	waiter := b.client(lock.WithDialer(tap.Dial), lock.WithSessionTimeout(time.Minute))
	mine := b.lock(waiter, "mine", lock.WithTTL(long))
	const waits = 300
	holds := make([]*lock.Hold, waits)
	got := make(chan error, waits)
	for i := range holds {
		name := fmt.Sprintf("t%d-%s", i, strings.Repeat("n", 200))
		holds[i] = b.lock(holder, name, lock.WithTTL(long))
		go func() {
			h, err := waiter.Mutex(name, lock.WithTTL(long)).Lock(b.ctx)
			if err == nil {
				err = h.Unlock()
			}
			got <- err
		}()
	}
	b.eventually("all wait", func() bool { return waiter.Stats().Waiters == waits })
	// A list above the limit can be read: FAMILIES.md says so of go-zookeeper.
	if names, _, err := b.raw.Children(b.root); err != nil || len(strings.Join(names, "")) < 60_000 {
		t.Errorf("a list of %d names: %v", len(names), err)
	}
	session, _, _ := tap.Session()
	tap.Cut()
	for _, h := range holds {
		b.unlock(h)
	}
	for range holds {
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	}
	if err := waiter.Check(); err != nil || mine.Remaining() == 0 {
		t.Errorf("check: %v, the hold is valid: %v", err, mine.Remaining() > 0)
	}
	if id, _, _ := tap.Session(); id != session {
		t.Errorf("session %#x became %#x", session, id)
	}
	b.unlock(mine)
}

// extendMany extends 100 holds at once, whose records have 2 kB each, and does that several times:
// how many of the renewals share a transaction is left to chance.
func (b *bench) extendMany(c *lock.Client) {
	b.Helper()
	many := lock.WithMetadata(map[string]string{"job": strings.Repeat("x", 2000)})
	var holds []*lock.Hold
	for i := range 100 {
		holds = append(holds, b.lock(c, fmt.Sprintf("y%d", i), many))
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for i := 0; i < 20 && ctx.Err() == nil; i++ {
		var extended sync.WaitGroup
		for _, h := range holds {
			extended.Go(func() {
				if err := h.Extend(ctx, 2*long); err != nil {
					b.Error(err)
				}
			})
		}
		extended.Wait()
	}
	for _, h := range holds {
		b.unlock(h)
	}
}

// TestServerWithoutItsData: if a server loses its data and refuses old clients, Check returns an
// error that names the cause. Then the client locks again, and the hold whose entry is lost ends
// with ErrRemoved.
func TestServerWithoutItsData(t *testing.T) {
	t.Parallel()
	s := zkserver.ForTest(t, zkserver.Options{})
	b := on(t, []string{s.Addr()})
	c := b.client(lock.WithSessionTimeout(30 * time.Second)) // a busy server may take long to start
	for range 50 {
		b.unlock(b.lock(c, "x"))
	}
	h := b.lock(c, "held", lock.WithTTL(long))
	s.Kill()
	if err := os.RemoveAll(s.DataDir()); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(b.ctx); err != nil {
		t.Fatal(err)
	}
	var refused error
	b.eventually("the client is told that servers refuse it", func() bool {
		refused = c.Check() // before the server serves, it names another reason
		return refused != nil && strings.Contains(refused.Error(), "it has lost its data")
	})
	if !errors.Is(refused, lock.ErrUnavailable) {
		t.Errorf("check: %v", refused)
	}
	b.unlock(b.lock(c, "x"))
	b.eventually("the hold whose entry is gone ends", func() bool { return errors.Is(h.Err(), lock.ErrRemoved) })
	if err := c.Check(); err != nil {
		t.Errorf("check, when all is well again: %v", err)
	}
}
