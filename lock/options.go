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
	"github.com/holdfast-io/holdfast/lock/internal/rule"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Defaults of a client.
const (
	// DefaultRoot is the node below which the locks are.
	DefaultRoot = "/locks"
	// DefaultSessionTimeout is the session timeout that [Dial] requests from ZooKeeper.
	DefaultSessionTimeout = 10 * time.Second
	// DefaultUnlockTimeout is the longest time for which an unlock is retried.
	DefaultUnlockTimeout = 10 * time.Second

	// maxSessionTimeout is the longest session timeout that go-zookeeper can send: an int32 of
	// milliseconds.
	maxSessionTimeout = math.MaxInt32 * time.Millisecond
)

// Option configures a [Client]. [Dial] and [New] fail with [ErrInvalid] if an option is not allowed.
type Option interface{ setClient(*config) error }

// LockOption configures a lock of any kind. If it is not allowed, the lock's Validate and each use of
// the lock return an [ErrInvalid]. Each LockOption is also an [Option]: for a client it sets the default
// of its locks. What only one kind of lock has is a method of that kind: [Mutex.WithBarging],
// [Election.WithPriority].
type LockOption interface {
	Option
	setLock(*settings) error
}

// WithDefaults applies the options to all locks of the client, as if each were given to the client.
func WithDefaults(opts ...LockOption) Option {
	return clientOption(func(c *config) error {
		for _, o := range opts {
			if o == nil {
				continue
			}
			if err := o.setClient(c); err != nil {
				return err
			}
		}
		return nil
	})
}

type clientOption func(*config) error

func (o clientOption) setClient(c *config) error { return o(c) }

type lockOption struct {
	clientOption
	lock func(*settings) error
}

func (o lockOption) setLock(s *settings) error { return o.lock(s) }

// policyOption returns an option that sets a part of the policy, and reports err if it is invalid.
func policyOption(set func(*Policy), err error) LockOption {
	return lockOption{
		func(c *config) error {
			set(&c.policy)
			c.policySet = true
			return err
		},
		func(s *settings) error {
			set(&s.Policy)
			return err
		},
	}
}

// WithRoot sets the node below which the locks are, an absolute path. It is created if it is
// missing. Default [DefaultRoot].
func WithRoot(path string) Option {
	return clientOption(func(c *config) error {
		c.root = path
		if err := znode.CheckRoot(path); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return nil
	})
}

// WithTTL sets the TTL: the time that a lock outlives its holder's last renewal. After the TTL and
// the grace, another client may enter. The TTL is at least [MinTTL] and at most the policy's
// MaxTTL, in whole milliseconds. Default [DefaultTTL].
func WithTTL(ttl time.Duration) LockOption {
	return policyOption(func(p *Policy) { p.TTL = ttl }, checkDuration("ttl", ttl, MinTTL, MaxTime))
}

// WithGrace sets the grace: the time that other clients wait after a lease has expired before they
// delete the entry. All clients of a lock should use the same grace. It must be longer than any
// step of the clock of one ZooKeeper leader; the clocks of different leaders may differ by more. It
// is at least [MinGrace], in whole milliseconds. Default [DefaultGrace].
func WithGrace(grace time.Duration) Option {
	return clientOption(func(c *config) error {
		c.policy.Grace, c.policySet = grace, true
		return checkDuration("grace", grace, MinGrace, MaxTime)
	})
}

// WithPolicies takes the policy of each lock from p. The options WithTTL, WithGrace,
// WithMaxHold and WithLocalWindow are then refused for the client, but not for a lock.
func WithPolicies(p Policies) Option {
	return clientOption(func(c *config) error {
		if p == nil {
			return invalid("policies", p, "must not be nil")
		}
		c.policies = p
		return nil
	})
}

// WithACL sets the ACL of the nodes that the client creates. Default world:anyone with all
// permissions, or the ACL of [WithDigest], [WithSASL] or [WithSASLDigest]. The client's own
// credentials need READ, WRITE, CREATE and DELETE. The anchor of a lock, see the doc of package
// znode, gets one more ACL entry: world:anyone with READ. The anchor has no data of holders.
func WithACL(acl ...zk.ACL) Option {
	return clientOption(func(c *config) error {
		if len(acl) == 0 {
			return invalid("acl", acl, "must not be empty")
		}
		c.acl = slices.Clone(acl)
		return nil
	})
}

// WithDigest authenticates a client made by [Dial] with ZooKeeper's digest scheme. The nodes that
// the client creates belong to that user alone, unless [WithACL] says otherwise. If WithDigest is
// given several times, the nodes belong to the first user. A user with a colon is refused.
func WithDigest(user, password string) Option {
	return clientOption(func(c *config) error {
		if user == "" || password == "" {
			return invalid("digest user", fmt.Sprintf("%q", user), "user and password must not be empty")
		}
		if strings.Contains(user, ":") { // the server would take the rest for the password
			return invalid("digest user", fmt.Sprintf("%q", user), "must not have a colon")
		}
		c.digests = append(c.digests, user+":"+password)
		if c.acl == nil {
			c.acl = zk.DigestACL(zk.PermAll, user, password)
		}
		return nil
	})
}

// WithFurtherUsers gives further users rights on the nodes that the client creates, beside those of
// [WithDigest], [WithSASL], [WithSASLDigest] or [WithACL]. Use it to replace a password without
// denials, see SECURING.md. The client does not authenticate as these users. Without one of these other
// options every user has all rights already, and WithFurtherUsers is refused.
func WithFurtherUsers(acl ...zk.ACL) Option {
	return clientOption(func(c *config) error {
		if len(acl) == 0 {
			return invalid("further users", acl, "must not be empty")
		}
		c.further = append(c.further, acl...)
		return nil
	})
}

// WithOwner sets the owner in entries, beside host and process id: at most 256 bytes of UTF-8.
// Default the name of the program.
func WithOwner(name string) Option {
	return clientOption(func(c *config) error {
		c.owner = name
		if err := znode.CheckOwner(name); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return nil
	})
}

// WithMetadata adds pairs to the metadata in entries. The pairs of a lock are added to the pairs of
// its client: together at most 64 pairs and 4 KiB. The key "election.value" is refused: that key
// marks the entry of a candidate.
func WithMetadata(m map[string]string) LockOption {
	m = maps.Clone(m)
	add := func(to *map[string]string) error {
		if _, taken := m[znode.ValueKey]; taken {
			return invalid("metadata", fmt.Sprintf("%q", znode.ValueKey), "is the key of a candidate's value in an Election: pass the value to Campaign")
		}
		merged := m // locks with the same option share the map, which is never changed
		if len(*to) > 0 {
			merged = maps.Clone(*to)
			maps.Copy(merged, m)
		}
		*to = merged
		if err := znode.CheckMetadata(merged); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return nil
	}
	return lockOption{
		func(c *config) error { return add(&c.metadata) },
		func(s *settings) error { return add(&s.metadata) },
	}
}

// WithMaxHold limits the time of one hold, renewals and [Hold.Extend] included. After d the hold ends
// with [ErrMaxHold]. If the policy has a MaxHold too, the shorter one counts. d is at least the TTL,
// and at most [MaxTime]; 0 sets no limit. Default: the policy's.
//
// The hold is renewed until then, so after a crash its lease blocks others for up to the TTL and the
// grace from its last renewal, which may be past d. [Hold.AtRisk] warns of each hold that comes near
// its limit.
func WithMaxHold(d time.Duration) LockOption {
	return policyOption(func(p *Policy) {
		if p.MaxHold == 0 || d != 0 && d < p.MaxHold {
			p.MaxHold = d
		}
	}, checkDuration("max_hold", d, 0, MaxTime))
}

// WithSlog sets the client's logger, with the levels debug, info, warn and error. By default the
// client does not log. If WithSlog and [WithLogger] are both given, the last one counts. The
// client never waits for the logger: a goroutine calls the handler, with a context without
// values. If the handler blocks, up to 1,024 lines wait; further ones are dropped and counted,
// see [Stats]. [Client.Close] waits up to a second until all lines are handled.
func WithSlog(log *slog.Logger) Option {
	return clientOption(func(c *config) error {
		if log == nil || log.Handler() == nil { // a zero slog.Logger has no handler
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

// WithObserver adds an observer of the client's locks. If it is given several times, the observers
// receive each event in the order given. Default none, at no cost.
func WithObserver(o Observer) Option {
	return clientOption(func(c *config) error {
		if o == nil {
			return invalid("observer", nil, "must not be nil")
		}
		c.observers = append(c.observers, o)
		return nil
	})
}

// WithUnlockTimeout sets the longest time for which an unlock is retried, also over reconnects.
// Then Unlock fails, and the entry is deleted later or expires. At most [MaxTime]. Default
// [DefaultUnlockTimeout].
func WithUnlockTimeout(d time.Duration) Option {
	return clientOption(func(c *config) error {
		c.unlockTimeout = d
		switch {
		case d <= 0:
			return invalid("unlock timeout", d, "must be positive")
		case d > MaxTime:
			return invalid("unlock timeout", d, "must be at most %v", MaxTime)
		}
		return nil
	})
}

// WithSessionTimeout sets the session timeout that [Dial] requests from ZooKeeper, at least 100 ms.
// The client notices a dead connection after two thirds of the session timeout. Locks do not depend
// on it. With [New] the option states the session timeout of the given connection, so that the
// client can warn of a TTL that is too short. Default [DefaultSessionTimeout] with Dial, unknown
// with New.
func WithSessionTimeout(d time.Duration) Option {
	return clientOption(func(c *config) error {
		c.sessionTimeout = d
		return checkDuration("session timeout", d, 100*time.Millisecond, maxSessionTimeout)
	})
}

// WithDialer sets the function with which [Dial] opens connections. Default [net.DialTimeout].
func WithDialer(d zk.Dialer) Option {
	return clientOption(func(c *config) error {
		if d == nil {
			return invalid("dialer", nil, "must not be nil")
		}
		c.dialer = d
		return nil
	})
}

// WithTLS makes a client of [Dial] use TLS, on the servers' secureClientPort. RootCAs are the
// certificate authorities to trust; Certificates are the client's own. If ServerName is empty, each
// server's certificate must match the name or IP address that Dial was given for it.
func WithTLS(cfg *tls.Config) Option {
	return clientOption(func(c *config) error {
		if cfg == nil {
			return invalid("TLS configuration", "nil", "must not be nil: leave the option out for plain text")
		}
		cfg := cfg.Clone()
		c.tls = func() (*tls.Config, error) { return cfg, nil }
		return nil
	})
}

// WithTLSSource is [WithTLS] for certificates and authorities that are replaced while the process
// runs: get is called for each connection, before its TLS handshake, and must not block for long. If
// get returns nil, the attempt to connect fails with its error. If get returns a configuration and
// an error, the client uses the configuration, and tells the error if the handshake fails. get may
// be called concurrently, and must not change a configuration that it has returned.
func WithTLSSource(get func() (*tls.Config, error)) Option {
	return clientOption(func(c *config) error {
		if get == nil {
			return invalid("source of TLS configurations", "nil", "must not be nil: leave the option out for plain text")
		}
		c.tls = get
		return nil
	})
}

// WithReconfiguration makes a client of [Dial] follow ZooKeeper's dynamic reconfiguration (3.5 or
// later). By default a client knows only the servers given to Dial.
//
// The client reads /zookeeper/config, and from then on connects to the servers listed there,
// observers included. It tries the servers given to Dial only if none of the listed ones answers.
// If the connected server is removed from the list, the client connects to another one. The session
// goes on, and holds are not affected. The requirements:
//
//   - Each line has an address for clients (server.1=host:2888:3888;2181), and this client can
//     reach it. So do not use this option behind a load balancer or a tunnel.
//   - Certificates and Kerberos principals match the host names in these lines. Otherwise only the
//     servers given to Dial can be used, and each connection takes some seconds more.
//   - With [WithTLS] and servers before ZooKeeper 3.10, all servers use the same TLS port: that of
//     the servers given to Dial.
//
// If a line lacks the address, the server is standalone or too old, or an ACL forbids the read, the
// client logs one warning and keeps the servers that it knows.
func WithReconfiguration() Option {
	return clientOption(func(c *config) error {
		c.follow = true
		return nil
	})
}

// WithLocalWindow sets the time from an entry's grant for which goroutines of this client hand it
// off among themselves: see [Policy]. The goroutines must request the same lock with the same
// settings. A local handoff costs no request, and the next hold has its own token. After that time,
// and always with [NoLocalWindow], Unlock deletes the entry, and the same transaction creates the next
// goroutine's entry, at the end of the queue. Default [DefaultLocalWindow].
//
// A hold is never handed off locally if it
//
//   - is for reading, or a [Leadership],
//   - was extended or downgraded,
//   - has a [Hold.Ticket], or
//   - got a request by [Client.Revoke].
//
// Unless the policy has a max_hold, readers of an [RWMutex] share an entry if they wait when the
// entry is granted, or arrive within the window. Each reader has a hold of its own. [Stats] and
// observers count each of these holds.
func WithLocalWindow(d time.Duration) LockOption {
	var err error
	if broken := rule.Window(d); broken != "" {
		err = invalid("local_window", d, "%s", broken)
	}
	return policyOption(func(p *Policy) { p.LocalWindow = d }, err)
}

// WithUnsafeServer makes [Dial] accept, at your own risk, a server that it would refuse with
// [ErrUnsupported], because the server lacks behavior that the protocol requires. A lock may then
// have two holders at once, or no client may be able to take it. The client logs the server's
// defect as a warning.
func WithUnsafeServer() Option {
	return clientOption(func(c *config) error {
		c.unsafeServer = true
		return nil
	})
}
