package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Client is what many locks share: a connection to ZooKeeper, the estimate of
// its leader's clock, the renewals and the identity of this process. Make one
// for a service with [Dial] or [New]. All methods are safe for concurrent use.
type Client struct {
	cfg      *config
	pid      int
	conn     *conn
	clock    ensembleClock
	renewals *renewer
	stats    stats

	open  context.Context // ends when the client closes; its cause is ErrClosed
	shut  context.CancelCauseFunc
	tasks group // what goes on in the background
	once  sync.Once
	done  error // of Close

	mu     sync.Mutex
	spots  map[string]*spot
	strays map[string]instant // ids of entries that should not be there, and since when
	warned map[time.Duration]bool
}

type stats struct {
	lost, requeued, purged, renewals atomic.Uint64
}

// Stats are what a client has counted since it was made.
type Stats struct {
	Holds         int    // alive now, waiters not included
	Waiters       int    // queued now
	Renewals      uint64 // entries written again: renewals, and grants recorded
	Lost          uint64 // holds that ended before they were unlocked
	Requeued      uint64 // times a waiter found its own entry gone and queued again
	Purged        uint64 // expired entries of others deleted
	Displacements uint64 // times the ZooKeeper leader's clock was seen to step
}

// Dial connects to a ZooKeeper ensemble and returns a client once there is a
// session. It fails when ctx ends first. The client owns the connection and
// closes it. Servers are as for [ParseServer].
func Dial(ctx context.Context, servers []string, opts ...Option) (*Client, error) {
	cfg, err := newConfig(opts)
	switch {
	case err != nil:
		return nil, err
	case ctx == nil:
		return nil, invalid("context", nil, "must not be nil")
	case len(servers) == 0:
		return nil, invalid("servers", servers, "must not be empty")
	}
	addresses := make([]string, len(servers))
	for i, s := range servers {
		if addresses[i], err = ParseServer(s); err != nil {
			return nil, invalid("server", fmt.Sprintf("%q", s), "%v", err)
		}
	}
	if cfg.sessionTimeout == 0 {
		cfg.sessionTimeout = DefaultSessionTimeout
	}
	conn, err := dial(ctx, addresses, cfg)
	if err != nil {
		return nil, err
	}
	return newClient(cfg, conn), nil
}

// New returns a client on a connection that the service has already. The
// caller keeps owning it and closes it after the client. Its credentials are the
// caller's to add; the buffering and the bounded handshake that [Dial] gives its
// connections are missing.
func New(z *zk.Conn, opts ...Option) (*Client, error) {
	if z == nil {
		return nil, invalid("connection", nil, "must not be nil")
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if len(cfg.digests) > 0 || cfg.dialer != nil {
		return nil, invalid("option", "WithDigest or WithDialer",
			"is for Dial; here the connection is the caller's: use zk.Conn.AddAuth and WithACL, or zk.WithDialer")
	}
	return newClient(cfg, borrow(z, cfg)), nil
}

func newClient(cfg *config, conn *conn) *Client {
	c := &Client{
		cfg: cfg, pid: os.Getpid(), conn: conn,
		spots: map[string]*spot{}, strays: map[string]instant{}, warned: map[time.Duration]bool{},
	}
	c.clock.log = cfg.log
	c.renewals = newRenewer(c)
	c.open, c.shut = context.WithCancelCause(context.Background())
	c.background(func() { c.renewals.run(c.open) })
	return c
}

// Close ends what the client still has: calls return [ErrClosed], the contexts
// of holds end with it, and their entries and those of waiters are deleted, as
// far as that can be done within the unlock timeout; what remains expires. It
// closes a connection made by [Dial]. Later calls return what the first did.
//
// Holds end at once and others may enter: unlock before, or let the contexts end
// your work.
func (c *Client) Close() error {
	if c.zero() {
		return nil
	}
	c.once.Do(func() {
		c.shut(ErrClosed) // the renewer ends the holds
		idle := c.tasks.close()
		if !waitFor(idle, c.cfg.unlockTimeout) {
			c.done = fmt.Errorf("close: entries could not be deleted within %v and are left to expire", c.cfg.unlockTimeout)
		}
		c.done = errors.Join(c.done, c.conn.close(c.cfg.unlockTimeout))
		<-idle // without a connection nothing is left to wait for
	})
	return c.done
}

// Stats returns what the client has counted.
func (c *Client) Stats() Stats {
	if c.zero() {
		return Stats{}
	}
	s := Stats{
		Renewals: c.stats.renewals.Load(), Lost: c.stats.lost.Load(),
		Requeued: c.stats.requeued.Load(), Purged: c.stats.purged.Load(),
	}
	for _, e := range c.renewals.entries() {
		if e.isHeld() {
			s.Holds++
		} else {
			s.Waiters++
		}
	}
	c.clock.mu.Lock()
	s.Displacements = c.clock.displacements
	c.clock.mu.Unlock()
	return s
}

// zero reports whether the client is nil or was not made by Dial or New.
func (c *Client) zero() bool { return c == nil || c.cfg == nil }

// path is the node of the named lock.
func (c *Client) path(name string) string { return c.cfg.root + "/" + name }

// newID returns a random id for a node.
func (c *Client) newID() string { return znode.FormatID(c.cfg.random.Uint64()) }

// session is the session that the connection has now.
func (c *Client) session() int64 { return c.conn.zk.SessionID() }

func (c *Client) now() instant { return c.cfg.now() }

// ensembleMillis is the latest that the leader's clock may show, for people to
// read; 1 if nothing is known of it.
func (c *Client) ensembleMillis(now instant) int64 {
	w, zxid := c.clock.at(now)
	if zxid == 0 {
		return 1
	}
	return w.upper.Milliseconds()
}

// background runs f, and Close waits for it. It does nothing once all has been
// waited for.
func (c *Client) background(f func()) {
	if !c.tasks.enter() {
		return
	}
	go func() {
		defer c.tasks.leave()
		f()
	}()
}

// bind returns a context that ends with ctx, and when the client closes. If nobody can
// want to give up, a call that has begun is waited for even then.
func (c *Client) bind(ctx context.Context) (context.Context, func()) {
	if ctx.Done() == nil {
		return inPlace{c.open}, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.open, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// remember notes that an entry with that id should not be there: its create got
// lost, or it was seen to be gone. Should it appear, whoever lists deletes it.
func (c *Client) remember(id string) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, since := range c.strays {
		if now.mono-since.mono > time.Hour {
			delete(c.strays, id)
		}
	}
	c.strays[id] = now
}

// straysAmong returns those that should not be there.
func (c *Client) straysAmong(names []znode.Name) []znode.Name {
	c.mu.Lock()
	defer c.mu.Unlock()
	var strays []znode.Name
	for _, n := range names {
		if _, stray := c.strays[n.ID]; stray && len(c.strays) > 0 {
			strays = append(strays, n)
		}
	}
	return strays
}

// warnStarved logs once for each TTL that a stalled connection would cost a hold
// of that TTL: go-zookeeper notices a dead connection after two thirds of the
// session timeout, and a renewal is due every third of the TTL.
func (c *Client) warnStarved(lock string, ttl time.Duration) {
	if ttl >= c.cfg.sessionTimeout {
		return
	}
	c.mu.Lock()
	warned := c.warned[ttl]
	c.warned[ttl] = true
	c.mu.Unlock()
	if !warned {
		c.cfg.log.Warn().Str("lock", lock).Stringer("ttl", ttl).Stringer("session_timeout", c.cfg.sessionTimeout).
			Stringer("dead_connection_noticed_after", c.cfg.sessionTimeout*2/3).Stringer("left_of_ttl_at_a_renewal", ttl*2/3).
			Msg("the TTL is shorter than the session timeout: a connection that stalls will cost holds of this lock; raise the one or lower the other")
	}
}

// sample takes a sample of the leader's clock for its own sake, by a transaction
// that leaves nothing behind. It fails with ErrDenied where the root's ACL does
// not let us, and with zk.ErrNoNode where there is no root.
func (c *Client) sample(ctx context.Context) error {
	node := c.cfg.root + "/clock-" + c.newID()
	for wait := c.cfg.newBackoff(20*time.Millisecond, time.Second); ; {
		sent := c.now()
		replies, err := c.conn.multi(ctx, nil,
			&zk.CreateRequest{Path: node, Acl: c.cfg.acl},
			&zk.SetDataRequest{Path: node, Version: 0},
			&zk.DeleteRequest{Path: node, Version: 1})
		switch {
		case err == nil:
			c.clock.observe(replies[1].Stat.Mzxid, replies[1].Stat.Mtime, sent, c.now())
			return nil
		case errors.Is(err, zk.ErrNoNode):
			return zk.ErrNoNode
		case outcomeOf(err) == refused:
			return fmt.Errorf("%w: learn ensemble time by a write below %s: %w", ErrDenied, c.cfg.root, err)
		}
		if err := wait.sleep(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// learnTime sees to it that there is a sample of the leader's clock, where that
// is not denied.
func (c *Client) learnTime(ctx context.Context) error {
	for !c.clock.known() {
		err := c.sample(ctx)
		switch {
		case errors.Is(err, ErrDenied):
			c.cfg.log.Debug().Err(err).Msg("entries tell no expiry until their first renewal")
			return nil
		case errors.Is(err, zk.ErrNoNode):
			err = c.makeAncestors(ctx, c.cfg.root+"/")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeAncestors makes the nodes above path that are missing, each marked as ours.
func (c *Client) makeAncestors(ctx context.Context, path string) error {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if err := c.makeDir(ctx, path[:i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) makeDir(ctx context.Context, path string) error {
	if _, err := c.conn.get(ctx, path); !errors.Is(err, zk.ErrNoNode) {
		if errors.Is(err, zk.ErrNoAuth) {
			return nil // it is there
		}
		return err
	}
	for wait := c.cfg.newBackoff(20*time.Millisecond, time.Second); ; {
		_, err := c.conn.multi(ctx, nil, &zk.CreateRequest{
			Path: path, Data: znode.Parent{Kind: znode.Dir}.Encode(), Acl: c.cfg.acl,
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists),
			errors.Is(err, zk.ErrNoNode): // its own parent was pruned meanwhile; the caller tries again
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			return fmt.Errorf("%w: create %s: the ACL of the node above does not let us", ErrDenied, path)
		case errors.Is(err, zk.ErrNoChildrenForEphemerals):
			return fmt.Errorf("%w: %s: the node above is ephemeral and cannot have children", ErrForeign, path)
		case outcomeOf(err) == refused:
			return fmt.Errorf("create %s: %w", path, err)
		}
		if err := wait.sleep(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}
