package zkconn

import (
	"sync"
	"time"
)

const (
	leastBytes = 16 << 10    // every server takes that much
	lessFor    = time.Minute // a lost transaction lowers the limit for this time
)

// Batch limits the size of transactions with changes of one kind. The limit is a guess. A server
// takes a megabyte, unless its jute.maxbuffer is lower. If a client sends more, the server cuts
// the connection without a reason. So after a lost transaction the limit is halved for a while.
// It is never so small that an overloaded server, which loses connections for other reasons, gets
// many more transactions. Its methods are safe for concurrent use.
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

// Lost records that a transaction of this size may not have been applied, for an unknown reason.
// It reports whether to try with less.
func (b *Batch) Lost(bytes int, now time.Duration) bool {
	if bytes <= leastBytes {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	less := max(leastBytes, bytes/2)
	if now < b.until { // this one may have been sent before the last loss: it must not raise the limit
		less = min(less, b.less)
	}
	b.less, b.until = less, now+lessFor
	return true
}
