// Package tape writes logs of locks, for tests of what reads them.
package tape

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	Generation = "9f86d081884c7d65"
	TTL        = 30 * time.Second
)

// Epoch0 is the time at which a tape begins.
var Epoch0 = time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)

// Tape is a log that a test writes.
type Tape struct {
	Now   time.Duration // of the leader's clock, after Epoch0
	Zxid  int64         // of the last transaction
	Txns  []txnlog.Txn
	Ahead time.Duration // the leader's clock minus the clients' estimates of it
}

func New() *Tape { return &Tape{Zxid: 1 << 32} }

func (l *Tape) After(d time.Duration) *Tape { l.Now += d; return l }

// Leader begins a new epoch.
func (l *Tape) Leader() *Tape { l.Zxid = (l.Zxid>>32 + 1) << 32; return l }

func (l *Tape) Do(session int64, ops ...txnlog.Op) *Tape {
	l.Zxid++
	l.Txns = append(l.Txns, txnlog.Txn{Zxid: l.Zxid, Time: Epoch0.Add(l.Now), Session: session, Ops: ops})
	return l
}

func Create(path string, data []byte) txnlog.Op {
	return txnlog.Op{Kind: txnlog.OpCreate, Path: path, Data: data}
}

func Set(path string, data []byte) txnlog.Op {
	return txnlog.Op{Kind: txnlog.OpSetData, Path: path, Data: data}
}

func Delete(paths ...string) (ops []txnlog.Op) {
	for _, p := range paths {
		ops = append(ops, txnlog.Op{Kind: txnlog.OpDelete, Path: p})
	}
	return ops
}

func Lock(name string) string   { return "/locks/" + name }
func Anchor(name string) string { return Lock(name) + "/" + znode.Anchor(Generation) }

// Entry is the path of a mutex's entry.
func Entry(name string, seq int32) string {
	return Lock(name) + "/" + znode.Predict(znode.Prefix(Generation, znode.Exclusive), seq)
}

// Parent returns the data of a lock's node.
func Parent(kind znode.Kind) []byte {
	return znode.Parent{Kind: kind, Generation: Generation}.Encode()
}

// Record returns the data of an entry; change may alter it.
func (l *Tape) Record(owner string, change ...func(*znode.Record)) []byte {
	r := znode.Record{Version: znode.Version, Owner: owner, Host: "node-" + owner, PID: 1, TTL: TTL.Milliseconds()}
	r.ExpiresAt = Epoch0.Add(l.Now-l.Ahead).UnixMilli() + r.TTL
	for _, f := range change {
		f(&r)
	}
	return r.Encode()
}

// Granted records a grant.
func (l *Tape) Granted(r *znode.Record) { r.AcquiredAt = Epoch0.Add(l.Now).UnixMilli() }

// Take adds the join of a free mutex.
func (l *Tape) Take(session int64, name, owner string) *Tape {
	return l.Do(session, Create(Lock(name), Parent(znode.Mutex)), Create(Anchor(name), znode.AnchorData{}.Encode()),
		Create(Entry(name, 0), l.Record(owner)), Set(Lock(name), Parent(znode.Mutex)))
}

// Join adds the join of a mutex that exists.
func (l *Tape) Join(session int64, name, owner string, seq int32) *Tape {
	return l.Do(session, txnlog.Op{Kind: txnlog.OpCheck, Path: Anchor(name)}, Create(Entry(name, seq), l.Record(owner)), Set(Lock(name), Parent(znode.Mutex)))
}

func (l *Tape) Renew(session int64, name, owner string, seq int32, change ...func(*znode.Record)) *Tape {
	return l.Do(session, Set(Entry(name, seq), l.Record(owner, change...)))
}

// Node returns a node of a snapshot that transaction zxid made and wrote.
func Node(path string, data []byte, zxid int64, stamp time.Duration) txnlog.Node {
	return txnlog.Node{Path: path, Data: data, Czxid: zxid, Mzxid: zxid, Ctime: Epoch0.Add(stamp), Mtime: Epoch0.Add(stamp)}
}
