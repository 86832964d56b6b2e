// What a Machine and an audit keep of each lock, in bytes of the heap.

package history

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/internal/tape"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// TestMemoryOfALock: a held lock takes at most so many bytes, also after a renewal. Logs of 300,000 held
// locks are read on servers that have other work.
func TestMemoryOfALock(t *testing.T) {
	const locks = 20_000
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for name, c := range map[string]struct {
		apply func(*txnlog.Txn)
		most  int
	}{
		"history": {New(Options{Root: "/locks"}, func(Event) {}).Apply, 500},
		"audit":   {audit.New(audit.Options{}).Apply, 1000},
	} {
		before := heap()
		l := tape.New()
		for i := range locks {
			lock, owner := fmt.Sprintf("orders/%d", i), fmt.Sprintf("shop-%d", i%8)
			l.Take(int64(i%8), lock, owner).Renew(int64(i%8), lock, owner, 0, l.Granted)
			for j := range l.Txns {
				c.apply(&l.Txns[j])
			}
			l.Txns = l.Txns[:0]
		}
		each := (heap() - before) / locks
		t.Logf("%s: %d bytes", name, each)
		if each > c.most {
			t.Errorf("%s: %d bytes for each lock, at most %d", name, each, c.most)
		}
		runtime.KeepAlive(c.apply)
	}
}
