package txnlogs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// read returns all transactions and problems of the logs in the folders.
func read(t *testing.T, dirs ...string) (txns []txnlog.Txn, problems []*txnlog.Problem) {
	t.Helper()
	for txn, err := range open(t, dirs...).Txns(txnlog.Range{}) {
		var p *txnlog.Problem
		if errors.As(err, &p) {
			problems = append(problems, p)
			continue
		}
		txns = append(txns, txn)
	}
	return txns, problems
}

func version(t *testing.T, s *zkserver.Server) zkserver.Version {
	t.Helper()
	v, err := s.Version(t.Context())
	iferr.Fatal(t, err)
	return v
}

// TestDiscarded: a leader logs writes that no follower gets, is killed, and comes back when another one leads. The
// folders, each alone, in pairs, and all together, name the holders that the clients saw, or say that they do not
// know. In the first round the next leader has no committed log, and sends the old one a snapshot of its epoch's
// beginning, so that no counter shows what was discarded; before 3.5 it has that log, and tells the old one to
// truncate its own. In the second round the old leader is elected again, saves a snapshot of what it logged, and is
// killed before a follower reaches it.
func TestDiscarded(t *testing.T) {
	eachRelease(t, func(t *testing.T, in zkserver.Installation) {
		// A leader without followers is to stay one until it is killed (syncLimit), and no leader to send what its log has
		// of the epochs before instead of a snapshot (snapshotSizeFactor).
		e := zkserver.EnsembleForTest(t, 3, zkserver.Options{Installation: in, Links: true, TickTime: 200 * time.Millisecond,
			Config: []string{"initLimit=50", "syncLimit=600"}, JVMArgs: []string{"-Dzookeeper.snapCount=100", "-Dzookeeper.preAllocSize=64", "-Dzookeeper.snapshotSizeFactor=-1"}})
		w := newTraffic(t, e.Addrs())
		rounds := []bool{false, true}
		if v := version(t, e.Servers()[0]); v.Number[0] == 3 && v.Number[1] < 5 { // it saves no snapshot then
			rounds = rounds[:1]
		}
		for _, again := range rounds {
			w.ok(e.Whole(t.Context()))
			w.run(4, 3, w.after(40))
			discard(w, e, again)
		}
		w.ok(e.Whole(t.Context()))
		w.run(4, 3, w.after(40))
		elections, _ := read(t, e.Servers()[0].DataDir())
		late := txnlog.Range{From: elections[len(elections)-1].Zxid + 1} // what is before comes from snapshots
		w.run(4, 3, w.after(40))
		for set := 1; set < 8; set++ {
			var dirs []string
			for i, s := range e.Servers() {
				if set&(1<<i) != 0 {
					dirs = append(dirs, s.DataDir())
				}
			}
			right, unknown := w.check(fmt.Sprintf("servers %03b", set), txnlog.Range{}, dirs...)
			t.Logf("servers %03b: %d marks told, %d not known", set, right, unknown)
			if right < unknown {
				t.Errorf("servers %03b: only %d marks are told, and %d not known", set, right, unknown)
			}
			right, unknown = w.check(fmt.Sprintf("servers %03b, late", set), late, dirs...)
			t.Logf("servers %03b, late: %d marks told, %d not known", set, right, unknown)
		}
	})
}

// discard has the leader log writes that no follower gets, and the other servers elect another leader, see
// TestDiscarded.
func discard(w *traffic, e *zkserver.Ensemble, again bool) {
	w.Helper()
	ctx := w.Context()
	leader, err := e.Leader(ctx)
	w.ok(err)
	others := slices.DeleteFunc(slices.Clone(e.Servers()), func(s *zkserver.Server) bool { return s == leader })
	restart := func(servers ...*zkserver.Server) error {
		return wait.All(len(servers), func(i int) error { return servers[i].Restart(ctx) })
	}
	lost := newTraffic(w.TB, []string{leader.Addr()})
	z := lost.connect()
	some := lost.after(10)
	var done atomic.Bool
	var clients sync.WaitGroup
	clients.Go(func() { lost.run(8, 8, done.Load) })
	w.ok(wait.Until(ctx, patience, "marks", func() (bool, error) { return some(), nil }))
	for _, s := range others { // until they are killed: so they neither log what the leader sends, nor elect another one yet
		w.ok(s.Pause())
	}
	path := fmt.Sprintf("/discarded-%v", again)
	clients.Go(func() { _, _ = z.Create(path, nil, 0, zk.WorldACL(zk.PermAll)) }) // there is no majority to confirm it
	var zxid int64
	w.ok(wait.Until(ctx, patience, "a write that no follower gets", func() (bool, error) {
		zxid = created(w, leader, path)
		return zxid > 0, nil
	}))
	done.Store(true)
	for _, s := range e.Servers() {
		s.Kill()
	}
	if !again {
		for range 2 { // the second time without a write since the last snapshot
			w.ok(restart(others...))
		}
	} else {
		e.Strand(leader)
		alone, stop := context.WithCancel(ctx)
		defer stop()
		ended, serves := make(chan error, 1), make(chan error, 1)
		go func() { ended <- leader.Restart(alone) }()
		go func() { serves <- others[0].Restart(ctx) }() // with one other the leader has a majority, and the latest writes
		w.ok(wait.Until(ctx, patience, "a snapshot of discarded writes", func() (bool, error) { return saved(w, leader) >= zxid, nil }))
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Fatalf("the leader that no server can follow: %v", err)
		}
		w.ok(others[1].Restart(ctx))
		w.ok(<-serves)
		// After a write the next leader sends the old one a snapshot. Otherwise that would truncate its log, load
		// the snapshot of the discarded writes, and serve those to clients.
		newTraffic(w.TB, []string{others[0].Addr(), others[1].Addr()}).connect()
		e.Heal()
	}
	w.ok(restart(leader))
	for _, o := range others {
		if created(w, o, path) != 0 {
			w.Fatal("a follower had got the write")
		}
	}
	w.Logf("discarded: %#x; the old leader's newest snapshot: %#x", zxid, saved(w, leader))
	clients.Wait() // they have no other server
	maps.Copy(w.marks, lost.marks)
}

// saved returns the zxid of a server's newest whole snapshot.
func saved(t testing.TB, s *zkserver.Server) int64 {
	for _, snap := range open(t, s.DataDir()).SnapshotsFor(txnlog.Range{From: math.MaxInt64}) {
		return snap.Zxid
	}
	return 0
}

// created returns the zxid of a node's creation in a server's log; 0 if it is not there.
func created(t testing.TB, s *zkserver.Server, path string) int64 {
	for txn, err := range open(t, s.DataDir()).Txns(txnlog.Range{}) {
		if err == nil && txn.Ops[0].Kind == txnlog.OpCreate && txn.Ops[0].Path == path {
			return txn.Zxid
		}
	}
	return 0
}

// TestReconfiguration: the removal of a follower is in the leader's log, with the new
// configuration.
func TestReconfiguration(t *testing.T) {
	zkserver.NeedReal(t)
	e := zkserver.EnsembleForTest(t, 3, zkserver.Options{Config: []string{"reconfigEnabled=true"}, JVMArgs: []string{"-Dzookeeper.skipACL=yes"}})
	leader, err := e.Leader(t.Context())
	iferr.Fatal(t, err)
	if v := version(t, leader); v.Number[0] == 3 && v.Number[1] < 5 {
		t.Skip("releases before 3.5 do not reconfigure")
	}
	iferr.Fatal(t, e.Whole(t.Context()))
	z := newTraffic(t, []string{leader.Addr()}).connect()
	follower := slices.IndexFunc(e.Servers(), func(s *zkserver.Server) bool { return s != leader })
	stat, err := z.IncrementalReconfig(nil, []string{fmt.Sprint(follower + 1)}, -1)
	iferr.Fatal(t, err)
	config, _, err := z.Get("/zookeeper/config")
	iferr.Fatal(t, err)
	txns, problems := read(t, leader.DataDir())
	if len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
	i := slices.IndexFunc(txns, func(t txnlog.Txn) bool { return t.Ops[0].Kind == txnlog.OpReconfig })
	if i < 0 || txns[i].Zxid != stat.Mzxid || txns[i].Ops[0].Path != "/zookeeper/config" || string(txns[i].Ops[0].Data) != string(config) {
		t.Errorf("no reconfiguration of zxid %#x to\n%s\nin %v", stat.Mzxid, config, txns)
	}
}
