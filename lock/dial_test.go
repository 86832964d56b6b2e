// Dial and reconnects: unreachable, unknown and wrong servers.

package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// soonAfter is within what time a call is back that its context has ended.
const soonAfter = 100 * time.Millisecond

// TestDialEndsWithItsContext, whatever listens there.
func TestDialEndsWithItsContext(t *testing.T) {
	for _, peer := range badPeers {
		t.Run(peer.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &impostor{says: peer.says}
				const patience = 500 * time.Millisecond
				within(t, patience+soonAfter, "dial", func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					_, err := lock.Dial(ctx, []string{"192.0.2.1"}, lock.WithDialer(p.dial))
					mustBe(t, err, context.DeadlineExceeded, lock.ErrUnavailable)
					mustSay(t, err, "192.0.2.1:2181")
				}, p.hangUp)
				p.hangUp()
			})
		})
	}
}

// TestReconnectToBadPeer: where the server was there is something else for a while. A
// client that has holds comes through, or closes in time.
func TestReconnectToBadPeer(t *testing.T) {
	for _, peer := range badPeers {
		for _, closes := range []bool{false, true} {
			subtest(t, fmt.Sprintf("%s closes %v", peer.name, closes), locktest.Options{}, func(w *world) {
				p := &impostor{says: peer.says}
				dialer, astray := w.detour("a", p)
				const patience = 5 * time.Second
				a, err := lock.Dial(w.ctx, w.Servers(), w.options("a", dialer, lock.WithUnlockTimeout(patience))...)
				w.ok(err)
				w.Cleanup(func() { a.Close() }) // of no use by then to who closes, and says so
				h := w.lock(a, "x", lock.WithTTL(10*ttl))
				astray.Store(true)
				w.Cut("a")
				time.Sleep(time.Second)
				if closes {
					within(w, patience+soonAfter, "close", func() { a.Close() }, p.hangUp)
				} else {
					astray.Store(false)
					within(w, ttl, "renewal", func() { h.Extend(w.ctx, 5*ttl) }, p.hangUp)
					w.unlock(h)
				}
				p.hangUp()
			})
		}
	}
}
