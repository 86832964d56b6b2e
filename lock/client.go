package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/outbox"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/revoke"
	"github.com/holdfast-io/holdfast/lock/internal/servercheck"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Largest numbers of log lines and of events that wait for delivery. Further lines and events are
// dropped. A client with very many holds may cause thousands of events at once.
const (
	mostLines  = 1 << 10
	mostEvents = 1 << 16
	// flushTimeout is the longest time that Close, or a Dial that fails, waits for the delivery.
	flushTimeout = time.Second
)

// Client connects to ZooKeeper and takes locks. It has the connection, the estimate of the leader's
// clock, the renewals of all holds, and the identity of this process. Make one for a process with
// [Dial] or [New], share it, and call [Client.Close] at the end. All methods are safe for
// concurrent use. Methods of a nil or zero Client panic, as do those of a nil or zero [Hold].
type Client struct {
	cfg    *config
	conn   *zkconn.Conn
	clock  *clock.Clock
	keeper *lease.Keeper
	queue  *queue.Queue
	revoke *revoke.Requests
	lost   atomic.Uint64  // Stats.Lost
	logs   *outbox.Outbox // lines for cfg.log
	events *outbox.Outbox // events for the observers
	outage outage

	open    context.Context // ends when the client closes; its cause is zkconn.ErrClosing
	shut    context.CancelCauseFunc
	tasks   zkconn.Tasks  // calls and background goroutines
	closing atomic.Bool   // Close was called
	closed  chan struct{} // closed at the end of Close
	done    error         // result of Close

	mu        sync.Mutex
	warnedTTL time.Duration // the last TTL that warnStarved has logged; 0: none
}

// Dial connects to a ZooKeeper ensemble and returns a client once there is a session. The client
// owns the connection; [Client.Close] closes it.
//
// A server is host or host:port. The default port is 2181, and an IPv6 address is in brackets. A
// chroot is refused: put it into the root ([WithRoot]). There must be at least one server.
//
// Dial waits for servers that cannot be reached, or whose names cannot be resolved. After three
// seconds it logs the unreachable servers, once. If ctx ends first, Dial fails with
// [ErrUnavailable]; without a deadline it waits forever. It fails with [ErrDenied] if the servers
// refuse the SASL credentials, and with [ErrInvalid] if an argument or an option is not allowed.
//
// Then one transaction checks that the server counts and replies as ZooKeeper does. If the server
// does not, Dial fails with [ErrUnsupported]. The transaction leaves nothing behind. It is also the
// first sample of the leader's clock.
func Dial(ctx context.Context, servers []string, opts ...Option) (*Client, error) {
	cfg, err := newConfig(opts)
	switch {
	case err != nil:
		return nil, err
	case len(servers) == 0:
		return nil, invalid("servers", servers, "must not be empty")
	}
	if err := checkContext(ctx, "connect to", servers[0]); err != nil {
		return nil, err
	}
	addresses := make([]string, len(servers))
	for i, s := range servers {
		if addresses[i], err = zkconn.ParseServer(s); err != nil {
			return nil, invalid("server", fmt.Sprintf("%q", zkconn.ShowServer(s)), "%v", err)
		}
	}
	if cfg.sessionTimeout == 0 {
		cfg.sessionTimeout = DefaultSessionTimeout
	}
	c := newClient(cfg)
	if c.conn, err = zkconn.Dial(ctx, addresses, c.connConfig()); err != nil {
		c.flush()
		return nil, zkconn.Reveal(err)
	}
	c.start()
	if err := c.checkServer(ctx); err != nil {
		c.shut(zkconn.ErrClosing)
		<-c.tasks.Seal()
		c.conn.Close(0)
		c.flush()
		return nil, zkconn.Reveal(fmt.Errorf("connect to ZooKeeper at %s: %w", strings.Join(addresses, ","), err))
	}
	return c, nil
}

// New returns a client on an existing connection. The caller still owns the connection: the caller
// adds the credentials, and closes the connection after the client. New does not wait for a
// session. It fails with [ErrInvalid] if an option is only for [Dial].
//
// A client made by New lacks the buffered reads, the bounded handshake and the server check of
// Dial. go-zookeeper 1.0.4 waits 6.7 session timeouts for a server that accepts the connection and says
// nothing. If the client misses a reconnection, it notices a lost watch about a minute later. Servers
// that have lost their data keep refusing the connection. After AddAuth, go-zookeeper 1.0.4 never
// connects again if the write fails by which it repeats the credentials on a new connection.
func New(z *zk.Conn, opts ...Option) (*Client, error) {
	if z == nil {
		return nil, invalid("connection", nil, "must not be nil")
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if len(cfg.digests) > 0 || cfg.dialer != nil || cfg.tls != nil || cfg.sasl != nil {
		return nil, invalid("option", "WithDigest, WithSASL, WithDialer or WithTLS",
			"is for Dial; here the connection is the caller's: use zk.Conn.AddAuth and WithACL, or zk.WithDialer")
	}
	if cfg.follow {
		return nil, invalid("option", "WithReconfiguration", "is for Dial; here the caller's connection chooses its servers: use zk.WithHostProvider")
	}
	c := newClient(cfg)
	c.conn = zkconn.Borrow(z, c.connConfig())
	return c.start(), nil
}

// newClient returns a client without a connection.
func newClient(cfg *config) *Client {
	c := &Client{cfg: cfg, closed: make(chan struct{}), logs: outbox.New(mostLines), events: outbox.New(mostEvents)}
	cfg.log = c.logs.Logger(cfg.log) // so that no call waits for the logger
	c.open, c.shut = context.WithCancelCause(context.Background())
	return c
}

func (c *Client) connConfig() zkconn.Config {
	return zkconn.Config{
		Log: c.cfg.log, SessionTimeout: c.cfg.sessionTimeout, Dialer: c.cfg.dialer, TLS: c.cfg.tls, SASL: c.cfg.sasl, Digests: c.cfg.digests, Follow: c.cfg.follow,
		Now: func() time.Duration { return c.cfg.now().Mono }, Random: c.cfg.random, InFlight: c.cfg.inFlight,
		Reconnected: c.reconnected,
		Forgotten:   c.forgotten,
	}
}

// reconnected informs the keeper of a new session or connection. The connection may call it before
// the keeper exists; then it does nothing.
func (c *Client) reconnected() {
	c.mu.Lock()
	keeper := c.keeper
	c.mu.Unlock()
	if keeper != nil {
		keeper.Reconnected()
	}
}

// forgotten informs the clock and the queue that the servers may have lost their data. The
// connection may call it before the clock and the queue exist.
func (c *Client) forgotten() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clock != nil {
		c.clock.Forget()
	}
	if c.queue != nil {
		c.queue.ServersReset()
	}
}

// start creates the parts of the client, each from the parts before it, and runs them.
func (c *Client) start() *Client {
	newID := func() string { return znode.FormatID(c.cfg.random.Uint64()) }
	c.mu.Lock()
	c.clock = clock.New(c.conn, c.cfg.root, c.cfg.acl, c.cfg.now, newID)
	c.clock.Log = c.cfg.log
	c.clock.Displaced = c.displaced
	c.mu.Unlock()
	keeper := lease.NewKeeper(lease.Options{
		Conn: c.conn, Clock: c.clock, Log: c.cfg.log, Background: func(f func()) { c.tasks.Go(f) },
		Who:    znode.Record{Owner: c.cfg.owner, Host: c.cfg.host, PID: os.Getpid()},
		Jitter: c.connConfig().Jitter,
	})
	q := queue.New(queue.Options{
		Conn: c.conn, Clock: c.clock, Keeper: keeper, Log: c.cfg.log, Tasks: &c.tasks, Closing: c.open,
		Root: c.cfg.root, ACL: c.cfg.acl, UnlockTimeout: c.cfg.unlockTimeout, Random: c.cfg.random,
		LossOf: lossOf, Observe: c.entryChanged, Waits: c.waits, Purged: c.purged,
		NotHandedOff: func(e *queue.Entry) { c.ended(e, ErrUnlocked) },
	})
	c.revoke = revoke.New(revoke.Options{
		Conn: c.conn, Log: c.cfg.log, Tasks: &c.tasks, Closing: c.open, Root: c.cfg.root, ACL: c.cfg.acl, Random: c.cfg.random,
		Who: znode.Revocation{Owner: c.cfg.owner, Host: c.cfg.host, PID: os.Getpid()}, Patience: c.cfg.unlockTimeout,
	})
	c.mu.Lock()
	c.keeper, c.queue = keeper, q
	c.mu.Unlock()
	c.tasks.Go(func() { keeper.Run(c.open) })
	c.tasks.Go(c.watchSession)
	return c
}

// Close ends all calls and all holds with [ErrClosed]. It deletes the entries of holds and waiters,
// for at most the unlock timeout and a tenth of a second; the other entries expire. In the same time
// it deletes the nodes of locks that are not used any more; it logs how many it leaves to the reaper.
// It closes a connection made by [Dial]. Then it waits for up to a second until the logger and the observers
// have taken the last lines and events. Close returns an error if entries or requests were left
// over. Each later call waits for the first one, and returns its result.
//
// Close ends the holds first, so other clients may enter while your work still runs. So unlock the
// holds before you call Close, or have the work stop when their contexts end.
func (c *Client) Close() error {
	// Not a sync.Once: the virtual time of testing/synctest stands still while a goroutine waits
	// for a sync.Once.
	if c.closing.Swap(true) {
		<-c.closed
		return c.done
	}
	defer close(c.closed)
	begun := time.Now()
	c.shut(zkconn.ErrClosing) // the keeper ends the holds
	idle := c.tasks.Seal()
	if !zkconn.WaitFor(idle, c.cfg.unlockTimeout) || c.queue.Stats().LeftBehind {
		c.done = fmt.Errorf("close: entries could not be deleted within %v and are left to expire", c.cfg.unlockTimeout)
	}
	c.done = errors.Join(c.done, c.conn.Close(max(0, c.cfg.unlockTimeout-time.Since(begun))))
	c.flush()
	return c.done
}

// flush waits until the logger and the observers have taken all lines and events, for at most
// flushTimeout.
func (c *Client) flush() {
	end := time.Now().Add(flushTimeout)
	c.events.Close(time.Until(end))
	c.logs.Close(max(0, time.Until(end)))
}

// access returns the parts of the client, or zero values for one that was not made by Dial or New.
func (c *Client) access() access.Client {
	if c == nil || c.cfg == nil {
		return access.Client{}
	}
	return access.Client{
		Conn: c.conn, Clock: c.clock, Root: c.cfg.root, Check: c.checker(),
		Owner: c.cfg.owner, Host: c.cfg.host, ACL: c.cfg.acl, Random: c.cfg.random, Log: c.cfg.log,
	}
}

// Stats are a client's present numbers of holds and waiters, and its counters since it was made.
type Stats struct {
	Holds    int    // present holds; each reader that shares an entry counts
	Waiters  int    // goroutines waiting now
	Renewals uint64 // rewrites of entries: renewals, and records of grants
	Lost     uint64 // holds that ended before they were unlocked
	Requeued uint64 // times that a waiter found its entry removed, and queued again
	Purged   uint64 // expired entries of other contenders that this client deleted
	// Displacements counts the detected steps of the ZooKeeper leader's clock. A change to a leader
	// with a different clock counts as a step.
	Displacements uint64
	DroppedLines  uint64 // log lines that the logger did not take in time, because it blocked
	DroppedEvents uint64 // events that the observers did not take in time
}

// Stats returns the client's present numbers and its counters. It asks no server.
func (c *Client) Stats() Stats {
	q := c.queue.Stats()
	s := Stats{Waiters: q.Waiters, Requeued: q.Requeued, Purged: q.Purged, Renewals: c.keeper.Renewals(), Lost: c.lost.Load()}
	s.DroppedLines, s.DroppedEvents = c.logs.Dropped(), c.events.Dropped()
	s.Displacements, _ = c.clock.Displacements()
	for _, e := range c.keeper.Entries() {
		s.Holds += e.Holds()
	}
	return s
}

func (c *Client) checker() servercheck.Checker {
	return servercheck.Checker{
		Conn: c.conn, Clock: c.clock, Root: c.cfg.root, ACL: c.cfg.acl,
		NewID: func() string { return znode.FormatID(c.cfg.random.Uint64()) },
	}
}

// checkServer returns an error if the server lacks behavior that the protocol requires. If the
// server could not be checked, or WithUnsafeServer allows it, checkServer only logs that.
func (c *Client) checkServer(ctx context.Context) error {
	check := c.checker()
	_, err := check.Once(ctx)
	switch {
	case errors.As(err, new(*servercheck.Unchecked)):
		c.cfg.log.Info().AnErr("why", errors.Unwrap(err)).Msg("server not checked: it may lack behavior that the protocol requires")
	case errors.Is(err, ErrUnsupported) && c.cfg.unsafeServer:
		c.cfg.log.Warn().AnErr("why", err).Msg("the server lacks behavior that locks require; going on because WithUnsafeServer allows it")
	default:
		return err
	}
	return nil
}

func init() {
	access.OfClient = func(client any) access.Client { return client.(*Client).access() }
	access.Describe = func(ctx context.Context, hold any, metadata map[string]string) error {
		h := hold.(*Hold)
		if err := h.check(ctx, "describe"); err != nil {
			return err
		}
		return h.e.Describe(ctx, metadata)
	}
	access.HoldOf = func(leadership any) any {
		l := leadership.(*Leadership)
		return &Hold{hold{client: l.client, e: l.e, t: l.t}}
	}
	access.LeadershipOf = func(hold any) any { return &Leadership{&hold.(*Hold).hold} }
	access.OfToken = func(token any) access.Token { return token.(Token).parts }
	access.MakeToken = func(parts access.Token) any { return Token{parts} }
}
