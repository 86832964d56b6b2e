package integration_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock"
)

// marks returns an operation that creates one more node below path each time it is applied. take
// returns the number of the created nodes, and deletes them and path.
func (b *bench) marks(path string) (add func() lock.Op, take func() int) {
	b.create(path, "", 0)
	add = func() lock.Op {
		return lock.OpCreate(path+"/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
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

// transaction is an operation of TestEveryCutPoint: Txn is applied once or not at all, and its
// error tells which. If the hold was lost, the error may be ErrInDoubt instead.
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
	lost := c.wasLost(h, err)
	if !lost {
		c.unlocked(h, err)
	}
	c.gone(h.EntryPath()) // no late write is possible any more
	applied := take()
	switch {
	case told == nil && applied == 1:
	case lost && errors.Is(told, lock.ErrInDoubt) && applied <= 1:
	case lost && !errors.Is(told, lock.ErrInDoubt) && errors.Is(told, lock.ErrLost) && applied == 0:
	default:
		c.Errorf("Txn = %v, and it was applied %d times; the hold ended with %v", told, applied, h.Err())
	}
}

// TestTxnOnARealServer: Txn applies its operations, or reports the position and the error of the
// operation that the server refuses. The hold goes on.
func TestTxnOnARealServer(t *testing.T) {
	t.Parallel()
	b := onShared(t)
	c := b.client()
	app := b.root + "-app"
	b.create(app, "", 0)
	defer b.raw.Delete(app, -1)
	h := b.lock(c, "x")
	txn := func(want error, ops ...lock.Op) {
		t.Helper()
		if err := h.Txn(b.ctx, ops...); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	all := zk.WorldACL(zk.PermAll)
	txn(nil, lock.OpCreate(app+"/a", nil, 0, all), lock.OpSet(app+"/a", []byte("1"), 0),
		lock.OpCheck(app+"/a", 1))
	for i, op := range []struct {
		op   lock.Op
		want error
	}{
		{lock.OpCreate(app+"/a", nil, 0, all), zk.ErrNodeExists},
		{lock.OpCreate(app+"/no/a", nil, 0, all), zk.ErrNoNode},
		{lock.OpCreate(app+"/b", nil, 0, nil), zk.ErrInvalidACL},
		{lock.OpSet(app+"/a", nil, 0), zk.ErrBadVersion},
		{lock.OpDelete(app, -1), zk.ErrNotEmpty},
		{lock.OpCheck(app+"/c", -1), zk.ErrNoNode},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			err := h.Txn(b.ctx, lock.OpCreate(app+"/z", nil, 0, all), op.op, lock.OpDelete(app+"/a", -1))
			refused := (*lock.TxnError)(nil)
			if !errors.As(err, &refused) || refused.Index != 1 || !errors.Is(err, op.want) {
				t.Errorf("%#v, want operation 1 to be refused with %v", err, op.want)
			}
		})
	}
	txn(nil, lock.OpSet(app+"/a", make([]byte, lock.MaxTxn-1000), 1))
	if h.Remaining() == 0 || h.Err() != nil {
		t.Errorf("the hold has ended: %v", h.Err())
	}
	if err := h.Extend(b.ctx, ttl); err != nil { // possible only if the client knows the entry's version
		t.Error(err)
	}
	txn(nil, lock.OpDelete(app+"/a", 2))
	b.unlock(h)
	txn(lock.ErrUnlocked, lock.OpDelete(app, -1))
}
