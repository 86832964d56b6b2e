package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	gen = "9f86d081884c7d65"
	ttl = 30 * time.Second
)

var epoch0 = time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)

// tape is a log that a test writes.
type tape struct {
	now   time.Duration // of the leader's clock, after epoch0
	zxid  int64
	txns  []txnlog.Txn
	ahead time.Duration // the leader's clock minus the clients' estimates of it
}

func newTape() *tape { return &tape{zxid: 1 << 32} }

func (l *tape) after(d time.Duration) *tape { l.now += d; return l }

// leader begins a new epoch.
func (l *tape) leader() *tape { l.zxid = (l.zxid>>32 + 1) << 32; return l }

func (l *tape) do(session int64, ops ...txnlog.Op) *tape {
	l.zxid++
	l.txns = append(l.txns, txnlog.Txn{Zxid: l.zxid, Time: epoch0.Add(l.now), Session: session, Ops: ops})
	return l
}

func create(path string, data []byte) txnlog.Op {
	return txnlog.Op{Kind: txnlog.OpCreate, Path: path, Data: data}
}

func set(path string, data []byte) txnlog.Op {
	return txnlog.Op{Kind: txnlog.OpSetData, Path: path, Data: data}
}

func del(paths ...string) (ops []txnlog.Op) {
	for _, p := range paths {
		ops = append(ops, txnlog.Op{Kind: txnlog.OpDelete, Path: p})
	}
	return ops
}

func lockPath(name string) string   { return "/locks/" + name }
func anchorPath(name string) string { return lockPath(name) + "/" + znode.Anchor(gen) }
func entryPath(name string, role znode.Role, seq int32) string {
	return lockPath(name) + "/" + znode.Predict(znode.Prefix(gen, role), seq)
}

// e is the path of a mutex's entry.
func e(name string, seq int32) string { return entryPath(name, znode.Exclusive, seq) }

func parent(kind znode.Kind) []byte { return znode.Parent{Kind: kind, Generation: gen}.Encode() }

// record returns the data of an entry; change may alter it.
func (l *tape) record(owner string, change ...func(*znode.Record)) []byte {
	r := znode.Record{Version: znode.Version, Owner: owner, Host: "node-" + owner, PID: 1, TTL: ttl.Milliseconds()}
	r.ExpiresAt = epoch0.Add(l.now-l.ahead).UnixMilli() + r.TTL
	for _, f := range change {
		f(&r)
	}
	return r.Encode()
}

func (l *tape) granted(r *znode.Record) { r.AcquiredAt = epoch0.Add(l.now).UnixMilli() }

// take adds the join of a free lock.
func (l *tape) take(session int64, name, owner string) *tape {
	return l.do(session, create(lockPath(name), parent(znode.Mutex)), create(anchorPath(name), znode.AnchorData{}.Encode()),
		create(e(name, 0), l.record(owner)), set(lockPath(name), parent(znode.Mutex)))
}

// join adds the join of a lock that exists.
func (l *tape) join(session int64, name, owner string, seq int32) *tape {
	return l.do(session, txnlog.Op{Kind: txnlog.OpCheck, Path: anchorPath(name)}, create(e(name, seq), l.record(owner)), set(lockPath(name), parent(znode.Mutex)))
}

func (l *tape) renew(session int64, name, owner string, seq int32, change ...func(*znode.Record)) *tape {
	return l.do(session, set(e(name, seq), l.record(owner, change...)))
}

// play gives the log to a Machine, and returns the Machine and its events.
func (l *tape) play(o Options, begin ...txnlog.Node) (*Machine, []Event) {
	var events []Event
	if o.Root == "" {
		o.Root = "/locks"
	}
	m := New(o, func(e Event) { events = append(events, e) })
	err := m.Begin(1<<32, func(yield func(txnlog.Node, error) bool) {
		for _, n := range begin {
			if !yield(n, nil) {
				return
			}
		}
	})
	if err != nil {
		panic(err)
	}
	for i := range l.txns {
		m.Apply(&l.txns[i])
	}
	m.End()
	return m, events
}

// brief returns an event in a line: seconds, kind, lock, owner, and what else is set.
func brief(e Event) string {
	s := fmt.Sprintf("%v %s", e.Time.Sub(epoch0), e.Kind)
	if e.Lock != "" {
		s += " " + e.Lock
	}
	if e.Who.Known() {
		s += " " + e.Who.Owner
	}
	if e.By.Known() {
		s += " by=" + e.By.Owner
	}
	for text, set := range map[string]bool{" again": e.Again, " early": e.Early, " late": e.Late && e.Kind == Renewed} {
		if set {
			s += text
		}
	}
	if e.Role != "" {
		s += " " + e.Role
	}
	if e.From != e.To {
		s += fmt.Sprintf(" %d->%d", e.From, e.To)
	}
	if e.Step != 0 {
		s += fmt.Sprintf(" step=%v", e.Step)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

func briefs(events []Event) (all []string) {
	for _, e := range events {
		all = append(all, brief(e))
	}
	return all
}

// BenchmarkApply follows renewals of a thousand holds, and handoffs of a contended lock.
func BenchmarkApply(b *testing.B) {
	l := newTape()
	for i := range 1000 {
		l.take(int64(i+1), fmt.Sprintf("held/%d", i), fmt.Sprintf("client-%d", i))
	}
	l.take(5001, "busy", "x").join(5002, "busy", "y", 1)
	size := 0
	granted := func(r *znode.Record) { r.AcquiredAt = epoch0.UnixMilli() }
	for i := range 20_000 {
		l.after(5*time.Millisecond).renew(int64(i%1000+1), fmt.Sprintf("held/%d", i%1000), fmt.Sprintf("client-%d", i%1000), 0, granted)
	}
	for i := range int32(1000) {
		l.after(time.Millisecond).do(int64(5001+i%2), append(del(e("busy", i)), create(e("busy", i+2), l.record("x")), set(lockPath("busy"), parent(znode.Mutex)))...)
	}
	for _, t := range l.txns {
		size += 100
		for _, op := range t.Ops {
			size += len(op.Path) + len(op.Data) + 60
		}
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		m := New(Options{Root: "/locks"}, func(Event) {})
		for i := range l.txns {
			m.Apply(&l.txns[i])
		}
	}
}
