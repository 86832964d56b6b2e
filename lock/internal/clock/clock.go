package clock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Clock combines this process's clocks with ensemble time, and makes the requests that sample the
// leader's clock. Make one with New. All methods are safe for concurrent use.
type Clock struct {
	Ensemble
	Local func() Instant // reads this process's clocks

	conn  *zkconn.Conn
	root  string
	acl   []zk.ACL
	newID func() string
	asker chan struct{} // buffer of one: a call of Prove puts a token in before it sends a request

	observing sync.Mutex
	session   int64 // session of the last sample; 0: there is none
}

// New returns a clock that samples the leader's clock by writes below root on conn, with nodes that
// have the ACL acl. newID must return a part of a name that no other node has.
func New(conn *zkconn.Conn, root string, acl []zk.ACL, local func() Instant, newID func() string) *Clock {
	return &Clock{Local: local, conn: conn, root: root, acl: acl, newID: newID, asker: make(chan struct{}, 1)}
}

// Observe does what [Ensemble.Observe] does. But it drops the sample if there was a time without a
// session since the request was sent, because the sample's session is then unknown. If the session
// has changed since the last sample, Observe first calls newSession.
func (c *Clock) Observe(zxid, mtime int64, sent, received Instant) {
	c.observing.Lock()
	defer c.observing.Unlock()
	session := c.conn.Session()
	if sent.Mono < c.conn.LastLost() {
		return
	}
	if c.session != 0 && c.session != session {
		c.newSession()
	}
	c.session = session
	c.Ensemble.Observe(zxid, mtime, sent, received)
}

// Mono returns this process's monotonic time, see [Instant].
func (c *Clock) Mono() time.Duration { return c.Local().Mono }

// Now returns the present knowledge of ensemble time.
func (c *Clock) Now() znode.Now { return c.Ensemble.Now(c.Local()) }

// Millis returns the upper bound of the leader's clock at an instant, in Unix milliseconds, for
// people to read; 1 if it is unknown.
func (c *Clock) Millis(at Instant) int64 {
	now := c.Ensemble.Now(at)
	if now.Zxid == 0 {
		return 1
	}
	return now.Upper.Milliseconds()
}

// Sample samples the leader's clock, with a transaction that leaves nothing behind. It fails with
// ErrDenied if the root's ACL or a quota forbids that, and with zk.ErrNoNode if there is no root.
func (c *Clock) Sample(ctx context.Context) error {
	node := c.root + "/clock-" + c.newID()
	err := c.conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		sent := c.Local()
		replies, err := c.conn.Multi(ctx,
			&zk.CreateRequest{Path: node, Acl: c.acl},
			&zk.SetDataRequest{Path: node, Version: 0},
			&zk.DeleteRequest{Path: node, Version: 1})
		if err == nil {
			c.Observe(replies[1].Stat.Mzxid, replies[1].Stat.Mtime, sent, c.Local())
		}
		return err
	})
	switch {
	case err == nil || zkconn.OutcomeOf(err) != zkconn.Refused || errors.Is(err, zkconn.ErrClosed) || errors.Is(err, zkconn.ErrUnsupported):
		return err
	case errors.Is(err, zk.ErrNoNode):
		return zk.ErrNoNode
	}
	err = fmt.Errorf("learn ensemble time by a write below %s: %w", c.root, err)
	if errors.Is(err, zk.ErrNoAuth) {
		return fmt.Errorf("%w: %w", zkconn.ErrDenied, err)
	}
	return refused{err}
}

// refused matches ErrDenied, and does not say so: a quota is no denial.
type refused struct{ error }

func (r refused) Unwrap() error        { return r.error }
func (r refused) Is(target error) bool { return target == zkconn.ErrDenied }

// Refused reports whether err is that of a sample that the servers refused, and not because of an ACL.
func Refused(err error) bool { return errors.As(err, new(refused)) }

// Outdated reports whether the request of the last sample is older than the last outage. The
// servers may have lost their data in the outage, so no verdict may depend on that sample.
func (c *Clock) Outdated() bool {
	_, sampled := c.Sampled()
	return sampled < c.conn.LastOutage()
}

// Prove gets the missing proof for an unproven verdict: a later sample, or the mark of the epoch
// (see [Ensemble.ObserveMark]). The verdict was on the write of the transaction mzxid, with the
// knowledge knew. Concurrent calls share one request. Prove fails like Sample, and if ctx ends.
func (c *Clock) Prove(ctx context.Context, knew znode.Now, mzxid int64) error {
	select {
	case c.asker <- struct{}{}:
		defer func() { <-c.asker }()
	case <-ctx.Done():
		return zkconn.ContextError(ctx)
	}
	now := c.Now()
	switch {
	case now.Zxid > knew.Zxid || now.Marked != knew.Marked: // another call has got a proof meanwhile
		return nil
	case knew.Zxid != 0 && mzxid < knew.Term && !knew.Marked && !c.Outdated():
		return c.mark(ctx)
	}
	return c.Sample(ctx)
}

// mark reads the epoch's mark, see [Ensemble.ObserveMark]. If no client has written the mark in
// this epoch, this client writes the mark, so that clients that run only briefly can read it. If an
// ACL forbids that, this process's own first sample takes the place of the mark.
func (c *Clock) mark(ctx context.Context) error {
	path := c.root + "/" + znode.EpochMark
	exists := func() (*zk.Stat, error) { return c.conn.Exists(ctx, path) }
	read := exists
	for try := 0; ; try++ {
		stat, err := read()
		switch {
		case errors.Is(err, zk.ErrNoNode):
			stat = nil
		case errors.Is(err, zk.ErrNoAuth): // a client with other credentials has created it
			c.doWithoutMark(path, err)
			return nil
		case err != nil:
			return err
		case znode.Epoch(stat.Mzxid) > znode.Epoch(c.Now().Zxid): // a newer leader leads: the sample is old
			return c.Sample(ctx)
		case znode.Epoch(stat.Mzxid) == znode.Epoch(c.Now().Zxid):
			c.ObserveMark(stat.Mzxid, stat.Mtime)
			return nil
		}
		err = c.writeMark(ctx, path, stat)
		switch {
		case err == nil:
			return nil
		case zkconn.OutcomeOf(err) != zkconn.Refused || errors.Is(err, zkconn.ErrClosed):
			return err
		case try < 3 && (errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode)):
			// Another client was quicker, and this client's server may lag behind.
			read = func() (*zk.Stat, error) { return zkconn.Synced(ctx, c.conn, path, exists) }
		default:
			c.doWithoutMark(path, err)
			return nil
		}
	}
}

func (c *Clock) doWithoutMark(path string, why error) {
	c.Log.Debug().Err(why).Str("path", path).Msg("the mark of ZooKeeper's epoch cannot be read or written: entries from before a change of the leader are judged by this process's own first sample")
	c.ObserveMark(0, 0)
}

// writeMark writes the mark on the version that was read; seen is nil if there was no mark. If
// several clients write at the same time, only one succeeds. The reply is also a sample.
func (c *Clock) writeMark(ctx context.Context, path string, seen *zk.Stat) error {
	data := znode.Parent{Kind: znode.Mark}.Encode()
	ops := []any{&zk.CreateRequest{Path: path, Data: data, Acl: c.acl}, &zk.SetDataRequest{Path: path, Data: data, Version: 0}}
	if seen != nil {
		ops = []any{&zk.SetDataRequest{Path: path, Data: data, Version: seen.Version}}
	}
	return c.conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		sent := c.Local()
		replies, err := c.conn.Multi(ctx, ops...)
		if err == nil {
			stat := replies[len(replies)-1].Stat
			c.Observe(stat.Mzxid, stat.Mtime, sent, c.Local())
			c.ObserveMark(stat.Mzxid, stat.Mtime)
		}
		return err
	})
}
