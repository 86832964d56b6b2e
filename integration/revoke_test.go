package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// TestRevokeOnARealServer: each holder receives the requests to release its lock, also requests
// that are made while the holder's session ends. No node is left.
func TestRevokeOnARealServer(t *testing.T) {
	b := onShared(t)
	holder, tap := b.tapped()
	asker := b.client()
	h, reader := b.lock(holder, "x"), holder.RWMutex("rw")
	r1, err := reader.RLock(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	r2, err := asker.RWMutex("rw").RLock(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	hears := func(reason string, h *lock.Hold) {
		t.Helper()
		for { // an earlier request may be received first
			select {
			case r := <-h.Revoked():
				if r.Reason == reason {
					return
				}
			case <-h.Context().Done():
				t.Fatalf("%s: the hold ended: %v", reason, h.Err())
			case <-b.ctx.Done():
				t.Fatalf("%s: not told", reason)
			}
		}
	}
	revoke := func(name, reason string) {
		t.Helper()
		if err := asker.Revoke(b.ctx, name, reason); err != nil {
			t.Fatal(err)
		}
	}
	revoke("x", "before it listens")
	hears("before it listens", h)
	var most time.Duration
	for i := range 20 {
		reason := fmt.Sprint("time ", i)
		begun := time.Now()
		revoke("x", reason)
		hears(reason, h)
		most = max(most, time.Since(begun))
	}
	t.Logf("told after %v at most, which a busy machine may have delayed", most)
	for i := range 5 {
		reason := fmt.Sprint("session ", i)
		if i%2 == 0 {
			b.expire(tap)
			revoke("x", reason)
		} else {
			revoke("x", reason)
			b.expire(tap)
		}
		hears(reason, h)
	}
	revoke("rw", "readers")
	hears("readers", r1)
	hears("readers", r2)
	for _, h := range []*lock.Hold{h, r1, r2} {
		b.unlock(h)
	}
	b.eventually("the requests have gone with the holds", func() bool { return len(b.nodes()) == 0 })
}
