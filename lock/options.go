package lock

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/internal/outbox"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Defaults of a client.
const (
	// DefaultRoot is the node below which locks stand.
	DefaultRoot = "/locks"
	// DefaultSessionTimeout is what [Dial] asks ZooKeeper for.
	DefaultSessionTimeout = 10 * time.Second
	// DefaultUnlockTimeout is for how long an unlock is tried.
	DefaultUnlockTimeout = 10 * time.Second

	// maxSessionTimeout is what go-zookeeper can send, an int32 of milliseconds.
	maxSessionTimeout = math.MaxInt32 * time.Millisecond
)

// Option sets up a [Client]. What is wrong with it is reported by [Dial] or [New].
type Option interface{ setClient(*config) error }

// LockOption sets up one lock. What is wrong with it is reported by the lock's Validate, and
// by each use.
type LockOption interface{ setLock(*settings) error }

// SharedOption is both: given to a client it is the default of its locks.
type SharedOption interface {
	Option
	LockOption
}

type clientOption func(*config) error

func (o clientOption) setClient(c *config) error { return o(c) }

type lockOption func(*settings) error

func (o lockOption) setLock(s *settings) error { return o(s) }

type sharedOption struct {
	clientOption
	lockOption
}

// WithRoot sets the node below which the locks stand, an absolute path. It is
// made when missing. Default [DefaultRoot].
func WithRoot(path string) Option {
	return clientOption(func(c *config) error {
		c.root = path
		if err := znode.CheckRoot(path); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return nil
	})
}

// WithTTL sets how long a lock outlives its holder's last renewal: after that,
// and the grace, others enter. It is at least [MinTTL], in whole milliseconds,
// and at most the policy's MaxTTL. Default [DefaultTTL].
func WithTTL(ttl time.Duration) SharedOption {
	return sharedOption{
		func(c *config) error {
			c.policy.TTL, c.policySet = ttl, true
			return checkDuration("ttl", ttl, MinTTL, MaxTime)
		},
		func(s *settings) error {
			s.TTL = ttl
			return checkDuration("ttl", ttl, MinTTL, MaxTime)
		},
	}
}

// WithGrace sets how long after its expiry an entry is left alone. All clients of
// a lock should agree on it; it must be longer than any step of the ZooKeeper leader's
// clock while it leads. Other leaders' clocks may differ by more. At least [MinGrace].
// Default [DefaultGrace].
func WithGrace(grace time.Duration) Option {
	return clientOption(func(c *config) error {
		c.policy.Grace, c.policySet = grace, true
		return checkDuration("grace", grace, MinGrace, MaxTime)
	})
}

// WithPolicies takes the times of each lock from policies, and with them the
// place of WithTTL and WithGrace, which are then refused for a client.
func WithPolicies(p Policies) Option {
	return clientOption(func(c *config) error {
		if p == nil {
			return invalid("policies", p, "must not be nil")
		}
		c.policies = p
		return nil
	})
}

// WithACL sets the ACL of the nodes that the client makes. Default world:anyone
// with all permissions, or what [WithDigest] sets. The client's own credentials
// need READ, WRITE, CREATE and DELETE. The nodes above entries get one entry more,
// world:anyone with no permission at all, by which they are known as made here.
func WithACL(acl ...zk.ACL) Option {
	return clientOption(func(c *config) error {
		if len(acl) == 0 {
			return invalid("acl", acl, "must not be empty")
		}
		c.acl = slices.Clone(acl)
		return nil
	})
}

// WithDigest authenticates a client made by [Dial] with ZooKeeper's digest
// scheme and gives the nodes that it makes to that user alone, unless [WithACL]
// says otherwise.
func WithDigest(user, password string) Option {
	return clientOption(func(c *config) error {
		if user == "" || password == "" {
			return invalid("digest user", fmt.Sprintf("%q", user), "user and password must not be empty")
		}
		if strings.Contains(user, ":") { // would end the user's name early
			return invalid("digest user", fmt.Sprintf("%q", user), "must not have a colon")
		}
		c.digests = append(c.digests, user+":"+password)
		if c.acl == nil {
			c.acl = zk.DigestACL(zk.PermAll, user, password)
		}
		return nil
	})
}

// WithOwner names the owner that entries tell. Default the name of the
// program. Host and process id stand beside it.
func WithOwner(name string) Option {
	return clientOption(func(c *config) error {
		c.owner = name
		if err := znode.CheckOwner(name); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return nil
	})
}

// WithMetadata adds pairs to what entries tell about their owner; those of a
// lock are added to those of its client. At most 64 pairs and 4 KiB together, and none with
// the key "election.value", by which a candidate is known.
func WithMetadata(m map[string]string) SharedOption {
	add := func(to *map[string]string) error {
		if _, taken := m[znode.ValueKey]; taken {
			return invalid("metadata", fmt.Sprintf("%q", znode.ValueKey), "is the key of the candidate's value in an Election, and given to Campaign")
		}
		merged := maps.Clone(*to)
		if merged == nil {
			merged = make(map[string]string, len(m))
		}
		maps.Copy(merged, m)
		*to = merged
		if err := znode.CheckMetadata(merged); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return nil
	}
	return sharedOption{
		func(c *config) error { return add(&c.metadata) },
		func(s *settings) error { return add(&s.metadata) },
	}
}

// WithoutRenewal gives a fixed lease: the hold ends a TTL after it was granted
// unless [Hold.Extend] is called.
func WithoutRenewal() LockOption {
	return lockOption(func(s *settings) error {
		s.fixed = true
		return nil
	})
}

// WithBarging gives up the queue: [Mutex.Lock] waits until the lock is free, and then takes
// it if no other client is quicker. So a lock that is free for moments only may go to the
// same process again and again, and some clients may wait for long. In return there are
// fewer requests, and no handoff to a sleeping waiter. Contenders that barge and others can
// be mixed: those that queue go first, since the lock is not free while they wait.
//
// A dead holder blocks for TTL and grace as everywhere. Use it for work that any process may
// do, as long as it is done.
func WithBarging() LockOption {
	return lockOption(func(s *settings) error {
		s.barging = true
		return nil
	})
}

// WithPriority gives the candidates of an [Election] a priority, from 1, which is the
// default, to [MaxPriority]. The next leader is a waiting candidate of the highest priority,
// and of equals the first one. A leader goes on leading when a higher priority comes: to
// have that candidate lead at once, ask the leader to resign by [Client.Revoke].
//
// If a candidate's turn comes while one of a higher priority waits, it yields: it queues
// again, behind that one and all others that are there by then. No client takes it for the
// leader meanwhile. If the higher one withdraws, others of the yielding candidate's priority
// may be ahead of it now. If the higher one dies, no candidate leads until its TTL and the
// grace are over, as after the death of a leader.
func WithPriority(n int) LockOption {
	return lockOption(func(s *settings) error {
		if s.priority = n; n < 1 || n > MaxPriority {
			return invalid("priority", n, "must be within 1..%d", MaxPriority)
		}
		return nil
	})
}

// WithSlog has the client log to log, at its levels debug, info, warn and error. Default
// nowhere; of WithSlog and [WithLogger] the last one counts. The client never waits for the
// logger: a goroutine calls the handler, with a context that has no values. If the handler
// blocks, up to 1,024 lines wait and further ones are dropped and counted, see [Stats].
// [Client.Close] waits for up to a second until all lines are handled.
func WithSlog(log *slog.Logger) Option {
	return clientOption(func(c *config) error {
		if log == nil || log.Handler() == nil { // of a zero Logger
			return invalid("logger", nil, "must not be nil: leave the option out to log nothing")
		}
		c.log = outbox.FromSlog(log)
		return nil
	})
}

// WithLogger is [WithSlog] for a zerolog logger. Lines have the level, context and hooks of log.
func WithLogger(log zerolog.Logger) Option {
	return clientOption(func(c *config) error {
		c.log = log
		return nil
	})
}

// WithObserver has an observer told what happens to the client's locks. Given several
// times, each is told, in the order given. Default none, which costs nothing.
func WithObserver(o Observer) Option {
	return clientOption(func(c *config) error {
		if o == nil {
			return invalid("observer", nil, "must not be nil")
		}
		c.observers = append(c.observers, o)
		return nil
	})
}

// WithUnlockTimeout sets for how long an unlock is tried, over reconnects too,
// before it fails and the entry is left to a later clean-up or to its expiry.
// Default [DefaultUnlockTimeout].
func WithUnlockTimeout(d time.Duration) Option {
	return clientOption(func(c *config) error {
		c.unlockTimeout = d
		if d <= 0 {
			return invalid("unlock timeout", d, "must be positive")
		}
		return nil
	})
}

// WithSessionTimeout sets the session timeout that [Dial] asks ZooKeeper for. It
// decides how soon a dead connection is noticed, two thirds of it, and nothing
// about locks. With [New] it tells what the connection was made with, so that
// TTLs can be checked against it. Default [DefaultSessionTimeout] with Dial,
// unknown with New.
func WithSessionTimeout(d time.Duration) Option {
	return clientOption(func(c *config) error {
		c.sessionTimeout = d
		return checkDuration("session timeout", d, 100*time.Millisecond, maxSessionTimeout)
	})
}

// WithDialer sets how [Dial] opens connections. Default [net.DialTimeout].
func WithDialer(d zk.Dialer) Option {
	return clientOption(func(c *config) error {
		if d == nil {
			return invalid("dialer", nil, "must not be nil")
		}
		c.dialer = d
		return nil
	})
}

// WithTLS has a client made by [Dial] speak TLS to the servers, by their secureClientPort.
// RootCAs are the certificate authorities to trust, and Certificates are the client's own.
// Without a ServerName each server must have a certificate for the name, or the IP address,
// that Dial was given for it.
func WithTLS(cfg *tls.Config) Option {
	return clientOption(func(c *config) error {
		if cfg == nil {
			return invalid("TLS configuration", "nil", "must not be nil: leave the option out for plain text")
		}
		c.tls = cfg.Clone()
		return nil
	})
}
