package integration_test

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestClocksHoursApart: if the server's clock is hours ahead of the clients' clocks or hours
// behind, leases last as long as with equal clocks, for waiters and for the reaper.
func TestClocksHoursApart(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": 5 * time.Hour, "behind": -5 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := zkserver.ClockForTest(t, ahead)
			s := zkserver.ForTest(t, zkserver.Options{Env: clock.Env()})
			b := on(t, []string{s.Addr()})
			c := b.client()

			h := b.lock(c, "held")
			_, stat, err := b.raw.Get(h.EntryPath())
			if err != nil {
				t.Fatal(err)
			}
			if off := time.Until(time.UnixMilli(stat.Mtime)); (off - ahead).Abs() > time.Minute {
				t.Fatalf("the server's clock is off by %v, want %v", off, ahead)
			}

			dead := b.holder("x")
			dead.says("held")
			dead.Kill()
			began := time.Now()
			next := b.lock(c, "x")
			if took := time.Since(began); took < ttl/2 || took > patience { // far less than the difference of the clocks
				t.Errorf("a dead holder blocked for %v; TTL and grace are %v", took, ttl+grace)
			}
			if now := b.record(next); time.Until(time.UnixMilli(now.ExpiresAt).Add(-ahead)) > long+grace {
				t.Errorf("the entry tells its expiry by the client's clock: %+v", now)
			}
			b.unlock(next)

			if h.Remaining() == 0 {
				t.Errorf("a held lock was lost: %v", h.Err())
			}
			if report, err := b.reaper(time.Second).Sweep(b.ctx); err != nil || report.Total.Expired != 0 || report.Total.Live < 1 {
				t.Errorf("the reaper takes a living lock for dead: %+v, %v", report.Total, err)
			}
			b.unlock(h)

			b.orphan("y", time.Second)
			if report, err := b.reaper(time.Second).Sweep(b.ctx); err != nil || report.Total.Expired != 1 {
				t.Errorf("the reaper does not see that the holder is dead: %+v, %v", report.Total, err)
			}
		})
	}
}

func (b *bench) record(h *lock.Hold) znode.Record {
	b.Helper()
	data, _, err := b.raw.Get(h.EntryPath())
	if err != nil {
		b.Fatal(err)
	}
	r, err := znode.DecodeRecord(data)
	if err != nil {
		b.Fatal(err)
	}
	return r
}
