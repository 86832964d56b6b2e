package main

import (
	"context"
	"errors"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// sessionTimeout is the timeout that all clients request, long enough for a busy machine.
const sessionTimeout = 30 * time.Second

// take acquires a lock of Holdfast and returns the hold.
type take func(ctx context.Context) (unlocker, error)

type unlocker interface{ Unlock() error }

// held returns a take that calls a function of the library.
func held[H unlocker](call func(context.Context) (H, error)) take {
	return func(ctx context.Context) (unlocker, error) { return call(ctx) }
}

// openTaking returns an opener of Holdfast's sessions. Its argument returns the take of the lock
// with the given name.
func openTaking(of func(c *lock.Client, name string) take) opener {
	return func(ctx context.Context, addr string) (session, error) {
		meter := new(zkserver.Meter)
		c, err := lock.Dial(ctx, []string{addr}, lock.WithRoot(root), lock.WithSessionTimeout(sessionTimeout),
			lock.WithUnlockTimeout(sessionTimeout), lock.WithTTL(2*sessionTimeout), lock.WithDialer(meter.Dial))
		if err != nil {
			return session{}, err
		}
		var names sync.Map // names of the session's locks
		return session{
			counts: meter.Counts, close: c.Close,
			locker: func(p string) locker {
				name := path.Base(p)
				for _, one := range namesOf(name) {
					names.Store(one, true)
				}
				return holdfastLocker(c.Mutex(name), of(c, name))
			},
			// The parent of a frequently used lock stays for a second; settle waits until it is
			// deleted.
			settle: func(ctx context.Context) error {
				return wait.Until(ctx, patience, "all locks are gone", func() (bool, error) {
					there, _, err := admin.New(c).Children(ctx, root)
					ours := func(name string) bool { _, ok := names.Load(name); return ok }
					return !slices.ContainsFunc(there, ours), err
				})
			},
		}, nil
	}
}

func holdfastLocker(mutex *lock.Mutex, take take) locker {
	var hold unlocker
	return locker{
		// The request gets a context that cannot end: zk.Lock ignores its context too.
		lock: func(ctx context.Context) (err error) {
			hold, err = take(context.WithoutCancel(ctx))
			return err
		},
		unlock: func() error { return hold.Unlock() },
		try: func(ctx context.Context) (_ bool, err error) {
			hold, err = mutex.TryLock(ctx)
			return got(err, lock.ErrHeld)
		},
	}
}

// plain is a session of go-zookeeper with a meter.
type plain struct {
	zkserver.Meter
	*zk.Conn
}

func openPlain(ctx context.Context, addr string) (_ *plain, err error) {
	s := new(plain)
	s.Conn, _, err = zkserver.Connect(ctx, []string{addr}, sessionTimeout, s.Dial)
	return s, err
}

func (s *plain) hangUp() error {
	s.Close()
	return nil
}

// openZK returns an opener of go-zookeeper's sessions. locks returns the locker of the lock at
// path.
func openZK(locks func(conn *zk.Conn, path string) locker) opener {
	return func(ctx context.Context, addr string) (session, error) {
		s, err := openPlain(ctx, addr)
		if err != nil {
			return session{}, err
		}
		return session{locker: func(path string) locker { return locks(s.Conn, path) }, counts: s.Counts, close: s.hangUp}, nil
	}
}

var acl = zk.WorldACL(zk.PermAll)

func zkLock(conn *zk.Conn, path string) locker {
	l := zk.NewLock(conn, path, acl)
	return locker{lock: func(context.Context) error { return l.Lock() }, unlock: l.Unlock}
}

// zkLocks takes several locks one after the other, all clients in the same order.
func zkLocks(conn *zk.Conn, p string) locker {
	var all []locker
	for _, name := range namesOf(path.Base(p)) {
		all = append(all, zkLock(conn, path.Join(path.Dir(p), name)))
	}
	return locker{
		lock: func(ctx context.Context) (err error) {
			for i := 0; i < len(all) && err == nil; i++ {
				err = all[i].lock(ctx)
			}
			return err
		},
		unlock: func() (err error) {
			for _, l := range all {
				err = errors.Join(err, l.unlock())
			}
			return err
		},
	}
}

// bareNode creates a node and deletes it: the least requests of a lock in ZooKeeper.
func bareNode(conn *zk.Conn, path string) locker {
	return locker{
		lock: func(context.Context) error {
			_, err := conn.Create(path, nil, 0, acl)
			return err
		},
		unlock: func() error { return conn.Delete(path, -1) },
	}
}

// bareRequests sends the requests that Holdfast sends for a free lock. The difference to Holdfast
// is the library's own cost. From the second cycle on the parent stays.
func bareRequests(conn *zk.Conn, path string) locker {
	record := znode.Record{Owner: "bench", Host: "bench.example.com", PID: 12345, TTL: 30_000, ExpiresAt: 1_800_000_000_000, AcquiredAt: 1_800_000_000_000}
	data, anchorData := record.Encode(), znode.AnchorData{}.Encode()
	var parent []byte
	var prefix, anchor, entry string
	var times int
	var version int32 // version of the parent; 0: there is no parent
	return locker{
		lock: func(context.Context) error {
			var ops []any
			if version == 0 { // creates the parent with a new generation
				p := znode.Parent{Kind: znode.Mutex, Generation: znode.NewID()}
				parent, prefix, anchor = p.Encode(), path+"/"+znode.Prefix(p.Generation, znode.Exclusive), path+"/"+znode.Anchor(p.Generation)
				ops = append(ops, &zk.CreateRequest{Path: path, Data: parent, Acl: acl}, &zk.CreateRequest{Path: anchor, Data: anchorData, Acl: acl})
			} else {
				ops = append(ops, &zk.CheckVersionRequest{Path: anchor, Version: -1})
			}
			at := len(ops)
			ops = append(ops, &zk.CreateRequest{Path: prefix, Data: data, Acl: acl, Flags: zk.FlagSequence},
				&zk.SetDataRequest{Path: path, Data: parent, Version: -1})
			replies, err := conn.Multi(ops...)
			if err == nil {
				entry = replies[at].String
				version++
				times++
			}
			return err
		},
		unlock: func() error {
			if times >= 2 {
				return conn.Delete(entry, 0)
			}
			_, err := conn.Multi(&zk.DeleteRequest{Path: entry, Version: 0}, &zk.DeleteRequest{Path: anchor, Version: -1}, &zk.DeleteRequest{Path: path, Version: version})
			version = 0
			return err
		},
	}
}
