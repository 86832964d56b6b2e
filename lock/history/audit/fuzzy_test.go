// A server saves a snapshot while it goes on writing: it copies a node and the list of its children,
// then visits the children one by one (DataTree.serializeNode). A node that is deleted meanwhile is
// missing from the file, and its parent shows the time before.
//
// A valid log has no violation, whatever snapshot the audit begins with. And the history says of each
// moment after the snapshot what it says when it has the whole log, or that it does not know.
package audit_test

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/lock/history"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// states returns the nodes after each of the first transactions.
func states(log []txnlog.Txn) (all []map[string]txnlog.Node) {
	state := txnlog.NewState()
	for i := 0; ; i++ {
		now := map[string]txnlog.Node{}
		for n := range state.Nodes() {
			now[n.Path] = n
		}
		all = append(all, now)
		if i == len(log) {
			return all
		}
		state.Apply(&log[i])
	}
}

// fuzzy returns a snapshot that the server begins after the transaction at, and in which it has
// applied one more transaction after each pace nodes.
func fuzzy(all []map[string]txnlog.Node, at, pace int) (nodes []txnlog.Node, last int) {
	visited := 0
	now := func() map[string]txnlog.Node { return all[min(at+visited/pace, len(all)-1)] }
	var visit func(path string)
	visit = func(path string) {
		n, ok := now()[path]
		if !ok {
			return
		}
		var children []string
		for p := range now() {
			if txnlog.Parent(p) == path && p != "/" {
				children = append(children, p)
			}
		}
		slices.Sort(children)
		nodes = append(nodes, n)
		visited++
		for _, c := range children {
			visit(c)
		}
	}
	visit("/")
	return nodes, min(at+visited/pace, len(all)-1)
}

func seq(nodes []txnlog.Node) iter.Seq2[txnlog.Node, error] {
	return func(yield func(txnlog.Node, error) bool) {
		for _, n := range nodes {
			if !yield(n, nil) {
				return
			}
		}
	}
}

func txns(log []txnlog.Txn) iter.Seq2[txnlog.Txn, error] {
	return func(yield func(txnlog.Txn, error) bool) {
		for _, x := range log {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// unknown is what holders says of a moment at which not all locks are known.
const unknown = "not known"

func holders(begin int64, nodes []txnlog.Node, log []txnlog.Txn, at []history.Asked) map[int64]string {
	m := history.New(history.Options{Root: "/locks", At: at}, func(history.Event) {})
	if err := m.Begin(begin, txnlog.Exact(begin, seq(nodes), txns(log), m.Keep)); err != nil {
		panic(err)
	}
	for i := range log {
		m.Apply(&log[i])
	}
	m.End()
	said := map[int64]string{}
	for _, moment := range m.Moments() {
		var all []string
		blind := moment.Blind
		for _, l := range moment.Locks {
			blind = blind || l.Unknown
			for _, h := range l.Holders {
				all = append(all, l.Lock+": "+h.Client.Owner)
			}
		}
		if said[moment.Asked.Zxid] = strings.Join(all, ", "); blind {
			said[moment.Asked.Zxid] = unknown
		}
	}
	return said
}

func TestFuzzyAudit(t *testing.T) {
	log := play(t)
	all := states(log)
	seen, restored := map[string]int{}, 0
	for at := 1; at < len(log); at++ {
		for _, pace := range []int{1, 2, 5, 20} {
			nodes, _ := fuzzy(all, at, pace)
			r := judged(log[at:], nodes, audit.Options{Grace: grace})
			restored += len(r.Restored)
			for _, v := range r.Violations {
				if seen[string(v.Rule)]++; seen[string(v.Rule)] <= 3 {
					t.Errorf("a snapshot at 0x%x, a write each %d nodes: %v", log[at-1].Zxid, pace, v)
				}
			}
		}
	}
	if t.Logf("false violations: %v", seen); restored > 0 {
		t.Errorf("%d contradictions", restored)
	}
}

func TestFuzzyHistory(t *testing.T) {
	log := play(t)
	all := states(log)
	var asked []history.Asked
	for _, x := range log {
		asked = append(asked, history.Asked{Zxid: x.Zxid})
	}
	truth := holders(0, nil, log, asked)
	wrong, moments, vague := 0, 0, 0
	for at := 1; at < len(log); at++ {
		for _, pace := range []int{1, 2, 5, 20} {
			nodes, _ := fuzzy(all, at, pace)
			said := holders(log[at-1].Zxid, nodes, log[at:], asked[at:])
			for _, a := range asked[at:] {
				if moments++; said[a.Zxid] == unknown {
					vague++
					continue
				}
				if said[a.Zxid] != truth[a.Zxid] {
					if wrong++; wrong <= 8 {
						t.Errorf("a snapshot at 0x%x, a write each %d nodes: at 0x%x it names %q, the whole log %q", log[at-1].Zxid, pace, a.Zxid, said[a.Zxid], truth[a.Zxid])
					}
				}
			}
		}
	}
	t.Logf("of %d moments %d are wrong, and %d not known", moments, wrong, vague)
	if vague == 0 || vague > moments/4 {
		t.Errorf("%d of %d moments are not known", vague, moments)
	}
}
