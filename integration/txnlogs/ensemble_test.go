package txnlogs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// dial opens a session at one server.
func dial(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	z, _, err := zk.Connect([]string{addr}, time.Minute, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Close)
	return z
}

// read returns all transactions and problems of the logs in the folders.
func read(t *testing.T, dirs ...string) (txns []txnlog.Txn, problems []*txnlog.Problem) {
	t.Helper()
	l, err := txnlog.Open(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	for txn, err := range l.Txns(txnlog.Range{}) {
		var p *txnlog.Problem
		if errors.As(err, &p) {
			problems = append(problems, p)
			continue
		}
		txns = append(txns, txn)
	}
	return txns, problems
}

// writes returns the data of all creates and sets of a node, in their order. That of disputed ones has a
// question mark.
func writes(txns []txnlog.Txn, path string) string {
	var all []string
	for _, t := range txns {
		for _, op := range t.Ops {
			if op.Path == path && (op.Kind == txnlog.OpSetData || op.Kind == txnlog.OpCreate) {
				data := string(op.Data)
				if t.Disputed {
					data += "?"
				}
				all = append(all, data)
			}
		}
	}
	return strings.Join(all, " ")
}

// TestEnsemble: if a leader logs a write that no follower gets, and is killed, the logs of the
// servers show that it is not known whether the write took effect. After the leader has restarted, the
// logs have all other writes.
func TestEnsemble(t *testing.T) {
	zkserver.NeedReal(t)
	ctx := t.Context()
	e := zkserver.EnsembleForTest(t, 3, zkserver.Options{Links: true})
	leader, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Whole(ctx); err != nil {
		t.Fatal(err)
	}
	z := dial(t, leader.Addr())
	set := func(z *zk.Conn, data string) {
		t.Helper()
		if _, err := z.Set("/e", []byte(data), -1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := z.Create("/e", []byte("0"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 5; i++ {
		set(z, fmt.Sprint(i))
	}
	var followers []*zkserver.Server
	for _, s := range e.Servers() {
		if s != leader {
			followers = append(followers, s)
		}
	}
	// The followers must have all writes except the last.
	for _, f := range followers {
		await(t, "5", f.DataDir())
		e.Part(leader, f)
	}
	go z.Set("/e", []byte("lost"), -1)
	await(t, "lost", leader.DataDir())
	leader.Kill()
	y := dial(t, followers[0].Addr())
	if err := wait.Until(ctx, patience, "a write", func() (bool, error) {
		_, err := y.Set("/e", []byte("kept"), -1)
		return err == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	await(t, "kept", followers[0].DataDir())
	await(t, "kept", followers[1].DataDir())

	broken, healthy := leader.DataDir(), followers[0].DataDir()
	if txns, problems := read(t, broken); !strings.HasSuffix(writes(txns, "/e"), "5 lost") || len(problems) > 0 {
		t.Errorf("the leader's folder alone: writes %q, problems %v", writes(txns, "/e"), problems)
	}
	for _, dirs := range [][]string{{broken, healthy}, {healthy, broken}, {broken, followers[1].DataDir(), healthy}} {
		txns, problems := read(t, dirs...)
		if !slices.ContainsFunc(problems, func(p *txnlog.Problem) bool {
			return p.Kind == txnlog.ProblemDisputed && p.Count == 1 && slices.Equal(p.Dirs, []string{broken})
		}) || len(problems) > 1 {
			t.Errorf("%q: problems %v", dirs, problems)
		}
		if got, want := writes(txns, "/e"), "0 1 2 3 4 5 lost? kept"; got != want {
			t.Errorf("%q: writes %q, want %q", dirs, got, want)
		}
	}

	// The leader restarts. Its log is truncated, or keeps the write and goes on after a snapshot.
	e.Heal()
	if err := leader.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := e.Whole(ctx); err != nil {
		t.Fatal(err)
	}
	set(y, "again")
	var dirs []string
	for _, s := range e.Servers() {
		await(t, "again", s.DataDir())
		dirs = append(dirs, s.DataDir())
	}
	txns, problems := read(t, dirs...)
	if got, want := strings.ReplaceAll(writes(txns, "/e"), " lost?", ""), "0 1 2 3 4 5 kept again"; got != want {
		t.Errorf("writes %q, want %q", got, want)
	}
	for _, p := range problems {
		if p.Kind != txnlog.ProblemDisputed && p.Kind != txnlog.ProblemEpoch {
			t.Error(p)
		}
	}
	t.Logf("after the leader came back: %v", problems)
	state := txnlog.NewState(nil)
	for i := range txns {
		state.Apply(&txns[i])
	}
	compareNodes(t, state, nodes(t, y))
}

func version(t *testing.T, s *zkserver.Server) zkserver.Version {
	t.Helper()
	mntr, err := s.Mntr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v, err := zkserver.ParseVersion(strings.SplitN(mntr["zk_version"], ",", 2)[0])
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// await waits until the log in a folder has a write of the data.
func await(t *testing.T, data, dir string) {
	t.Helper()
	err := wait.Until(t.Context(), patience, fmt.Sprintf("%q in %s", data, dir), func() (bool, error) {
		txns, problems := read(t, dir)
		for _, p := range problems {
			// A transaction may be incomplete while it is written, and a restarted server may get a
			// snapshot instead of the transactions that it missed.
			if p.Kind != txnlog.ProblemTruncated && p.Kind != txnlog.ProblemGap && p.Kind != txnlog.ProblemEpoch {
				return false, p
			}
		}
		for _, txn := range txns {
			for _, op := range txn.Ops {
				if string(op.Data) == data {
					return true, nil
				}
			}
		}
		return false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReconfiguration: the removal of a follower is in the leader's log, with the new
// configuration.
func TestReconfiguration(t *testing.T) {
	zkserver.NeedReal(t)
	e := zkserver.EnsembleForTest(t, 3, zkserver.Options{Config: []string{"reconfigEnabled=true"}, JVMArgs: []string{"-Dzookeeper.skipACL=yes"}})
	leader, err := e.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v := version(t, leader); v.Number[0] == 3 && v.Number[1] < 5 {
		t.Skip("releases before 3.5 do not reconfigure")
	}
	if err := e.Whole(t.Context()); err != nil {
		t.Fatal(err)
	}
	z := dial(t, leader.Addr())
	follower := slices.IndexFunc(e.Servers(), func(s *zkserver.Server) bool { return s != leader })
	stat, err := z.IncrementalReconfig(nil, []string{fmt.Sprint(follower + 1)}, -1)
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := z.Get("/zookeeper/config")
	if err != nil {
		t.Fatal(err)
	}
	txns, problems := read(t, leader.DataDir())
	if len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
	i := slices.IndexFunc(txns, func(t txnlog.Txn) bool { return t.Ops[0].Kind == txnlog.OpReconfig })
	if i < 0 || txns[i].Zxid != stat.Mzxid || txns[i].Ops[0].Path != "/zookeeper/config" || string(txns[i].Ops[0].Data) != string(config) {
		t.Errorf("no reconfiguration of zxid %#x to\n%s\nin %v", stat.Mzxid, config, txns)
	}
}

// TestLocks: a server's folder after some locks has the nodes that a client sees, and a create of
// the entry for each token.
func TestLocks(t *testing.T) {
	zkserver.NeedReal(t)
	server := zkserver.ForTest(t, zkserver.Options{})
	c, err := lock.Dial(t.Context(), []string{server.Addr()}, lock.WithRoot("/locks"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var tokens []int64
	for i := range 5 {
		h, err := c.Mutex("orders/42").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, h.Token().Number())
		if i < 4 {
			if err := h.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
	}
	z := dial(t, server.Addr())
	want := nodes(t, z)
	txns, problems := read(t, server.DataDir())
	if len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
	state := txnlog.NewState(nil)
	for i := range txns {
		state.Apply(&txns[i])
	}
	compareNodes(t, state, want)
	for _, token := range tokens {
		i := slices.IndexFunc(txns, func(t txnlog.Txn) bool { return t.Zxid == token })
		if i < 0 || !slices.ContainsFunc(txns[i].Ops, func(op txnlog.Op) bool {
			return op.Kind == txnlog.OpCreate && strings.HasPrefix(op.Path, "/locks/orders/42/")
		}) {
			t.Errorf("transaction %#x is no join", token)
		}
	}
}
