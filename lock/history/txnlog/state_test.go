// Tests of State, the tree of nodes that results from transactions.

package txnlog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func apply(s *State, zxid, session int64, ops ...Op) *Txn {
	t := &Txn{Zxid: zxid, Time: start, Session: session, Ops: ops}
	s.Apply(t)
	return t
}

func tree(s *State) string {
	var b strings.Builder
	for n := range s.Nodes() {
		fmt.Fprintf(&b, "%s=%s ", n.Path, n.Data)
	}
	return strings.TrimSpace(b.String())
}

func create(path, data string, ephemeral bool, cversion int32) Op {
	return Op{Kind: OpCreate, Path: path, Data: []byte(data), Ephemeral: ephemeral, CVersion: cversion}
}

// TestStateEndOfSession: the end of a session deletes its ephemeral nodes, whether the log names
// them or not.
func TestStateEndOfSession(t *testing.T) {
	s := NewState()
	apply(s, 1, 7, Op{Kind: OpBeginSession, Timeout: time.Minute})
	apply(s, 2, 7, create("/a", "", false, 1))
	apply(s, 3, 7, create("/a/e1", "", true, 1), create("/a/e2", "", true, 2))
	apply(s, 4, 8, create("/a/e3", "", true, 3))
	if timeout, ok := s.Session(7); !ok || timeout != time.Minute {
		t.Errorf("session 7 has a timeout of %v (%v)", timeout, ok)
	}
	txn := apply(s, 5, 7, Op{Kind: OpCloseSession})
	if want := []string{"/a/e1", "/a/e2"}; !slices.Equal(txn.Ops[0].Ended, want) {
		t.Errorf("ended: %q, want %q", txn.Ops[0].Ended, want)
	}
	if _, ok := s.Session(7); ok {
		t.Error("session 7 is still open")
	}
	apply(s, 6, 8, Op{Kind: OpCloseSession, Ended: []string{"/a/e3"}})
	if got := tree(s); got != "/= /a=" || s.Len() != 2 || s.Zxid() != 6 {
		t.Errorf("%s at zxid %d", got, s.Zxid())
	}
	if n, _ := s.Node("/a"); n.Pzxid != 6 || n.CVersion != 3 {
		t.Errorf("parent %+v", n)
	}
}

// TestStateFuzzy: transactions that a fuzzy snapshot already shows can be applied again, and give
// the exact tree.
func TestStateFuzzy(t *testing.T) {
	history := [][]Op{
		{create("/a", "1", false, 1)},
		{create("/a/x", "1", false, 1)},
		{{Kind: OpSetData, Path: "/a/x", Data: []byte("2"), Version: 1}},
		{{Kind: OpDelete, Path: "/a/x"}},
		{create("/a/x", "3", true, 2)},
		{{Kind: OpSetData, Path: "/a", Data: []byte("2"), Version: 1}, {Kind: OpCheck, Path: "/a/x"}},
		{{Kind: OpError, Err: -101}},
		{{Kind: OpCloseSession}},
		{create("/a/x", "4", false, 3), {Kind: OpDelete, Path: "/a/none"}},
	}
	run := func(s *State, from, to int) {
		for i := from; i < to; i++ {
			apply(s, int64(i+1), 7, history[i]...)
		}
	}
	whole := NewState()
	run(whole, 0, len(history))
	for from := range history {
		for to := from; to <= len(history); to++ {
			// The snapshot begins after transaction from, and shows all transactions up to the
			// transaction to.
			fuzzy := NewState()
			run(fuzzy, 0, to)
			fuzzy.zxid, fuzzy.latest = int64(from), int64(to)
			run(fuzzy, from, len(history))
			if !fuzzy.Exact() {
				t.Errorf("snapshot from %d to %d: not exact", from, to)
			}
			for n := range whole.Nodes() {
				if got, _ := fuzzy.Node(n.Path); fmt.Sprint(got) != fmt.Sprint(n) {
					t.Errorf("snapshot from %d to %d: node %+v, want %+v", from, to, got, n)
				}
			}
			if fuzzy.Len() != whole.Len() {
				t.Errorf("snapshot from %d to %d: %s, want %s", from, to, tree(fuzzy), tree(whole))
			}
		}
	}
}

// TestStateData: a state has its own copy of a transaction's data.
func TestStateData(t *testing.T) {
	s := NewState()
	data := []byte("data")
	apply(s, 1, 7, Op{Kind: OpCreate, Path: "/a", Data: data, CVersion: -1})
	data[0] = 'X'
	apply(s, 2, 7, Op{Kind: OpSetACL, Path: "/a", ACL: openACL, Version: 4}, Op{Kind: OpReconfig, Path: "/none"})
	if n, _ := s.Node("/a"); string(n.Data) != "data" || n.AVersion != 4 || len(n.ACL) != 1 {
		t.Errorf("node %+v", n)
	}
	if n, _ := s.Node("/"); n.CVersion != 1 {
		t.Errorf("root %+v", n)
	}
}

// TestLoadFails: Load of a broken snapshot returns an error, and the state is empty afterwards.
func TestLoadFails(t *testing.T) {
	dir, _ := unpack(t, "3.9.5", "")
	l := mustOpen(t, dir)
	data := gunzip(t, "testdata/3.9.5/snapshot.20.gz")
	for at := 0; at < len(data)-60; at++ { // what follows the first checksum is not read
		broken := write(t, map[string][]byte{"snapshot.20": data[:at]})
		s := NewState()
		if err := s.Load(mustOpen(t, broken).Snapshots()[0]); err == nil || s.Len() != 0 {
			t.Fatalf("cut at %d: error %v, %d nodes", at, err, s.Len())
		}
		flipped := slices.Clone(data)
		flipped[at] ^= 0x10
		broken = write(t, map[string][]byte{"snapshot.20": flipped})
		err := NewState().Load(mustOpen(t, broken).Snapshots()[0])
		if err == nil && (at < 8 || at >= fileHeaderSize) { // dbid is not used, but it is in the checksum
			t.Fatalf("flipped at %d: no error", at)
		}
		if at > 100 {
			at += 6
		}
	}
	if snaps := l.SnapshotsFor(Range{From: 0x20}); len(snaps) != 0 {
		t.Errorf("snapshots before it: %v", snaps)
	}
	if snaps := l.SnapshotsFor(Range{From: 0x21}); len(snaps) != 1 {
		t.Errorf("snapshots: %v", snaps)
	}
}
