package zkconn

import (
	"sync"
	"time"
)

const (
	leastBytes = 16 << 10    // lowest limit: every server accepts that much
	lessFor    = time.Minute // a lost transaction lowers the limit for this time
)

// Batch limits the size of transactions with changes of one kind. The limit is a guess. A server
// accepts a megabyte, unless its jute.maxbuffer is lower. If a client sends more, the server cuts
// the connection without a reason. So after a lost transaction, half its size is the limit for a
// minute; but at least 16 kB, so that an overloaded server, which loses connections for other
// reasons, does not get many more transactions. The methods are safe for concurrent use.
type Batch struct {
	Most int // limit in bytes, unless a transaction was lost

	mu    sync.Mutex
	less  int           // lower limit in bytes after a loss
	until time.Duration // monotonic time at which the lower limit ends
}

// Limit returns the present limit of a transaction, in bytes.
func (b *Batch) Limit(now time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now >= b.until {
		return b.Most
	}
	return b.less
}

// Lost records that the connection was lost under a transaction of this size. It reports whether to
// send smaller transactions: not if this one was at most 16 kB.
func (b *Batch) Lost(bytes int, now time.Duration) bool {
	if bytes <= leastBytes {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	less := max(leastBytes, bytes/2)
	if now < b.until { // the transaction may have been sent before the last loss: it must not raise the limit
		less = min(less, b.less)
	}
	b.less, b.until = less, now+lessFor
	return true
}
