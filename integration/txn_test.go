package integration_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// marks returns an operation that leaves one more node each time that it is applied, and
// what tells how many there are, and deletes them.
func (b *bench) marks(path string) (add func() *zk.CreateRequest, take func() int) {
	b.create(path, "", 0)
	add = func() *zk.CreateRequest {
		return &zk.CreateRequest{Path: path + "/n-", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence}
	}
	return add, func() int {
		_, err := b.raw.Sync(path)
		names, _, list := b.raw.Children(path)
		for _, n := range names {
			err = errors.Join(err, b.raw.Delete(path+"/"+n, -1))
		}
		if err = errors.Join(err, list, b.raw.Delete(path, -1)); err != nil {
			b.Error(err)
		}
		return len(names)
	}
}

// transaction is one of the operations of TestEveryCutPoint: it is applied once or not at
// all, and says which, unless the hold ends before that can be known.
func transaction(c *cut) {
	add, take := c.marks(c.root + ".marks")
	h := c.lock(c.victim, c.name)
	leave := c.enter(h)
	c.begin()
	told := h.Txn(c.ctx, add())
	c.end()
	if c.isHit() {
		c.eventually("the contender came", func() bool { return c.entries("peer") > 0 || c.came.Load() || h.Err() != nil })
	}
	leave()
	err := h.Unlock()
	lost := c.fault == zkserver.HoldReply && errors.Is(err, lock.ErrExpired) && err == h.Err()
	if !lost {
		c.unlocked(h, err)
	}
	c.eventually("the entry is gone", func() bool { return !c.exists(h.EntryPath()) }) // nothing can be applied any more
	applied := take()
	switch {
	case told == nil && applied == 1:
	case lost && errors.Is(told, lock.ErrInDoubt) && applied <= 1:
	case lost && !errors.Is(told, lock.ErrInDoubt) && errors.Is(told, lock.ErrLost) && applied == 0:
	default:
		c.Errorf("Txn = %v, and it was applied %d times; the hold ended with %v", told, applied, h.Err())
	}
}

// TestTxnOnARealServer: what the server says to each kind of operation, in its place.
func TestTxnOnARealServer(t *testing.T) {
	t.Parallel()
	b := onShared(t)
	c := b.client()
	app := b.root + "-app"
	b.create(app, "", 0)
	defer b.raw.Delete(app, -1)
	h := b.lock(c, "x")
	txn := func(want error, ops ...any) {
		t.Helper()
		if err := h.Txn(b.ctx, ops...); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	all := zk.WorldACL(zk.PermAll)
	txn(nil, &zk.CreateRequest{Path: app + "/a", Acl: all}, &zk.SetDataRequest{Path: app + "/a", Data: []byte("1"), Version: 0},
		&zk.CheckVersionRequest{Path: app + "/a", Version: 1})
	for i, op := range []struct {
		op   any
		want error
	}{
		{&zk.CreateRequest{Path: app + "/a", Acl: all}, zk.ErrNodeExists},
		{&zk.CreateRequest{Path: app + "/no/a", Acl: all}, zk.ErrNoNode},
		{&zk.CreateRequest{Path: app + "/b"}, zk.ErrInvalidACL},
		{&zk.SetDataRequest{Path: app + "/a", Version: 0}, zk.ErrBadVersion},
		{&zk.DeleteRequest{Path: app, Version: -1}, zk.ErrNotEmpty},
		{&zk.CheckVersionRequest{Path: app + "/c", Version: -1}, zk.ErrNoNode},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			err := h.Txn(b.ctx, &zk.CreateRequest{Path: app + "/z", Acl: all}, op.op, &zk.DeleteRequest{Path: app + "/a", Version: -1})
			refused := (*lock.TxnError)(nil)
			if !errors.As(err, &refused) || refused.Op != 1 || !errors.Is(err, op.want) {
				t.Errorf("%#v, want operation 1 to be refused with %v", err, op.want)
			}
		})
	}
	txn(nil, &zk.SetDataRequest{Path: app + "/a", Data: make([]byte, lock.MaxTxn-1000), Version: 1})
	if !h.Valid() || h.Err() != nil {
		t.Errorf("the hold has ended: %v", h.Err())
	}
	if err := h.Extend(b.ctx, ttl); err != nil { // the version is the one that we know
		t.Error(err)
	}
	txn(nil, &zk.DeleteRequest{Path: app + "/a", Version: 2})
	b.unlock(h)
	txn(lock.ErrUnlocked, &zk.DeleteRequest{Path: app, Version: -1})
}
