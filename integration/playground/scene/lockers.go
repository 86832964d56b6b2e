package scene

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// Times of the scene. Sessions of both sides have the same timeout.
const (
	SessionTimeout = 4 * time.Second
	TTL            = 6 * time.Second
	Grace          = time.Second

	lockName = "orders"
	zkParent = "/zk-lock/" + lockName
	hfRoot   = "/locks"
	hfParent = hfRoot + "/" + lockName
)

// process is a program with its own connection to ZooKeeper and its lock.
type process struct {
	lock    func(ctx context.Context) (*hold, error) // waits for the lock and returns its hold
	session func() int64                             // returns the session of the lock's nodes; nil: they belong to no session
	end     func()                                   // closes the connection
}

// hold is what a holder knows of its hold.
type hold struct {
	*lock.Hold // nil: a zk.Lock, which does not report a loss
	unlock     func() error
}

// lost returns a channel that is closed when the hold ends. It returns nil for a zk.Lock, which
// does not report a loss.
func (h *hold) lost() <-chan struct{} {
	if h.Hold == nil {
		return nil
	}
	return h.Context().Done()
}

// err returns why the hold has ended, or nil.
func (h *hold) err() error {
	if h.Hold == nil {
		return nil
	}
	return h.Err()
}

// sure reports whether the holder may act now, as far as its lock can tell.
func (h *hold) sure() bool { return h.Hold == nil || h.Remaining() > 0 }

// hideFailedWrites makes failed writes look like successes; the reader sees the end of the connection.
// go-zookeeper v1.0.4 answers the request of a failed write twice, and hangs without a reader of the
// second answer.
func hideFailedWrites(dial zk.Dialer) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		nc, err := dial(network, address, timeout)
		if err != nil {
			return nil, err
		}
		return failedWritesHidden{nc}, nil
	}
}

type failedWritesHidden struct{ net.Conn }

func (c failedWritesHidden) Write(p []byte) (int, error) {
	if _, err := c.Conn.Write(p); err != nil {
		c.Close()
	}
	return len(p), nil
}

func dialZK(_ context.Context, e *locktest.Ensemble, label string) (*process, error) {
	conn, events, err := zk.Connect(e.Servers(), SessionTimeout, zk.WithDialer(hideFailedWrites(e.Dialer(label))), zk.WithLogger(log.New(io.Discard, "", 0)),
		zk.WithMaxConnBufferSize(64<<10), zk.WithMaxBufferSize(64<<10))
	if err != nil {
		return nil, err
	}
	gone, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for range events {
		}
	}()
	var closing atomic.Bool
	// A second Close would wait for the first one in a way that stops virtual time.
	closeOnce := func() {
		if closing.CompareAndSwap(false, true) {
			conn.Close()
			close(closed)
		}
	}
	return &process{
		// A zk.Lock takes no context: only the end of the connection ends its wait.
		lock: func(ctx context.Context) (*hold, error) {
			l := zk.NewLock(conn, zkParent, zk.WorldACL(zk.PermAll))
			defer context.AfterFunc(ctx, closeOnce)()
			if err := l.Lock(); err != nil {
				return nil, errors.Join(err, ctx.Err())
			}
			return &hold{unlock: l.Unlock}, nil
		},
		session: conn.SessionID,
		end:     func() { closeOnce(); <-closed; <-gone },
	}, nil
}

func dialHoldfast(ctx context.Context, e *locktest.Ensemble, label string) (*process, error) {
	c, err := lock.Dial(ctx, e.Servers(), lock.WithDialer(e.Dialer(label)), lock.WithRoot(hfRoot), lock.WithOwner(label),
		lock.WithSessionTimeout(SessionTimeout), lock.WithTTL(TTL), lock.WithGrace(Grace),
		lock.WithUnlockTimeout(2*TTL), lock.WithLogger(zerolog.Nop()))
	if err != nil {
		return nil, err
	}
	return &process{
		lock: func(ctx context.Context) (*hold, error) {
			h, err := c.Mutex(lockName).Lock(ctx)
			if err != nil {
				return nil, err
			}
			return &hold{h, h.Unlock}, nil
		},
		end: func() { _ = c.Close() }, // entries that it cannot delete expire
	}, nil
}
