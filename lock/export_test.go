// What the tests reach inside the package.

package lock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
)

// WithClock gives a client a clock of its own: what it shows on the monotonic
// clock and on the wall clock.
func WithClock(now func() (mono, wall time.Duration)) Option {
	return clientOption(func(c *config) error {
		c.now = func() clock.Instant {
			mono, wall := now()
			return clock.Instant{Mono: mono, Wall: wall}
		}
		return nil
	})
}

// SetPass has the entry of the hold passed on so often.
func (h *Hold) SetPass(n int32) { h.e.Pass = n }

// RequestOf tells the requests apart that observers are told of.
func RequestOf(ctx context.Context) any { return askedBy(ctx) }

// Session is the id of the session that the client has now.
func (c *Client) Session() int64 { return c.conn.Session() }

// Orphans is how many attempts are remembered whose entries should not be there.
func (c *Client) Orphans() int { return c.queue.Orphans() }

// Wards is how many entries are remembered whose holds have listened.
func (c *Client) Wards() int { return c.inbox.Wards() }

// Watches is how many watches are remembered, those that fired included.
func (c *Client) Watches() int { return c.conn.Watches() }

// WithSeed gives a client randomness that can be had again.
func WithSeed(seed1, seed2 uint64) Option {
	return clientOption(func(c *config) error {
		c.random = rand.New(&lockedSource{PCG: rand.NewPCG(seed1, seed2)})
		return nil
	})
}

type lockedSource struct {
	mu sync.Mutex
	*rand.PCG
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.PCG.Uint64()
}
