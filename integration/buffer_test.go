package integration_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// TestServerThatTakesLess has a jute.maxbuffer of 20 kB, and cuts the connection of who
// sends more. Contenders of one client would join in requests of 70 kB, and 100 holds be
// renewed in one of 200 kB; they learn to send less, all get the lock, and no hold is lost.
func TestServerThatTakesLess(t *testing.T) {
	t.Parallel()
	s := zkserver.ForTest(t, zkserver.Options{JVMArgs: []string{"-Djute.maxbuffer=20000"}})
	b := on(t, []string{s.Addr()})
	var dials atomic.Int32
	dialer := func(network, address string, timeout time.Duration) (net.Conn, error) {
		dials.Add(1)
		return net.DialTimeout(network, address, timeout)
	}
	c := b.client(lock.WithSessionTimeout(time.Minute), lock.WithDialer(dialer))
	many := lock.WithMetadata(map[string]string{"job": strings.Repeat("x", 2000)})
	b.unlock(b.lock(c, "other"))
	h := b.lock(b.client(), "x")
	var waiters sync.WaitGroup
	for range 100 {
		waiters.Go(func() {
			h, err := c.Mutex("x", many).Lock(b.ctx)
			if err != nil {
				t.Error(err)
				return
			}
			b.unlock(h)
		})
	}
	b.eventually("all are in the queue", func() bool { return len(b.children("x")) == 101 })
	if n := dials.Load(); n < 2 || n > 10 { // 32, 16 and 8 are too many; each contender for itself would lose some ninety
		t.Errorf("%d connections, want one more for each length that was too long", n)
	} else {
		t.Logf("%d connections", n)
	}
	b.unlock(h)
	waiters.Wait()

	var holds []*lock.Hold
	for i := range 100 {
		holds = append(holds, b.lock(c, fmt.Sprintf("y%d", i), many, lock.WithTTL(long)))
	}
	dials.Store(0)
	var extended sync.WaitGroup
	for _, h := range holds {
		extended.Go(func() {
			if err := h.Extend(b.ctx, 2*long); err != nil {
				t.Error(err)
			}
		})
	}
	extended.Wait()
	if n := dials.Load(); n > 1+2+4+8+16 {
		t.Errorf("%d more connections, want at most one for each half that was too long", n)
	} else {
		t.Logf("%d more connections", n)
	}
	for _, h := range holds {
		b.unlock(h)
	}
}
