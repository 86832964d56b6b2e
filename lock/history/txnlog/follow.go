package txnlog

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// Follower keeps a state of its own along a log, see [Log.Follow].
type Follower interface {
	// Keep reports whether Begin needs the node at the path.
	Keep(path string) bool
	// Begin replaces the state by that after the transaction zxid. The nodes are those of [Exact]. After
	// an error Follow calls Gap.
	Begin(zxid int64, nodes iter.Seq2[Node, error]) error
	// Opened tells of a session that was open after the transaction of the last Begin.
	Opened(Session)
	// Gap tells that the state is not known here: transactions are missing before the next one.
	Gap()
	// Blind reports whether there is state that is not known, so that Follow calls Begin at the next
	// snapshot.
	Blind() bool
	// Apply applies the next transaction. The follower may use it until the next call of a method.
	Apply(*Txn)
}

// Follow gives f the state before the range and all transactions after it, up to the range's end. It
// begins with the newest snapshot that is older than the range, and has no transactions that the next
// leader may have discarded. Without one, as in a folder that the server purges, it begins with the
// oldest transactions and a Gap, and f learns the state from the first such snapshot that they reach.
// So it does after each gap. The first transaction of all follows an empty state. warn gets the
// problems of the files. Follow returns the path of the first snapshot that it used, or "". It fails
// only if ctx ends.
func (l *Log) Follow(ctx context.Context, r Range, f Follower, warn func(error)) (snapshot string, err error) {
	w := &follow{Log: l, f: f, warn: warn, to: Range{To: r.To, Until: r.Until}, last: -1, unfit: map[*Snapshot]bool{}}
	if first := l.firstZxid(); first != 1 || r.From > 1 || !r.Since.IsZero() { // else the log begins with an empty ensemble
		for _, s := range l.SnapshotsFor(r) {
			if w.load(s) {
				break
			}
		}
	} else if err := f.Begin(0, func(func(Node, error) bool) {}); err != nil {
		warn(err)
	} else {
		w.last = 0
	}
	if w.last < 0 {
		f.Gap()
	}
	r = w.to
	if w.last >= 0 {
		r.From = w.last + 1
	}
	for t, err := range l.Txns(r) {
		switch {
		case ctx.Err() != nil:
			return w.used, context.Cause(ctx)
		case err != nil:
			w.problem(err)
		default:
			if w.last < 0 {
				w.last = t.Zxid - 1
			}
			w.learn(t.Zxid)
			f.Apply(&t)
			if w.last = max(w.last, t.Zxid); t.Disputed {
				w.gone = append(w.gone, span{t.Zxid, t.Zxid})
			}
		}
	}
	if r.To == 0 && r.Until.IsZero() {
		w.learn(1<<63 - 1)
	}
	return w.used, nil
}

// firstZxid returns the first zxid of the oldest log; 0 if there is none.
func (l *Log) firstZxid() int64 {
	if len(l.logs) == 0 || l.logs[0].time.IsZero() { // the name may be wrong
		return 0
	}
	return l.logs[0].first
}

// follow is the work of [Log.Follow].
type follow struct {
	*Log
	f     Follower
	warn  func(error)
	to    Range              // its end
	last  int64              // the last transaction that f knows, or that is missing; -1: none yet
	gone  []span             // transactions that the next leader may have discarded, in their order
	tried int                // number of snapshots that are older than the last transaction, or were tried
	unfit map[*Snapshot]bool // those that show such a transaction: each is warned of once
	used  string             // path of the first snapshot that f began with
}

func (w *follow) problem(err error) {
	w.warn(err)
	var p *Problem
	if errors.As(err, &p) && p.breaks() {
		w.f.Gap()
		if w.last = max(w.last, p.Until); p.Kind == ProblemEpoch {
			w.gone = append(w.gone, span{p.Zxid, p.Until})
		}
	}
}

// doubtful reports whether the next leader may have discarded the transaction: the logs go on with
// another epoch, and none has it, or another folder goes on without it. If transactions are missing
// there, it is not in doubt: the servers got it in a snapshot. Nor is 0, the state of a new ensemble.
func (l *Log) doubtful(zxid int64) bool {
	for t, err := range l.again().Txns(Range{From: zxid}) {
		var p *Problem
		switch {
		case err == nil:
			fresh := zxid == 0 && t.Zxid == znode.EpochStart(1)+1
			return t.Disputed || t.Zxid != zxid && znode.Elected(zxid, t.Zxid) && !fresh
		case errors.As(err, &p) && p.breaks() && (zxid < p.Zxid || zxid > p.Until):
			return false
		}
	}
	return false
}

// again returns the log without progress, for transactions that are read twice.
func (l *Log) again() *Log {
	again := *l
	again.Progress = nil
	return &again
}

// learn has f begin anew, if it is blind, with a snapshot between the last transaction and the next. A
// server that restarts saves what its log has, before the leader tells it what to discard of that.
func (w *follow) learn(next int64) {
	doubt := int64(0) // the last transaction that may be discarded
	if n := len(w.gone); n > 0 {
		doubt = w.gone[n-1].to
	}
	for ; w.tried < len(w.snaps) && w.snaps[w.tried].Zxid < next; w.tried++ {
		if s := w.snaps[w.tried]; w.f.Blind() && s.Zxid >= w.last && s.Zxid > doubt && s.whole() {
			w.load(s)
		}
	}
}

// span has the transactions from one zxid to another; none if it is the higher one.
type span struct{ from, to int64 }

// sound returns an error if the snapshot shows a transaction that the next leader may have discarded. A
// leader that saved one, and was not elected again, truncates its log, but loads that snapshot: then the
// transaction stays in its data, and in its later snapshots. As leaders discard the end of an epoch, the
// last transaction that the snapshot shows of each tells whether it does.
func (w *follow) sound(s *Snapshot) error {
	first := w.firstZxid()
	now := znode.Epoch(s.Zxid)
	if len(w.gone) == 0 && (first == 0 || znode.Epoch(first) == now) {
		return nil
	}
	last := map[int64]int64{} // by epoch
	for n, err := range s.Nodes() {
		if err != nil {
			return nil // Begin will tell
		}
		for _, zxid := range []int64{n.Czxid, n.Mzxid, n.Pzxid} {
			if slices.ContainsFunc(w.gone, func(g span) bool { return zxid >= g.from && zxid <= g.to }) {
				return unsound(s, zxid)
			}
			if epoch := znode.Epoch(zxid); first > 0 && zxid >= first && epoch < now {
				last[epoch] = max(last[epoch], zxid)
			}
		}
	}
	for _, epoch := range slices.Sorted(maps.Keys(last)) {
		if w.doubtful(last[epoch]) {
			return unsound(s, last[epoch])
		}
	}
	return nil
}

func unsound(s *Snapshot, zxid int64) error {
	return &Problem{Kind: ProblemDisputed, File: s.Path, Zxid: zxid, Until: zxid, Count: 1}
}

// load has f begin with the snapshot; false if that cannot be read, or may have transactions that the
// next leader discarded.
func (w *follow) load(s *Snapshot) bool {
	if w.unfit[s] || w.doubtful(s.Zxid) {
		return false
	}
	if err := w.sound(s); err != nil {
		w.unfit[s] = true
		w.warn(err)
		return false
	}
	r := w.to
	r.From = s.Zxid + 1
	err := w.f.Begin(s.Zxid, Exact(s.Zxid, s.Nodes(), w.again().Txns(r), w.f.Keep))
	for session, wrong := range s.Sessions() {
		if err = errors.Join(err, wrong); err == nil {
			w.f.Opened(session)
		}
	}
	if err != nil {
		w.warn(err)
		w.f.Gap()
		return false
	}
	if w.last = s.Zxid; w.used == "" {
		w.used = s.Path
	}
	return true
}

// Exact returns the nodes that existed after the transaction zxid, of which a snapshot shows nodes and
// the log shows the later transactions. A server saves its nodes while it changes them, so that a
// snapshot has nodes that are created later, and lacks some that are deleted later. Exact leaves out
// the former. The latter come last, as far as the log names them, with [Node.Lost]. A node with a
// higher Mzxid has the data of that later transaction. keep selects nodes by their paths.
func Exact(zxid int64, nodes iter.Seq2[Node, error], later iter.Seq2[Txn, error], keep func(path string) bool) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		deleted := deletedBefore(later, keep)
		for n, err := range nodes {
			if err == nil && (n.Czxid > zxid || !keep(n.Path)) {
				continue
			}
			delete(deleted, n.Path)
			if !yield(n, err) || err != nil {
				return
			}
		}
		createdFirst(later, deleted)
		for _, path := range slices.Sorted(maps.Keys(deleted)) {
			if !yield(Node{Path: path, Lost: true}, nil) {
				return
			}
		}
	}
}

// deletedBefore returns the paths of nodes that the transactions delete without having created them. It
// ends where transactions are missing.
func deletedBefore(txns iter.Seq2[Txn, error], keep func(path string) bool) map[string]bool {
	deleted, created := map[string]bool{}, map[string]bool{}
	for t, err := range txns {
		var p *Problem
		if errors.As(err, &p) && p.breaks() {
			break
		}
		for i := range t.Ops {
			op := &t.Ops[i]
			switch {
			case op.Kind == OpCreate && keep(op.Path):
				created[op.Path] = true
			case op.Kind == OpDelete, op.Kind == OpCloseSession:
				for _, path := range op.removes() {
					if keep(path) && !created[path] && !t.Disputed {
						deleted[path] = true
					}
					if !t.Disputed {
						delete(created, path)
					}
				}
			}
		}
	}
	return deleted
}

// createdFirst takes those of the paths away that the transactions create before they delete them: the data was
// restored in between, so that they are deleted twice.
func createdFirst(txns iter.Seq2[Txn, error], paths map[string]bool) {
	left := len(paths) // of which the first operation was not read yet
	for t := range txns {
		if left == 0 {
			return
		}
		for i := range t.Ops {
			op := &t.Ops[i]
			switch {
			case op.Kind == OpCreate && paths[op.Path]:
				delete(paths, op.Path)
				left--
			case op.Kind == OpDelete, op.Kind == OpCloseSession:
				for _, path := range op.removes() {
					if paths[path] && !t.Disputed {
						paths[path] = false
						left--
					}
				}
			}
		}
	}
}

// removes returns the paths of the nodes that the operation deletes, as far as the log names them.
func (op *Op) removes() []string {
	if op.Kind == OpDelete {
		return []string{op.Path}
	}
	return op.Ended
}
