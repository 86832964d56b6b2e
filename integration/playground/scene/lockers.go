package scene

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// The times of the scene. Both sides' sessions last equally long.
const (
	SessionTimeout = 4 * time.Second
	TTL            = 6 * time.Second
	Grace          = time.Second

	lockName = "orders"
	zkParent = "/zk-lock/" + lockName
	hfRoot   = "/locks"
	hfParent = hfRoot + "/" + lockName
)

// A process has a connection to ZooKeeper of its own and takes the lock with it.
type process interface {
	// lock waits its turn.
	lock(ctx context.Context) (hold, error)
	// session is that of its connection; 0 where its nodes are not the session's.
	session() int64
	// end closes the connection.
	end()
}

// A hold is what its holder knows of it.
type hold interface {
	// lost is closed when the holder is told that it holds no more; nil: it never is.
	lost() <-chan struct{}
	// err says why the hold is lost, nil if it is not.
	err() error
	// sure reports whether the holder may act now.
	sure() bool
	// left is for how long the hold lasts for sure; 0 where that is unknown.
	left() time.Duration
	token() string
	unlock() error
}

// zkProcess uses zk.Lock.
type zkProcess struct {
	conn    *zk.Conn
	closing atomic.Bool
	gone    chan struct{} // closed when the connection's events have ended
}

func dialZK(_ context.Context, e *locktest.Ensemble, label string) (process, error) {
	conn, events, err := zk.Connect(e.Servers(), SessionTimeout, zk.WithDialer(e.Dialer(label)), zk.WithLogger(silent{}),
		zk.WithMaxConnBufferSize(64<<10), zk.WithMaxBufferSize(64<<10))
	if err != nil {
		return nil, err
	}
	p := &zkProcess{conn: conn, gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		for range events {
		}
	}()
	return p, nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// lock has no context: what ends it is the end of the connection.
func (p *zkProcess) lock(ctx context.Context) (hold, error) {
	l := zk.NewLock(p.conn, zkParent, zk.WorldACL(zk.PermAll))
	defer context.AfterFunc(ctx, p.close)()
	if err := l.Lock(); err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	return zkHold{l}, nil
}

func (p *zkProcess) session() int64 { return p.conn.SessionID() }

func (p *zkProcess) end() {
	p.close()
	<-p.gone
}

// close closes the connection once. A second Close would wait for the first one in a way
// that stops virtual time.
func (p *zkProcess) close() {
	if p.closing.CompareAndSwap(false, true) {
		p.conn.Close()
	}
}

type zkHold struct{ l *zk.Lock }

func (zkHold) lost() <-chan struct{} { return nil }
func (zkHold) err() error            { return nil }
func (zkHold) sure() bool            { return true } // it cannot be asked
func (zkHold) left() time.Duration   { return 0 }
func (zkHold) token() string         { return "" }
func (h zkHold) unlock() error       { return h.l.Unlock() }

// hfProcess uses Holdfast.
type hfProcess struct{ c *lock.Client }

func dialHoldfast(ctx context.Context, e *locktest.Ensemble, label string) (process, error) {
	c, err := lock.Dial(ctx, e.Servers(), lock.WithDialer(e.Dialer(label)), lock.WithRoot(hfRoot), lock.WithOwner(label),
		lock.WithSessionTimeout(SessionTimeout), lock.WithTTL(TTL), lock.WithGrace(Grace),
		lock.WithUnlockTimeout(2*TTL), lock.WithLogger(zerolog.Nop()))
	if err != nil {
		return nil, err
	}
	return hfProcess{c}, nil
}

func (p hfProcess) lock(ctx context.Context) (hold, error) {
	h, err := p.c.Mutex(lockName).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return hfHold{h}, nil
}

func (p hfProcess) session() int64 { return 0 }

func (p hfProcess) end() {
	// What could not be deleted expires; a process that is killed deletes nothing.
	_ = p.c.Close()
}

type hfHold struct{ h *lock.Hold }

func (h hfHold) lost() <-chan struct{} { return h.h.Context().Done() }
func (h hfHold) err() error            { return h.h.Err() }
func (h hfHold) sure() bool            { return h.h.Remaining() > 0 }
func (h hfHold) left() time.Duration   { return h.h.Remaining() }
func (h hfHold) token() string         { return h.h.Token().String() }
func (h hfHold) unlock() error         { return h.h.Unlock() }
