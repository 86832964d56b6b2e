// Access to the package's internals for tests. No test leaves a goroutine behind, or breaks an invariant
// of an entry or a lock's state.

package lock

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
)

func TestMain(m *testing.M) {
	lease.Broken = func(err error) { panic(err) }
	goleak.VerifyTestMain(m)
}

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

// TokenParts are the parts of a token.
type TokenParts = access.Token

// TokenOf returns the token with these parts.
func TokenOf(parts TokenParts) Token { return Token{parts} }

// Parts returns the parts of the token.
func (t Token) Parts() TokenParts { return t.parts }

// HoldOf returns another handle on a leadership, which ends with it. Unlock the one or resign the other.
func HoldOf(l *Leadership) *Hold { return access.HoldOf(l).(*Hold) }

// LeadershipOf returns the leadership of a hold that HoldOf has returned.
func LeadershipOf(h *Hold) *Leadership { return access.LeadershipOf(h).(*Leadership) }

// RWMutexOf returns the lock of a hold.
func RWMutexOf(h *Hold) *RWMutex { return h.client.RWMutex(h.Name()) }

// Session returns the id of the client's present session.
func (c *Client) Session() int64 { return c.conn.Session() }

// Orphans returns the number of orphaned creates that the client remembers.
func (c *Client) Orphans() int { return c.queue.Stats().Orphans }

// Revocable returns the number of entries that the client remembers for Revoked, including some that
// have ended.
func (c *Client) Revocable() int { return c.revoke.Watched() }

// Watches returns the number of remembered watches, including those that fired.
func (c *Client) Watches() int { return c.conn.Watches() }

// WithInFlight limits the shared transactions in flight at once, so that more of them are shared; 0:
// as many as without the option.
func WithInFlight(n int) Option {
	return clientOption(func(c *config) error {
		c.inFlight = n
		return nil
	})
}
