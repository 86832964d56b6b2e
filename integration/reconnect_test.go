package integration_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// TestServerThatLimitsRequestSize: the renewals of 100 holds at once, with 200 kB, are sent without a
// reconnect to a server that takes 42,000 bytes a request. A longer list can be read from it.
func TestServerThatLimitsRequestSize(t *testing.T) {
	t.Parallel()
	s := zkserver.ForTest(t, zkserver.Options{JVMArgs: []string{"-Djute.maxbuffer=42000"}})
	b := on(t, []string{s.Addr()})
	var dials atomic.Int32
	c := b.client(lock.WithSessionTimeout(time.Minute), lock.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
		dials.Add(1)
		return net.DialTimeout(network, address, timeout)
	}))
	var holds []*lock.Hold
	for i := range 300 {
		name := fmt.Sprintf("%d-%s", i, strings.Repeat("n", 200))
		holds = append(holds, b.lock(c, name, lock.WithTTL(long), lock.WithMetadata(map[string]string{"job": strings.Repeat("x", 2000)})))
	}
	if names, _, err := b.raw.Children(b.root); err != nil || len(strings.Join(names, "")) < 60_000 {
		t.Errorf("a list of %d names: %v", len(names), err)
	}
	var extended sync.WaitGroup
	for _, h := range holds[:100] {
		extended.Go(func() {
			iferr.Error(t, h.Extend(b.ctx, 2*long))
		})
	}
	extended.Wait()
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
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
	iferr.Fatal(t, os.RemoveAll(s.DataDir()))
	iferr.Fatal(t, s.Restart(b.ctx))
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
