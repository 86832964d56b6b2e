// Package txnlogs tests package txnlog on the logs of running servers, and makes its test data.
package txnlogs

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

func TestMain(m *testing.M) { os.Exit(zkserver.Main(m)) }

var update = flag.String("update", "", "write what the tests read to a subfolder of this folder, named by the version")

// TestServer: the log of a running server has what a client wrote, and gives the nodes that the
// client sees. The snapshot that the server takes at its next start, with the log after it, gives
// the same nodes.
func TestServer(t *testing.T) {
	zkserver.NeedReal(t)
	for _, compression := range []string{"", "gz", "snappy"} {
		t.Run("compression="+compression, func(t *testing.T) { onServer(t, compression) })
	}
}

func onServer(t *testing.T, compression string) {
	begin := time.Now().Add(-time.Second) // wall clock: a time in the past
	server := zkserver.ForTest(t, zkserver.Options{JVMArgs: []string{
		"-Dzookeeper.snapshot.compression.method=" + compression, "-Dzookeeper.extendedTypesEnabled=true",
		"-Dznode.container.checkIntervalMs=100", "-Dzookeeper.snapCount=16",
	}})
	s := &scenario{TB: t, ctx: t.Context(), addr: server.Addr(), version: version(t, server)}
	if compression != "" && !s.atLeast(3, 6) {
		t.Skip("releases before 3.6 do not compress snapshots")
	}
	s.want.Server = s.version.String()
	s.plain()
	if s.atLeast(3, 5) {
		s.extended()
	}
	compareTxns(t, open(t, server.DataDir()), s, begin)

	s.want.Nodes = nodes(t, s.z)
	l := open(t, server.DataDir())
	compareNodes(t, replay(t, l, txnlog.NewState(), txnlog.Range{}), s.want.Nodes)

	iferr.Fatal(t, server.Restart(t.Context()))
	before := s.zxid
	second := s.connect(20*time.Second, &line{})
	iferr.Fatal(t, iferr.Of(second.Set("/t", []byte("after the restart"), -1)))
	s.note(second.SessionID(), txnlog.Op{Kind: txnlog.OpSetData, Path: "/t", Data: []byte("after the restart"), Version: 2})
	l = open(t, server.DataDir())
	compareTxns(t, l, s, begin)
	s.want.Nodes = nodes(t, second)

	snaps := l.SnapshotsFor(txnlog.Range{From: before + 1})
	if len(snaps) == 0 || s.atLeast(3, 5) && snaps[0].Zxid != before { // 3.4 takes none at its start
		t.Fatalf("snapshots %v: want the newest of zxid %#x", snaps, before)
	}
	if !strings.HasSuffix(snaps[0].Path, compression) {
		t.Errorf("%s is not compressed by %s", snaps[0].Path, compression)
	}
	state, err := snaps[0].State()
	iferr.Fatal(t, err)
	first := false
	for session, err := range snaps[0].Sessions() {
		first = first || err == nil && session == (txnlog.Session{ID: s.z.SessionID(), Timeout: 30 * time.Second})
	}
	if !first {
		t.Error("the snapshot lacks the first session, or its timeout")
	}
	replay(t, l, state, txnlog.Range{From: snaps[0].Zxid + 1})
	compareNodes(t, state, s.want.Nodes)
	if *update != "" {
		save(t, l, s.want, snaps[0], filepath.Join(*update, folder(s.version)))
	}
}

// folder returns the name of the folder with a version's test data.
func folder(v zkserver.Version) string {
	name := fmt.Sprintf("%d.%d.%d", v.Number[0], v.Number[1], v.Number[2])
	if v.Snapshot {
		name += "-snapshot"
	}
	return name
}

// open opens the log in the folders.
func open(t testing.TB, dirs ...string) *txnlog.Log {
	t.Helper()
	l, err := txnlog.Open(dirs...)
	iferr.Fatal(t, err)
	return l
}

// compareTxns checks that a log has the transactions that the scenario noted, and no others.
func compareTxns(t *testing.T, l *txnlog.Log, s *scenario, begin time.Time) {
	t.Helper()
	i := 0
	for got, err := range l.Txns(txnlog.Range{}) {
		if err != nil {
			t.Errorf("after %d transactions: %v", i, err)
			continue
		}
		if got.Time.Before(begin) || got.Time.After(time.Now()) {
			t.Errorf("transaction %#x is of %v", got.Zxid, got.Time)
		}
		got.Time = time.Time{}
		if got.Session == 0 && got.Ops[0].Kind == txnlog.OpError {
			// The server deleted a container twice.
			s.insert(i, got)
		}
		if i >= len(s.want.Txns) {
			t.Errorf("transaction too many: %+v", got)
			continue
		}
		want := s.want.Txns[i]
		if !s.atLeast(3, 6) {
			want.Ops = append([]txnlog.Op(nil), want.Ops...)
			want.Ops[0].Ended = nil
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("transaction %d is\n%+v, want\n%+v", i, got, want)
		}
		i++
	}
	if i != len(s.want.Txns) {
		t.Errorf("%d transactions, want %d", i, len(s.want.Txns))
	}
}

// replay applies the transactions of a range to the state.
func replay(t *testing.T, l *txnlog.Log, state txnlog.State, r txnlog.Range) txnlog.State {
	t.Helper()
	for txn, err := range l.Txns(r) {
		if err != nil {
			t.Error(err)
			continue
		}
		state.Apply(&txn)
	}
	return state
}

// compareNodes checks that a state has the nodes that a client saw, and no others.
func compareNodes(t *testing.T, state txnlog.State, want []txnlog.Node) {
	t.Helper()
	var got []txnlog.Node
	for n := range state.Nodes() {
		if n.Path == "/" || strings.HasPrefix(n.Path, "/zookeeper") {
			continue
		}
		got = append(got, n)
	}
	want = want[1:] // without /
	for i := range max(len(got), len(want)) {
		var g, w txnlog.Node
		if i < len(got) {
			g = normal(got[i])
		}
		if i < len(want) {
			w = normal(want[i])
		}
		if !reflect.DeepEqual(g, w) {
			t.Errorf("node %d is\n%.600s, want\n%.600s", i, fmt.Sprintf("%+v", g), fmt.Sprintf("%+v", w))
			return
		}
	}
}

// normal removes differences that a client cannot see.
func normal(n txnlog.Node) txnlog.Node {
	if len(n.Data) == 0 {
		n.Data = nil
	}
	n.Ctime, n.Mtime = n.Ctime.UTC(), n.Mtime.UTC()
	return n
}

// save writes the logs without their preallocated ends, the snapshot, and the expected result to
// dir. If the snapshot is compressed, save writes only the snapshot.
func save(t *testing.T, l *txnlog.Log, want Want, snap *txnlog.Snapshot, dir string) {
	t.Helper()
	must := func(err error) {
		iferr.Fatal(t, err)
	}
	must(os.MkdirAll(dir, 0o755))
	if strings.HasSuffix(snap.Path, ".gz") || strings.HasSuffix(snap.Path, ".snappy") {
		data, err := os.ReadFile(snap.Path)
		must(err)
		must(os.WriteFile(filepath.Join(dir, "compressed-"+filepath.Base(snap.Path)), data, 0o644))
		return
	}
	for _, f := range l.Files() {
		data, err := os.ReadFile(f.Path)
		must(err)
		if f.Snapshot && f.Path != snap.Path {
			continue
		}
		if !f.Snapshot {
			data = bytes.TrimRight(data, "\x00")
		}
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		must(err)
		_, err = w.Write(data)
		must(err)
		must(w.Close())
		must(os.WriteFile(filepath.Join(dir, filepath.Base(f.Path)+".gz"), packed.Bytes(), 0o644))
	}
	data, err := json.Marshal(want)
	must(err)
	must(os.WriteFile(filepath.Join(dir, "want.json"), data, 0o644))
}
