package zkconn

import (
	"sync"
	"time"
)

const (
	fewest   = 4           // that can hardly be too many where one is not
	fewerFor = time.Minute // for how long there are fewer after a transaction that was lost
)

// Batch is how many changes of one kind are sent in one transaction. That is a guess: a
// server cuts the connection of who sends more than it takes, a megabyte unless its
// jute.maxbuffer says less, and does not tell why. So there are half as many for a while
// each time that one was lost. Its methods are safe for concurrent use.
type Batch struct {
	Most int // where nothing was lost

	mu    sync.Mutex
	fewer int
	until time.Duration // monotonic time
}

// Limit is how many there may be in a transaction now.
func (b *Batch) Limit(now time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now >= b.until {
		return b.Most
	}
	return b.fewer
}

// Lost notes that a transaction of so many was not applied, or may not have been, for no
// reason that is known. It reports whether to try with fewer.
func (b *Batch) Lost(n int, now time.Duration) bool {
	if n <= fewest {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fewer, b.until = max(fewest, n/2), now+fewerFor
	return true
}
