package zkconn

import (
	"sync"
	"time"
)

const (
	leastBytes = 16 << 10    // that any server takes
	lessFor    = time.Minute // for how long there are fewer after a transaction that was lost
)

// Batch is how many bytes of changes of one kind are sent in one transaction. That is a
// guess: a server takes a megabyte, unless its jute.maxbuffer says less. If a client sends
// more, the server cuts its connection, and does not tell why. So after a lost transaction
// there are half as many for a while. They are never so few that an overloaded server, which
// loses connections for that, had to serve many more transactions. Its methods are safe for
// concurrent use.
type Batch struct {
	Most int // bytes, where nothing was lost

	mu    sync.Mutex
	less  int
	until time.Duration // monotonic time
}

// Limit is how many bytes there may be in a transaction now.
func (b *Batch) Limit(now time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now >= b.until {
		return b.Most
	}
	return b.less
}

// Lost notes that a transaction of so many bytes was not applied, or may not have been, for
// no reason that is known. It reports whether to try with less.
func (b *Batch) Lost(bytes int, now time.Duration) bool {
	if bytes <= leastBytes {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	less := max(leastBytes, bytes/2)
	if now < b.until { // one that was sent before the last loss proves nothing better
		less = min(less, b.less)
	}
	b.less, b.until = less, now+lessFor
	return true
}
