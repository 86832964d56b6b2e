// Access to the package's internals for tests.

package lock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
)

// WithClock replaces a client's clocks: now returns the readings of the monotonic clock and of the
// wall clock.
func WithClock(now func() (mono, wall time.Duration)) Option {
	return clientOption(func(c *config) error {
		c.now = func() clock.Instant {
			mono, wall := now()
			return clock.Instant{Mono: mono, Wall: wall}
		}
		return nil
	})
}

// SetPass sets the number of local handoffs of the hold's entry.
func (h *Hold) SetPass(n int32) { h.e.Pass = n }

// RequestOf returns a value that identifies the request in an observer's context.
func RequestOf(ctx context.Context) any { return requestStateOf(ctx) }

// Session returns the id of the client's present session.
func (c *Client) Session() int64 { return c.conn.Session() }

// Orphans returns the number of orphaned creates that the client remembers.
func (c *Client) Orphans() int { return c.queue.Stats().Orphans }

// Wards returns the number of entries that the client remembers for Revoked, including some that
// have ended.
func (c *Client) Wards() int { return c.inbox.Wards() }

// Watches returns the number of remembered watches, including those that fired.
func (c *Client) Watches() int { return c.conn.Watches() }

// WithSeed seeds a client's randomness, so that a run can be repeated.
func WithSeed(seed1, seed2 uint64) Option {
	return clientOption(func(c *config) error {
		c.random = rand.New(&lockedSource{PCG: rand.NewPCG(seed1, seed2)})
		return nil
	})
}

// WithInFlight limits the shared transactions in flight at once, so that more of them are shared; 0:
// as many as without the option.
func WithInFlight(n int) Option {
	return clientOption(func(c *config) error {
		c.inFlight = n
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
