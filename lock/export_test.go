package lock

import (
	"math/rand/v2"
	"sync"
	"time"
)

// WithClock gives a client a clock of its own: what it shows on the monotonic
// clock and on the wall clock.
func WithClock(now func() (mono, wall time.Duration)) Option {
	return clientOption(func(c *config) error {
		c.now = func() instant {
			mono, wall := now()
			return instant{mono: mono, wall: wall}
		}
		return nil
	})
}

// Session is the id of the session that the client has now.
func (c *Client) Session() int64 { return c.session() }

// Strays is how many entries are remembered that should not be there.
func (c *Client) Strays() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.strays)
}

// Watches is how many watches are remembered, those that fired included.
func (c *Client) Watches() int {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return len(c.conn.watches)
}

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
