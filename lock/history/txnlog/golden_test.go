// Logs and snapshots of servers of each version, read and compared with what a client wrote. Package
// integration/txnlogs makes them.

package txnlog

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// golden is the content of a version's want.json.
type golden struct {
	Server string
	Txns   []Txn
	Nodes  []Node
}

func versions(t testing.TB) []string {
	t.Helper()
	dirs, err := os.ReadDir("testdata")
	iferr.Fatal(t, err)
	var names []string
	for _, d := range dirs {
		if d.Name() != "fuzz" && d.Name() != "scripts" {
			names = append(names, d.Name())
		}
	}
	return names
}

// unpack returns a folder with a version's files as its server had them, and what a client wrote.
// If prefix is "compressed-", the folder also has the compressed snapshots, under their names
// without the prefix; "": it does not.
func unpack(t testing.TB, version, prefix string) (dir string, want golden) {
	t.Helper()
	dir = t.TempDir()
	from := filepath.Join("testdata", version)
	files, err := os.ReadDir(from)
	iferr.Fatal(t, err)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(from, f.Name()))
		iferr.Fatal(t, err)
		name := f.Name()
		switch {
		case name == "want.json":
			iferr.Fatal(t, json.Unmarshal(data, &want))
			continue
		case strings.HasPrefix(name, "compressed-"):
			if prefix == "" {
				continue
			}
			name = strings.TrimPrefix(name, "compressed-")
		default:
			data = gunzip(t, filepath.Join(from, name))
			name = strings.TrimSuffix(name, ".gz")
		}
		iferr.Fatal(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	if !slices.Contains([]string{"3.4", "3.5"}, version[:3]) {
		return dir, want
	}
	for i := range want.Txns { // releases before 3.6 do not log them
		for j := range want.Txns[i].Ops {
			want.Txns[i].Ops[j].Ended = nil
		}
	}
	return dir, want
}

func gunzip(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	iferr.Fatal(t, err)
	defer f.Close()
	r, err := gzip.NewReader(f)
	iferr.Fatal(t, err)
	data, err := io.ReadAll(r)
	iferr.Fatal(t, err)
	return data
}

func mustOpen(t testing.TB, dirs ...string) *Log {
	t.Helper()
	l, err := Open(dirs...)
	iferr.Fatal(t, err)
	return l
}

// collect returns the transactions and the problems of a range.
func collect(l *Log, r Range) (txns []Txn, problems []*Problem) {
	for txn, err := range l.Txns(r) {
		if err != nil {
			problems = append(problems, err.(*Problem))
			continue
		}
		txns = append(txns, txn)
	}
	return txns, problems
}

// text returns transactions as text, without the times, which a client does not know.
func text(txns []Txn) string {
	var b strings.Builder
	for _, t := range txns {
		t.Time = time.Time{}
		fmt.Fprintf(&b, "%+v\n", t)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for _, version := range versions(t) {
		t.Run(version, func(t *testing.T) {
			dir, want := unpack(t, version, "")
			l := mustOpen(t, dir)
			txns, problems := collect(l, Range{})
			if len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
			if got, want := text(txns), text(want.Txns); got != want {
				t.Errorf("transactions are\n%s\nwant\n%s", got, want)
			}
			for i := 1; i < len(txns); i++ {
				if txns[i].Time.Before(txns[i-1].Time) {
					t.Errorf("transaction %#x is of %v, before the one before", txns[i].Zxid, txns[i].Time)
				}
			}

			state := NewState()
			for i := range txns {
				state.Apply(&txns[i])
			}
			sameNodes(t, state, want.Nodes)

			snap := l.SnapshotsFor(Range{From: txns[len(txns)-1].Zxid})[0]
			state, err := snap.State()
			iferr.Fatal(t, err)
			for txn := range l.Txns(Range{From: snap.Zxid + 1}) {
				state.Apply(&txn)
			}
			sameNodes(t, state, want.Nodes)
		})
	}
}

// sameNodes compares a state with what a client saw.
func sameNodes(t *testing.T, state State, want []Node) {
	t.Helper()
	var got []Node
	for n := range state.Nodes() {
		if n.Path != "/" && !strings.HasPrefix(n.Path, "/zookeeper") {
			got = append(got, n)
		}
	}
	want = want[1:] // without /
	for i := range max(len(got), len(want)) {
		var g, w Node
		if i < len(got) {
			g = normal(got[i])
		}
		if i < len(want) {
			w = normal(want[i])
		}
		if !reflect.DeepEqual(g, w) {
			t.Fatalf("node %d is\n%+v, want\n%+v", i, g, w)
		}
	}
}

// normal removes differences that a client cannot see: nil or empty data, and time zones.
func normal(n Node) Node {
	if len(n.Data) == 0 {
		n.Data = nil
	}
	n.Ctime, n.Mtime = n.Ctime.UTC(), n.Mtime.UTC()
	return n
}

// TestGoldenCompressed: compressed snapshots are read whole. They are of other runs of the same
// scenario.
func TestGoldenCompressed(t *testing.T) {
	read := 0
	for _, version := range versions(t) {
		dir, _ := unpack(t, version, "compressed-")
		for _, snap := range mustOpen(t, dir).Snapshots() {
			if snap.compression == "" {
				continue
			}
			read++
			var paths []string
			for n, err := range snap.Nodes() {
				if err != nil {
					t.Errorf("%s: %v", version, err)
				}
				if strings.HasPrefix(n.Path, "/t") {
					paths = append(paths, n.Path)
				}
			}
			if got, want := fmt.Sprint(paths), "[/t /t/e /t/m /t/m/e /t/s-0000000000 /t/ttl-1h0m0s]"; len(got) != len(want) {
				t.Errorf("%s: nodes %s, want %s", version, got, want)
			}
			sessions := 0
			for s, err := range snap.Sessions() {
				if err != nil || s.Timeout != 30*time.Second {
					t.Errorf("%s: session %+v, error %v", version, s, err)
				}
				sessions++
			}
			if sessions != 1 {
				t.Errorf("%s: %d sessions, want 1", version, sessions)
			}
		}
	}
	if read != 10 {
		t.Errorf("%d compressed snapshots, want 10", read)
	}
}
