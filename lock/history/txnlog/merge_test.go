// Logs of several servers, and parts of logs.

package txnlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// named returns the name of a log by its first zxid.
func named(zxid int64) string { return fmt.Sprintf("log.%x", zxid) }

func TestOpen(t *testing.T) {
	dir := write(t, map[string][]byte{"log.1": file(run(0, 1, 3, "data")...), "snapshot.0": nil, "acceptedEpoch": nil, "snapshot.1.tmp": nil, "log.xyz": nil})
	parent := t.TempDir()
	iferr.Fatal(t, os.Rename(dir, filepath.Join(parent, "version-2")))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(parent, link); err != nil {
		t.Skip(err)
	}
	version2 := filepath.Join(parent, "version-2")
	for _, dirs := range [][]string{
		{parent}, {version2}, {parent, version2}, {version2 + "/", link}, {filepath.Join(version2, "log.1")},
	} {
		l := mustOpen(t, dirs...)
		txns, problems := collect(l, Range{})
		if got := zxids(txns); got != "0/1-3" || len(problems) > 0 {
			t.Errorf("%q: transactions %s, problems %v", dirs, got, problems)
		}
		logs := 0
		for _, f := range l.Files() {
			if !f.Snapshot {
				logs++
				if f.Zxid != 1 || !f.Time.Equal(start.Add(time.Second)) || f.Size == 0 {
					t.Errorf("%q: file %+v", dirs, f)
				}
			}
		}
		if logs != 1 {
			t.Errorf("%q: %d logs", dirs, logs)
		}
	}
	empty := filepath.Join(t.TempDir(), "version-2")
	iferr.Fatal(t, os.Mkdir(empty, 0o700))
	if l := mustOpen(t, empty, version2); len(l.logs) != 1 || len(l.Dirs()) != 2 {
		t.Errorf("with a dataDir without snapshots: %v", l.Dirs())
	}
	for _, dirs := range [][]string{{}, {empty}, {filepath.Join(parent, "none")}, {t.TempDir()}} {
		if _, err := Open(dirs...); err == nil {
			t.Errorf("%q: no error", dirs)
		} else if len(dirs) > 0 && !strings.Contains(err.Error(), dirs[0]) {
			t.Errorf("%q: %v", dirs, err)
		}
	}
}

// TestProgress: the progress rises to the size of all files.
func TestProgress(t *testing.T) {
	var files = map[string][]byte{}
	for i := range int64(3) {
		files[named(zx(1, i*2000+1))] = append(file(run(1, i*2000+1, i*2000+2000, strings.Repeat("x", 500))...), make([]byte, 1<<20)...)
	}
	l := mustOpen(t, write(t, files))
	var total, last int64
	calls := 0
	l.Progress = func(read, all int64) {
		if read < last || read > all {
			t.Errorf("%d of %d after %d", read, all, last)
		}
		last, total = read, all
		calls++
	}
	txns, problems := collect(l, Range{})
	if len(txns) != 6000 || len(problems) > 0 {
		t.Fatalf("%d transactions, problems %v", len(txns), problems)
	}
	var size int64
	for _, f := range l.Files() {
		size += f.Size
	}
	if last != size || total != size || calls < 4 {
		t.Errorf("told of %d of %d bytes in %d calls; the files have %d", last, total, calls, size)
	}
}

// TestKeep: transactions can be kept while later ones are read into the same buffers.
func TestKeep(t *testing.T) {
	var records [][]byte
	for i := range int64(6000) {
		records = append(records, setData(i+1, start, fmt.Sprintf("%0200d", i+1)))
	}
	txns, _ := collect(mustOpen(t, write(t, map[string][]byte{"log.1": file(records...)})), Range{})
	if len(txns) != len(records) {
		t.Fatalf("%d transactions, want %d", len(txns), len(records))
	}
	for _, txn := range txns {
		if want := fmt.Sprintf("%0200d", txn.Zxid); txn.Ops[0].Path != "/n" || string(txn.Ops[0].Data) != want {
			t.Fatalf("transaction %d is %+v", txn.Zxid, txn)
		}
	}
}
