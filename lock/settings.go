package lock

import (
	cryptorand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// config has all settings of a Client.
type config struct {
	root           string
	policy         Policy   // policy of all locks if policies is nil
	policySet      bool     // an option has set a field of policy
	policies       Policies // nil: policy applies
	acl            []zk.ACL
	further        []zk.ACL // further users with rights on new nodes
	digests        []string // "user:password"
	owner, host    string
	metadata       map[string]string
	log            zerolog.Logger
	observers      []Observer
	unlockTimeout  time.Duration
	sessionTimeout time.Duration // 0: unknown, with a borrowed connection
	dialer         zk.Dialer
	tls            zkconn.TLS  // nil: plain text
	sasl           zkconn.SASL // nil: none
	saslACL        []zk.ACL    // ACL of nodes if sasl is set, unless an option gives one
	follow         bool        // follow the ensemble's dynamic reconfiguration
	unsafeServer   bool        // accept a server that the check refuses
	now            func() clock.Instant
	random         *rand.Rand // safe for concurrent use
	inFlight       int        // shared transactions in flight at once; 0: as many as package zkconn allows
}

// settings has all settings of one lock.
type settings struct {
	Policy
	metadata map[string]string
}

func (s *settings) terms() lease.Terms {
	return lease.Terms{TTL: s.TTL, Grace: s.Grace, MaxHold: s.MaxHold, Metadata: s.metadata}
}

func init() {
	access.UseMachine = func(m access.Machine) any {
		return clientOption(func(c *config) error {
			c.now = func() clock.Instant {
				mono, wall := m.Clock()
				return clock.Instant{Mono: mono, Wall: wall}
			}
			c.random, c.inFlight = m.Random, m.InFlight
			return nil
		})
	}
}

// systemSource is the system's source of random numbers. A copy of this process that is restored from
// an image shares the state of any generator of the process, and must not draw the same ids. It is
// safe for concurrent use.
type systemSource struct{}

func (systemSource) Uint64() uint64 {
	var b [8]byte
	_, _ = cryptorand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}

// newConfig returns the defaults, changed by the options. It fails if an option is not allowed.
func newConfig(opts []Option) (*config, error) {
	c := &config{
		root:          DefaultRoot,
		owner:         filepath.Base(os.Args[0]),
		log:           zerolog.Nop(),
		unlockTimeout: DefaultUnlockTimeout,
		now:           clock.System(),
		random:        rand.New(systemSource{}),
	}
	if host, err := os.Hostname(); err == nil {
		c.host = host
	}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o.setClient(c); err != nil {
			return nil, err
		}
	}
	if c.policies != nil && c.policySet {
		return nil, invalid("options", "WithPolicies with WithTTL or WithGrace",
			"the policies decide; give WithTTL to a single lock to differ from them")
	}
	if c.acl == nil {
		c.acl = c.saslACL
	}
	switch {
	case c.acl == nil && c.further != nil:
		return nil, invalid("options", "WithFurtherUsers", "must be given with WithDigest, WithSASL, WithSASLDigest or WithACL: else every user has all rights")
	case c.acl == nil:
		c.acl = zk.WorldACL(zk.PermAll)
	}
	c.acl = slices.Concat(c.acl, c.further)
	c.policy = c.policy.WithDefaults()
	return c, c.policy.Validate()
}

func (c *config) policyOf(name string) Policy {
	if c.policies == nil {
		return c.policy
	}
	return c.policies.Policy(name).WithDefaults()
}

// settingsFor returns the settings of the named lock: its policy, changed by the options. It fails
// if the name or an option is not allowed.
func (c *config) settingsFor(name string, opts []LockOption) (settings, error) {
	s := settings{Policy: c.policyOf(name), metadata: c.metadata}
	if err := znode.CheckName(name); err != nil {
		return s, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o.setLock(&s); err != nil {
			return s, fmt.Errorf("lock %q: %w", name, err)
		}
	}
	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("lock %q: %w", name, err)
	}
	return s, nil
}
