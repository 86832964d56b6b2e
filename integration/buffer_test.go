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

// TestServerThatLimitsRequestSize: a server closes the connection of a client that sends more than
// 50 kB at once. The renewals of 100 holds have 200 kB. All are extended without a reconnect.
func TestServerThatLimitsRequestSize(t *testing.T) {
	t.Parallel()
	s := zkserver.ForTest(t, zkserver.Options{JVMArgs: []string{"-Djute.maxbuffer=50000"}})
	b := on(t, []string{s.Addr()})
	var dials atomic.Int32
	dialer := func(network, address string, timeout time.Duration) (net.Conn, error) {
		dials.Add(1)
		return net.DialTimeout(network, address, timeout)
	}
	c := b.client(lock.WithSessionTimeout(time.Minute), lock.WithDialer(dialer))
	many := lock.WithMetadata(map[string]string{"job": strings.Repeat("x", 2000)})
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
	for _, h := range holds {
		b.unlock(h)
	}
	if n := dials.Load(); n != 0 {
		t.Errorf("%d more connections", n)
	}
}
