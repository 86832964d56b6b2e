// Logs that the protocol does not permit: a real log with small edits.

package audit_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// editor edits a log. a, b and other are the sessions of the scene's clients.
type editor struct {
	*testing.T
	log         []txnlog.Txn
	a, b, other int64
}

func edit(t *testing.T, log []txnlog.Txn) *editor {
	e := &editor{T: t, log: cloned(log)}
	e.a = e.log[e.nth(1, txnlog.OpCreate, "/locks/mutex/")].Session
	e.b = e.log[e.nth(2, txnlog.OpCreate, "/locks/mutex/", "-lock-")].Session
	e.other = e.log[e.nth(1, txnlog.OpCreate, "/locks/theirs")].Session
	return e
}

// nth returns the index of the nth transaction for which op finds an operation.
func (e *editor) nth(n int, kind txnlog.OpKind, texts ...string) int {
	e.Helper()
	for i, x := range e.log {
		if e.op(x, kind, texts...) != nil {
			if n--; n == 0 {
				return i
			}
		}
	}
	e.Fatalf("the log has too few operations %d on %q", kind, texts)
	return 0
}

// lastly returns the index of the last transaction before end for which op finds an operation.
func (e *editor) lastly(end int, kind txnlog.OpKind, texts ...string) int {
	e.Helper()
	for i := end - 1; i >= 0; i-- {
		if e.op(e.log[i], kind, texts...) != nil {
			return i
		}
	}
	e.Fatalf("the log has no operation %d on %q", kind, texts)
	return 0
}

// op returns the first operation of the kind in x whose path contains all texts; nil if there is
// none. A text of digits is a sequence: the path must end with it.
func (e *editor) op(x txnlog.Txn, kind txnlog.OpKind, texts ...string) *txnlog.Op {
	for i, o := range x.Ops {
		lacks := func(text string) bool {
			if strings.Trim(text, "0123456789") == "" { // a sequence, which may also be part of an id
				return !strings.HasSuffix(o.Path, text)
			}
			return !strings.Contains(o.Path, text)
		}
		if o.Kind == kind && !slices.ContainsFunc(texts, lacks) {
			return &x.Ops[i]
		}
	}
	return nil
}

// cut removes transaction i.
func (e *editor) cut(i int) { e.log = slices.Delete(e.log, i, i+1) }

// cutOp removes an operation from a transaction, and returns the transaction's zxid.
func (e *editor) cutOp(i int, kind txnlog.OpKind, texts ...string) int64 {
	e.Helper()
	x := &e.log[i]
	o := *e.op(*x, kind, texts...)
	x.Ops = slices.DeleteFunc(x.Ops, func(p txnlog.Op) bool { return p.Kind == kind && p.Path == o.Path })
	return x.Zxid
}

// after inserts a transaction after transaction i, and returns the zxid of the new transaction.
func (e *editor) after(i int, session int64, ops ...txnlog.Op) int64 {
	ops = slices.Clone(ops)
	for k := range ops {
		ops[k].CVersion = 0
	}
	x := txnlog.Txn{Zxid: e.log[i].Zxid + 1, Time: e.log[i].Time, Session: session, Ops: ops}
	e.log = slices.Insert(e.log, i+1, x)
	return x.Zxid
}

// record changes the record in the nth write of the lock's entry with the sequence, and returns the
// write's zxid.
func (e *editor) record(n int, kind txnlog.OpKind, lock, sequence string, change func(*znode.Record)) int64 {
	e.Helper()
	x := e.log[e.nth(n, kind, "/locks/"+lock+"/", sequence)]
	for i := range x.Ops {
		if o := &x.Ops[i]; o.Kind == kind && strings.Contains(o.Path, "/locks/"+lock+"/") && strings.HasSuffix(o.Path, sequence) {
			o.Data = recordOf(e.T, o.Data, change)
		}
	}
	return x.Zxid
}

// grantOf returns the index of the first write that has the grant of the lock's entry with the
// sequence.
func (e *editor) grantOf(lock, sequence string) int {
	e.Helper()
	for n := 1; ; n++ {
		i := e.nth(n, set, "/locks/"+lock+"/", sequence)
		granted := false
		recordOf(e.T, e.op(e.log[i], set, "/locks/"+lock+"/", sequence).Data, func(r *znode.Record) { granted = r.Granted() })
		if granted {
			return i
		}
	}
}

func recordOf(t *testing.T, data []byte, change func(*znode.Record)) []byte {
	t.Helper()
	r, err := znode.DecodeRecord(data)
	if err != nil {
		t.Fatal(err)
	}
	change(&r)
	return r.Encode()
}

// last returns an operation that repeats the entry's last write up to transaction i, but with a
// changed record.
func (e *editor) last(i int, lock, sequence string, change func(*znode.Record)) txnlog.Op {
	e.Helper()
	for ; i >= 0; i-- {
		for _, kind := range []txnlog.OpKind{txnlog.OpSetData, txnlog.OpCreate} {
			if o := e.op(e.log[i], kind, "/locks/"+lock+"/", sequence); o != nil {
				return txnlog.Op{Kind: txnlog.OpSetData, Path: o.Path, Data: recordOf(e.T, o.Data, change)}
			}
		}
	}
	e.Fatalf("%s has no entry %s", lock, sequence)
	return txnlog.Op{}
}

// changeJob replaces old by new in the nth write of the job's record, and returns the write's zxid.
func (e *editor) changeJob(n int, old, new string) int64 {
	e.Helper()
	x := e.log[e.nth(n, txnlog.OpSetData, "/holdfast-jobs/export")]
	o := e.op(x, txnlog.OpSetData, "/holdfast-jobs/export")
	if !strings.Contains(string(o.Data), old) {
		e.Fatalf("%s has no %s", o.Data, old)
	}
	o.Data = []byte(strings.Replace(string(o.Data), old, new, 1))
	return x.Zxid
}

// gone makes the transactions from i on that change a node fail, as after its deletion.
func (e *editor) gone(i int, path string) {
	for ; i < len(e.log); i++ {
		if slices.ContainsFunc(e.log[i].Ops, func(o txnlog.Op) bool { return o.Path == path && o.Kind != create }) {
			e.log[i].Ops = []txnlog.Op{{Kind: txnlog.OpError, Err: -101}}
		}
	}
}

func (e *editor) rename(lock, from, to string) {
	for i := range e.log {
		for k := range e.log[i].Ops {
			if o := &e.log[i].Ops[k]; strings.HasPrefix(o.Path, lock) {
				o.Path = strings.Replace(o.Path, from, to, 1)
			}
		}
	}
}

// later moves all transactions from i on into the next epoch.
func (e *editor) later(i int) {
	for ; i < len(e.log); i++ {
		e.log[i].Zxid += 1 << 32
	}
}

const (
	create = txnlog.OpCreate
	set    = txnlog.OpSetData
	del    = txnlog.OpDelete
	check  = txnlog.OpCheck
)

func grant(r *znode.Record) { r.AcquiredAt = 1 }
func same(*znode.Record)    {}

// broken are logs that the protocol does not permit. Each edit returns the zxid of the first write
// that is not permitted.
var broken = []struct {
	name string
	rule audit.Rule
	edit func(e *editor) int64
	opts audit.Options
}{
	{name: "a grant while the holder holds", rule: audit.Exclusion, edit: func(e *editor) int64 {
		i := e.nth(1, set, "/locks/mutex/", "0002") // b's renewal
		return e.after(i, e.b, e.last(i, "mutex", "0002", grant))
	}},
	{name: "a grant after an unlock that never was", rule: audit.Exclusion, edit: func(e *editor) int64 {
		e.cut(e.nth(1, del, "/locks/mutex/", "0001"))
		return e.log[e.grantOf("mutex", "0002")].Zxid
	}},
	{name: "a join that claims the grant", rule: audit.Exclusion, edit: func(e *editor) int64 {
		return e.record(1, create, "mutex", "0002", grant)
	}},
	{name: "a reader beside a writer", rule: audit.Exclusion, edit: func(e *editor) int64 {
		return e.record(1, set, "pages", "0002", grant)
	}},
	{name: "a reader beside a writer that never shared", rule: audit.Exclusion, edit: func(e *editor) int64 {
		for _, x := range e.log { // all writes of the writer's entry, renewals too
			if o := e.op(x, set, "/locks/shared/", "0001"); o != nil {
				o.Data = recordOf(e.T, o.Data, func(r *znode.Record) { r.Shared = false })
			}
		}
		return e.log[e.grantOf("shared", "0002")].Zxid
	}},
	{name: "a grant at the counter's end", rule: audit.Exclusion, edit: func(e *editor) int64 {
		e.rename("/locks/mutex/", "-lock-0000000002", "-lock-2147483647")
		return e.log[e.grantOf("mutex", "2147483647")].Zxid
	}},
	{name: "more permits than there are", rule: audit.Permits, edit: func(e *editor) int64 {
		e.cut(e.nth(1, del, "/locks/slots/", "-2-lock-"))
		return e.log[e.grantOf("slots", "0002")].Zxid
	}},
	{name: "a grant of a permit that waits", rule: audit.Permits, edit: func(e *editor) int64 {
		return e.record(1, create, "slots", "0002", grant)
	}},
	{name: "two leaders", rule: audit.Leader, edit: func(e *editor) int64 {
		e.cut(e.nth(1, del, "/locks/chair/", "0001"))
		return e.log[e.grantOf("chair", "0002")].Zxid
	}},
	{name: "a living holder purged", rule: audit.Purge, edit: func(e *editor) int64 {
		i := e.nth(1, del, "/locks/mutex/", "0001")
		e.log[i].Session = e.b
		return e.log[i].Zxid
	}},
	{name: "a living waiter purged", rule: audit.Purge, edit: func(e *editor) int64 {
		i := e.nth(1, del, "/locks/ledger/", "0002")
		e.log[i].Session = e.a
		return e.log[i].Zxid
	}},
	{name: "a dead holder purged before its lease has ended", rule: audit.Purge, edit: func(e *editor) int64 {
		i := e.nth(1, del, "/locks/dead/", "0001")
		for j := range e.log { // the session does not end
			if x := &e.log[j]; x.Session == e.log[e.nth(1, create, "/locks/dead/")].Session && x.Ops[0].Kind == txnlog.OpCloseSession {
				x.Ops = []txnlog.Op{{Kind: txnlog.OpError, Err: -101}}
			}
		}
		e.record(1, create, "dead", "0001", func(r *znode.Record) { r.TTL = 12_000 })
		return e.log[i].Zxid
	}},
	{name: "a dead holder purged within its grace", rule: audit.Purge, edit: func(e *editor) int64 {
		i := e.nth(1, del, "/locks/dead/", "0001")
		for j := range e.log {
			if x := &e.log[j]; x.Session == e.log[e.nth(1, create, "/locks/dead/")].Session && x.Ops[0].Kind == txnlog.OpCloseSession {
				x.Ops = []txnlog.Op{{Kind: txnlog.OpError, Err: -101}}
			}
		}
		early := e.log[e.lastly(i, create, "/locks/dead/", "0001")].Time.Add(ttl + grace - 10*time.Millisecond)
		for j := range e.log[:i+1] { // the clock must not go back
			if x := &e.log[j]; x.Time.After(early) {
				x.Time = early
			}
		}
		return e.log[i].Zxid
	}},
	{name: "a living holder purged after a change of the leader", rule: audit.Purge, opts: audit.Options{Skew: time.Millisecond}, edit: func(e *editor) int64 {
		i := e.nth(1, del, "/locks/mutex/", "0001")
		e.log[i].Session = e.b
		e.later(i)
		return e.log[i].Zxid
	}},
	{name: "a living holder purged by the first transaction of an epoch without an election", rule: audit.Purge, edit: func(e *editor) int64 {
		e.log = e.log[:e.nth(1, create, "/locks/found")] // the records of jobs have zxids
		i := e.nth(1, del, "/locks/mutex/", "0001")
		e.log[i].Session = e.b
		for j := range e.log {
			e.log[j].Zxid = 1<<32 + int64(j-i)
		}
		return e.log[i].Zxid
	}},
	{name: "a node deleted by hand", rule: audit.Purge, edit: func(e *editor) int64 {
		i := e.nth(1, set, "/locks/mutex/", "0002")
		path := e.op(e.log[e.nth(1, create, "/locks/mutex/", "-lock-")], create, "-lock-").Path
		e.after(i, 0x77, txnlog.Op{Kind: txnlog.OpBeginSession, Timeout: timeout})
		zxid := e.after(i+1, 0x77, txnlog.Op{Kind: del, Path: path})
		e.gone(i+3, path)
		return zxid
	}},
	{name: "a detached entry deleted before anybody attached", rule: audit.Purge, edit: func(e *editor) int64 {
		i := e.nth(1, set, "/locks/moved/")
		path := e.log[i].Ops[0].Path
		zxid := e.after(i, e.b, txnlog.Op{Kind: del, Path: path})
		e.gone(i+2, path)
		return zxid
	}},
	{name: "a token that falls", rule: audit.Token, edit: func(e *editor) int64 {
		late := e.nth(2, create, "/locks/mutex/", "-lock-") // b's entry gets a higher sequence, and a's is made after it
		first := e.nth(1, create, "/locks/mutex/", "-lock-")
		anchor := e.op(e.log[first], create, "anchor").Path
		a := *e.op(e.log[first], create, "-lock-")
		a.Path = strings.Replace(a.Path, "0000000001", "0000000000", 1)
		e.after(late, e.a, txnlog.Op{Kind: check, Path: anchor}, a)
		for j := late + 2; j < len(e.log); j++ {
			for k := range e.log[j].Ops {
				o := &e.log[j].Ops[k]
				o.Path = strings.Replace(o.Path, a.Path[:len(a.Path)-10]+"0000000001", a.Path, 1)
			}
		}
		e.after(late+1, e.a, txnlog.Op{Kind: del, Path: a.Path[:len(a.Path)-10] + "0000000001"})
		return e.log[e.grantOf("mutex", "0002")].Zxid
	}},
	{name: "an entry written by another client", rule: audit.Owner, edit: func(e *editor) int64 {
		return e.record(1, set, "mutex", "0001", func(r *znode.Record) { r.Owner = "b" })
	}},
	{name: "an entry with another attempt", rule: audit.Owner, edit: func(e *editor) int64 {
		return e.record(1, set, "mutex", "0001", func(r *znode.Record) { r.Attempt = "0123456789abcdef" })
	}},
	{name: "an entry renewed in a session that is not its owner's", rule: audit.Owner, edit: func(e *editor) int64 {
		i := e.lastly(len(e.log), set, "/locks/pages/", "0002")
		e.log[i].Session = e.a
		return e.log[i].Zxid
	}},
	{name: "a hold detached by another client", rule: audit.Owner, edit: func(e *editor) int64 {
		i := e.nth(1, set, "/locks/moved/")
		e.log[i].Session = e.b
		return e.log[i].Zxid
	}},
	{name: "a hold attached to that its owner has", rule: audit.Attach, edit: func(e *editor) int64 {
		e.cut(e.nth(1, set, "/locks/moved/"))
		i := e.nth(1, set, "/locks/moved/")
		for k := range e.log[i].Ops {
			e.log[i].Ops[k].Version-- // they follow on the writes that are left
		}
		return e.log[i].Zxid
	}},
	{name: "an attach that writes once", rule: audit.Attach, edit: func(e *editor) int64 {
		i := e.nth(2, set, "/locks/moved/")
		e.log[i].Ops = e.log[i].Ops[:1]
		return e.log[i].Zxid
	}},
	{name: "an attach that leaves out an incarnation", rule: audit.Attach, edit: func(e *editor) int64 {
		return e.record(2, set, "moved", "0001", func(r *znode.Record) { r.Incarnation = 2 })
	}},
	{name: "a force-release that writes once", rule: audit.Break, edit: func(e *editor) int64 {
		i := e.nth(1, set, "/locks/broken/")
		e.log[i].Ops = e.log[i].Ops[:1]
		return e.log[i].Zxid
	}},
	{name: "a force-release that changes the lease", rule: audit.Break, edit: func(e *editor) int64 {
		return e.record(1, set, "broken", "0001", func(r *znode.Record) { r.TTL = 1 })
	}},
	{name: "a force-release that is taken back", rule: audit.Break, edit: func(e *editor) int64 {
		i := e.nth(1, set, "/locks/broken/")
		return e.after(i, e.a, e.last(i, "broken", "0001", func(r *znode.Record) { r.Broken = nil }))
	}},
	{name: "a grant taken back", rule: audit.Record, edit: func(e *editor) int64 {
		return e.record(1, set, "mutex", "0001", func(r *znode.Record) { r.AcquiredAt = 0 })
	}},
	{name: "a downgrade taken back", rule: audit.Record, edit: func(e *editor) int64 {
		x := e.log[e.lastly(len(e.log), set, "/locks/shared/", "0001")] // a renewal
		o := e.op(x, set, "/locks/shared/", "0001")
		o.Data = recordOf(e.T, o.Data, func(r *znode.Record) { r.Shared = false })
		return x.Zxid
	}},
	{name: "a record overwritten", rule: audit.Record, edit: func(e *editor) int64 {
		i := e.nth(1, set, "/locks/mutex/", "0001")
		e.log[i].Ops[0].Data = []byte("free")
		return e.log[i].Zxid
	}},
	{name: "a transaction of a waiter", rule: audit.Holder, edit: func(e *editor) int64 {
		i := e.nth(1, set, "/locks/ledger/", "0002") // b waits
		w := e.last(i, "ledger", "0002", same)
		return e.after(i, e.b, w, txnlog.Op{Kind: create, Path: "/paid-again"}, w)
	}},
	{name: "a join without a check of the anchor", rule: audit.Generation, edit: func(e *editor) int64 {
		return e.cutOp(e.nth(2, create, "/locks/mutex/", "-lock-"), check, "anchor")
	}},
	{name: "a parent without an anchor", rule: audit.Generation, edit: func(e *editor) int64 {
		return e.cutOp(e.nth(1, create, "/locks/mutex/anchor"), create, "anchor")
	}},
	{name: "a parent's kind changed in use", rule: audit.Generation, edit: func(e *editor) int64 {
		x := e.log[e.nth(2, create, "/locks/mutex/", "-lock-")]
		o := e.op(x, set, "/locks/mutex")
		o.Data = []byte(strings.Replace(string(o.Data), `"mutex"`, `"rw"`, 1))
		return x.Zxid
	}},
	{name: "a node adopted without an anchor", rule: audit.Generation, edit: func(e *editor) int64 {
		return e.cutOp(e.nth(2, create, "/locks/found/anchor"), create, "anchor")
	}},
	{name: "an empty node adopted without the mark", rule: audit.Generation, edit: func(e *editor) int64 {
		x := e.log[e.nth(2, create, "/locks/found/anchor")]
		o := e.op(x, set, "/locks/found")
		o.Data = []byte(strings.Replace(string(o.Data), `,"adopted":true`, "", 1))
		return x.Zxid
	}},
	{name: "an anchor deleted alone", rule: audit.Empty, edit: func(e *editor) int64 {
		i := e.nth(1, set, "/locks/mutex/", "0001")
		return e.after(i, e.a, txnlog.Op{Kind: del, Path: e.op(e.log[e.nth(1, create, "/locks/mutex/anchor")], create, "anchor").Path})
	}},
	{name: "another program's node deleted after its adoption", rule: audit.Empty, edit: func(e *editor) int64 {
		i := e.nth(1, del, "/locks/found/_c_")
		return e.after(i, e.a, txnlog.Op{Kind: del, Path: e.op(e.log[e.nth(1, create, "/locks/found/anchor")], create, "anchor").Path}, txnlog.Op{Kind: del, Path: "/locks/found"})
	}},
	{name: "permits taken away without an entry", rule: audit.Resize, edit: func(e *editor) int64 {
		return e.cutOp(e.nth(1, set, "/locks/resized/anchor"), del, "-2-lock-")
	}},
	{name: "permits taken away that are in use", rule: audit.Resize, edit: func(e *editor) int64 {
		e.rename("/locks/resized/", "-lock-0000000001", "-3-lock-0000000001")
		return e.log[e.nth(1, set, "/locks/resized/anchor")].Zxid
	}},
	{name: "another original number of permits", rule: audit.Resize, edit: func(e *editor) int64 {
		x := e.log[e.nth(1, set, "/locks/resized/anchor")]
		e.op(x, set, "anchor").Data = znode.AnchorData{Permits: 2}.Encode()
		return x.Zxid
	}},
	{name: "a reader joins a mutex", rule: audit.Generation, edit: func(e *editor) int64 {
		joins := e.log[e.nth(1, create, "/locks/mutex/", "0002")]
		o := e.op(joins, create, "/locks/mutex/", "0002")
		was := o.Path
		is := strings.Replace(was, "-lock-", "-__READ__", 1)
		for _, x := range e.log {
			for i := range x.Ops {
				if x.Ops[i].Path == was {
					x.Ops[i].Path = is
				}
			}
		}
		return joins.Zxid
	}},
	{name: "an adoption without a guard", rule: audit.Generation, edit: func(e *editor) int64 {
		e.cut(e.nth(1, create, "/locks/found/anchor"))
		return e.cutOp(e.nth(1, del, "/locks/found/anchor"), del, "anchor")
	}},
	{name: "another program's data overwritten", rule: audit.Foreign, edit: func(e *editor) int64 {
		i := e.nth(1, create, "/locks/theirs")
		id := "0123456789abcdef"
		return e.after(i, e.a, txnlog.Op{Kind: create, Path: "/locks/theirs/" + znode.Anchor(id), Data: znode.AnchorData{}.Encode()},
			txnlog.Op{Kind: set, Path: "/locks/theirs", Data: znode.Parent{Kind: znode.Mutex, Generation: id}.Encode()})
	}},
	{name: "another library's entry deleted", rule: audit.Foreign, edit: func(e *editor) int64 {
		i := e.nth(1, del, "/locks/found/_c_")
		e.log[i].Session = e.b
		return e.log[i].Zxid
	}},
	{name: "another library's entry deleted by a client that has only purged", rule: audit.Foreign, edit: func(e *editor) int64 {
		const reaper = 99
		e.log[e.nth(1, del, "/locks/dead/")].Session = reaper
		i := e.nth(1, del, "/locks/found/_c_")
		e.log[i].Session = reaper
		return e.log[i].Zxid
	}},
	{name: "an entry of this format that ends with a session deleted", rule: audit.Foreign, edit: func(e *editor) int64 {
		joins, leaves := e.nth(1, create, "/locks/found/_c_"), e.nth(1, del, "/locks/found/_c_")
		for _, o := range []*txnlog.Op{e.op(e.log[joins], create, "_c_"), e.op(e.log[leaves], del, "_c_")} {
			o.Path = strings.Replace(o.Path, "_c_0000", "0123456789abcdef", 1)
			o.Data = (&znode.Record{Owner: "other", TTL: 1}).Encode()
		}
		e.log[leaves].Session = e.b
		return e.log[leaves].Zxid
	}},
	{name: "a tick recorded by nobody who holds", rule: audit.Tick, edit: func(e *editor) int64 {
		i := e.nth(1, set, "/holdfast-jobs/export")
		e.log[i].Ops = []txnlog.Op{*e.op(e.log[i], set, "/holdfast-jobs/export")}
		return e.log[i].Zxid
	}},
	{name: "a tick recorded twice", rule: audit.Tick, edit: func(e *editor) int64 {
		return e.changeJob(3, `"tick":"2000-01-01T00:01:50Z"`, `"tick":"2000-01-01T00:01:48Z"`)
	}},
	{name: "the end of a run recorded by the next hold", rule: audit.Tick, edit: func(e *editor) int64 {
		for i, x := range e.log {
			if e.op(x, create, "/locks/jobs/export/", "-lock-") != nil {
				e.log[i].Zxid-- // the token has another zxid
			}
			if o := e.op(x, set, "/holdfast-jobs/export"); o != nil && strings.Contains(string(o.Data), `"done"`) {
				return x.Zxid
			}
		}
		return 0
	}},
	{name: "recorded ticks that go back", rule: audit.Tick, edit: func(e *editor) int64 {
		return e.changeJob(2, `"upto":"2000-01-01T00:01:48Z"`, `"upto":"2000-01-01T00:01:46Z"`)
	}},
}

func TestBrokenLogs(t *testing.T) {
	log := play(t)
	for _, tt := range broken {
		t.Run(tt.name, func(t *testing.T) {
			e := edit(t, log)
			want := tt.edit(e)
			opts := tt.opts
			opts.Grace = grace
			r := judged(e.log, []txnlog.Node{}, opts)
			if len(r.Violations) == 0 {
				t.Fatalf("nothing was found; wanted %s at 0x%x; not judged: %v, pending %d", tt.rule, want, r.Unjudged, r.Pending)
			}
			slices.SortStableFunc(r.Violations, func(a, b audit.Violation) int { return int(a.Zxid - b.Zxid) })
			if v := r.Violations[0]; v.Rule != tt.rule || v.Zxid != want {
				t.Errorf("found %v; wanted %s at 0x%x", r.Violations, tt.rule, want)
			}
			t.Log(r.Violations[0])
		})
	}
	t.Logf("%d broken logs", len(broken))
}

// TestOverlap: if another client deletes the entry of a hold, the audit finds the early deletion, and
// that the next hold overlaps with this one.
func TestOverlap(t *testing.T) {
	e := edit(t, play(t))
	i := e.nth(1, del, "/locks/mutex/", "0001")
	e.log[i].Session = e.b
	r := judged(e.log, []txnlog.Node{}, audit.Options{})
	if v := r.Violations; len(v) != 2 || v[0].Rule != audit.Purge || v[1].Rule != audit.Overlap || v[1].Zxid != e.log[e.grantOf("mutex", "0002")].Zxid {
		t.Errorf("found %v", v)
	}
}

// TestDeleteAtTheCountersEnd: an entry from there is never granted, and its name comes again. So a delete
// that the server applies late may be another client's, and is no violation.
func TestDeleteAtTheCountersEnd(t *testing.T) {
	e := edit(t, play(t))
	i := e.nth(1, del, "/locks/ledger/", "0002")
	e.log[i].Session = e.a
	e.rename("/locks/ledger/", "-lock-0000000002", "-lock-2147483647")
	if r := judged(e.log, []txnlog.Node{}, audit.Options{Grace: grace}); len(r.Violations) != 0 {
		t.Errorf("found %v", r.Violations)
	}
}

// TestSlowLeader: a client purges by its own clock, too, and the leader's clock may be slower by up to
// [znode.RateError]. So a deletion that looks earlier by that is no violation.
func TestSlowLeader(t *testing.T) {
	for early, want := range map[time.Duration]int{5 * time.Millisecond: 0, 8 * time.Millisecond: 1} {
		e := edit(t, play(t))
		i := e.nth(1, del, "/locks/mutex/", "0001")
		e.log[i].Session = e.b
		shift := e.log[e.lastly(i, set, "/locks/mutex/", "0001")].Time.Add(ttl + grace - early).Sub(e.log[i].Time)
		for j := i; j < len(e.log); j++ {
			e.log[j].Time = e.log[j].Time.Add(shift)
		}
		if r := judged(e.log, []txnlog.Node{}, audit.Options{Grace: grace}); len(r.Violations) != want {
			t.Errorf("%v early: found %v", early, r.Violations)
		}
	}
}

// TestTimeoutOfSession: that a living holder was purged is proven by its session, which stays open for longer
// than its timeout. For a session from before the log the snapshot has the timeout; without it, nothing is
// proven.
func TestTimeoutOfSession(t *testing.T) {
	e := edit(t, play(t))
	join := e.nth(1, create, "/locks/mutex/", "-lock-")
	i := e.nth(1, del, "/locks/mutex/", "0001")
	e.log[i].Session = e.b
	state := txnlog.NewState()
	for j := range join + 1 {
		state.Apply(&e.log[j])
	}
	for _, timeout := range []time.Duration{timeout, time.Hour, 0} {
		a := audit.New(audit.Options{Grace: grace})
		if err := a.Begin(e.log[join].Zxid, seq(slices.Collect(state.Nodes()))); err != nil {
			t.Fatal(err)
		}
		if timeout > 0 {
			a.Opened(txnlog.Session{ID: e.a, Timeout: timeout})
		}
		for j := join + 1; j < len(e.log); j++ {
			a.Apply(&e.log[j])
		}
		found := slices.ContainsFunc(a.Report().Violations, func(v audit.Violation) bool { return v.Rule == audit.Purge })
		if want := timeout > 0 && timeout < time.Hour; found != want {
			t.Errorf("with a timeout of %v: violations %v", timeout, a.Report().Violations)
		}
	}
}

// TestTimeOfDisputed: the time of disputed transactions counts once. Otherwise a session that such a
// transaction ends seems to stay open, which would prove that a living holder was purged.
func TestTimeOfDisputed(t *testing.T) {
	e := edit(t, play(t))
	i := e.nth(1, del, "/locks/mutex/", "0001")
	e.log[i].Session = e.b
	e.log = e.log[:i+1]
	disputed := txnlog.Txn{Zxid: e.log[i].Zxid, Time: e.log[i].Time.Add(time.Second), Session: e.other, Disputed: true}
	for range int((3*timeout+5*time.Second)/time.Second) + 1 {
		disputed.Zxid++
		e.log = append(e.log, disputed)
	}
	if r := judged(e.log, []txnlog.Node{}, audit.Options{}); len(r.Violations) != 0 {
		t.Errorf("found %v", r.Violations)
	}
}

// TestDisputedEndOfSession: a session that a disputed transaction ends may have its nodes still, also if the
// log does not name them.
func TestDisputedEndOfSession(t *testing.T) {
	e := edit(t, play(t))
	i := slices.IndexFunc(e.log, func(x txnlog.Txn) bool { return x.Session == e.other && x.Ops[0].Kind == txnlog.OpCloseSession })
	e.log[i].Ops[0].Ended, e.log[i].Disputed = nil, true
	e.after(i, e.a, txnlog.Op{Kind: create, Path: "/alive-to-the-end"})
	if r := judged(e.log, []txnlog.Node{}, audit.Options{Grace: grace}); len(r.Violations)+len(r.Restored) > 0 {
		t.Errorf("found %v, restored at %#x", r.Violations, r.Restored)
	}
}

// TestRestored: a log that contradicts itself has no violation for that. The audit tells where the data
// was replaced, or transactions are missing, and does not judge by what was before.
func TestRestored(t *testing.T) {
	for name, change := range map[string]func(e *editor) int64{
		"a node created twice": func(e *editor) int64 {
			i := e.nth(1, create, "/locks/theirs")
			return e.after(i, e.other, e.log[i].Ops[0])
		},
		"a missing node deleted": func(e *editor) int64 {
			return e.after(e.nth(1, create, "/locks/theirs"), e.other, txnlog.Op{Kind: del, Path: "/nowhere"})
		},
		"an entry that joins as the lock's earlier child": func(e *editor) int64 { // the restored data is from before the last join
			i := e.nth(1, set, "/locks/mutex/", "0002")
			x := e.log[e.nth(2, create, "/locks/mutex/", "-lock-")]
			again := *e.op(x, create, "-lock-")
			again.Path = strings.Replace(again.Path, "-lock-", "-r-lock-", 1)
			zxid := e.after(i, e.other, *e.op(x, check, "anchor"), again)
			e.log[i+1].Ops[1].CVersion = again.CVersion
			return zxid
		},
		"a parent deleted with an entry": func(e *editor) int64 {
			e.cut(e.nth(1, del, "/locks/mutex/", "0002"))
			return e.log[e.nth(1, del, "/locks/mutex/anchor")].Zxid
		},
		"a grant after lost transactions": func(e *editor) int64 { // in which the waiter renewed, and the holder left
			i, end := e.nth(2, create, "/locks/mutex/", "-lock-"), e.nth(1, del, "/locks/mutex/", "0001")
			e.log = slices.Delete(e.log, i+1, end+1)
			return e.log[i+1].Zxid
		},
		"an entry that joins after lost ones": func(e *editor) int64 {
			x := e.log[e.nth(2, create, "/locks/mutex/", "-lock-")]
			e.op(x, create, "-lock-").CVersion++
			return x.Zxid
		},
		"a held lock's node created": func(e *editor) int64 { // the restored data is from before the hold
			i := e.nth(1, set, "/locks/mutex/", "0001")
			x := e.log[e.nth(1, create, "/locks/mutex/anchor")]
			ops := slices.Clone(x.Ops)
			for k := range ops {
				ops[k].Path = strings.ReplaceAll(ops[k].Path, "0000000001", "0000000000")
			}
			return e.after(i, e.b, ops...)
		},
	} {
		e := edit(t, play(t))
		want := change(e)
		r := judged(e.log, []txnlog.Node{}, audit.Options{Grace: grace})
		if len(r.Violations) > 0 || len(r.Restored) == 0 || r.Restored[0] != want {
			t.Errorf("%s: violations %v, restored at %#x; want %#x", name, r.Violations, r.Restored, want)
		}
	}
}

// TestDisputedChild: after a disputed creation below a lock's node the number of its next child is not known.
func TestDisputedChild(t *testing.T) {
	for count := range int32(2) {
		e := edit(t, play(t))
		i := e.nth(2, create, "/locks/mutex/", "-lock-")
		last := e.op(e.log[i], create, "-lock-").CVersion
		e.after(i, e.other, txnlog.Op{Kind: create, Path: "/locks/mutex/sub"})
		e.log[i+1].Disputed, e.log[i+1].Ops[0].CVersion = true, last+1
		e.after(i+1, e.other, txnlog.Op{Kind: create, Path: "/locks/mutex/next"})
		e.log[i+2].Ops[0].CVersion = last + 1 + count
		e.log = e.log[:i+3]
		if r := judged(e.log, []txnlog.Node{}, audit.Options{Grace: grace}); len(r.Violations)+len(r.Restored) > 0 {
			t.Errorf("found %v, restored at %#x", r.Violations, r.Restored)
		}
	}
}

// TestDocHasRules: the package's doc has all rules.
func TestDocHasRules(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range audit.Rules() {
		if !strings.Contains(string(doc), "\n//\t"+string(rule)+" ") {
			t.Errorf("doc.go lacks the rule %s", rule)
		}
	}
}
