// Logs of several servers, and parts of logs.

package txnlog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// named returns the name of a log by its first zxid.
func named(zxid int64) string { return fmt.Sprintf("log.%x", zxid) }

func snapNamed(zxid int64) string { return fmt.Sprintf("snapshot.%x", zxid) }

// told returns problems as text, with the indexes of their folders.
func told(l *Log, problems []*Problem) string {
	var b strings.Builder
	for i, p := range problems {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%v %d/%d-%d/%d", p.Kind, znode.Epoch(p.Zxid), znode.Counter(p.Zxid), znode.Epoch(p.Until), znode.Counter(p.Until))
		for _, d := range p.Dirs {
			fmt.Fprintf(&b, " #%d", slices.Index(l.dirs, d))
		}
	}
	return b.String()
}

func TestSeveralFolders(t *testing.T) {
	e1, e2, e3 := run(1, 1, 10, "data"), run(2, 1, 10, "data"), run(3, 1, 10, "data")
	other := run(1, 1, 10, "other")
	var digests [][]byte // the same transactions, each with the digest of a server's tree
	for i, r := range e1 {
		digests = append(digests, u64(u32(slices.Clone(r), 2), int64(i)*7919))
	}
	type files = map[string][]byte
	whole := files{named(zx(1, 1)): file(e1...), named(zx(2, 1)): file(e2...), snapNamed(0): nil}
	for _, test := range []struct {
		name    string
		folders []files
		want    string
		told    string
	}{
		{"one folder", []files{whole}, "1/1-10 2/1-10", ""},
		{"the same twice", []files{whole, whole}, "1/1-10 2/1-10", ""},
		{"a part each", []files{
			{named(zx(1, 1)): file(e1[:6]...)},
			{named(zx(1, 5)): file(e1[4:]...), named(zx(2, 1)): file(e2...)},
		}, "1/1-10 2/1-10", ""},
		{"purged", []files{{named(zx(1, 4)): file(e1[3:]...)}}, "1/4-10", ""},
		{"a missing file", []files{
			{named(zx(1, 1)): file(e1[:3]...), named(zx(1, 7)): file(e1[6:]...)},
		}, "1/1-3 1/7-10", "gap 1/4-1/6"},
		{"the beginning of an epoch is missing", []files{
			{named(zx(1, 1)): file(e1...), named(zx(2, 4)): file(e2[3:]...)},
		}, "1/1-10 2/4-10", "gap 2/1-2/3"},
		{"goes on after a snapshot", []files{
			{named(zx(1, 1)): file(e1...), named(zx(2, 4)): file(e2[3:]...), snapNamed(zx(2, 3)): nil, snapNamed(zx(2, 2)): nil, snapNamed(zx(1, 10)): nil, snapNamed(zx(2, 4)): nil},
		}, "1/1-10 2/4-10", "gap 2/1-2/3"},
		{"an epoch without a write", []files{
			{named(zx(1, 1)): file(e1...), named(zx(4, 1)): file(run(4, 1, 2, "data")...)},
		}, "1/1-10 4/1-2", ""},
		{"one disagrees for a while", []files{
			whole,
			{named(zx(1, 1)): file(slices.Concat(e1[:4], other[4:7], e1[7:])...), named(zx(2, 1)): file(e2...)},
		}, "1/1-4 1/5? 1/5? 1/6? 1/6? 1/7? 1/7? 1/8-10 2/1-10", "disagree 1/5-1/7 #0 #1"},
		{"another ensemble", []files{{named(zx(1, 1)): file(e1[:2]...)}, {named(zx(1, 1)): file(other[:2]...)}}, "1/1? 1/1? 1/2? 1/2?", "disagree 1/1-1/2 #0 #1"},
		{"epochs of a year", []files{
			{named(zx(9000, 1)): file(run(9000, 1, 3, "data")...)},
			{named(zx(8000, 1)): file(run(8000, 1, 3, "data")...)},
		}, "8000/1-3 9000/1-3", "epoch 8000/4-8000/3"},
		{"the next epoch without the last proposals", []files{
			{named(zx(1, 1)): file(e1[:9]...), snapNamed(0): nil},
			{named(zx(1, 1)): file(e1[:7]...), named(zx(2, 1)): file(e2...), snapNamed(0): nil},
		}, "1/1-7 1/8? 1/9? 2/1-10", "disputed 1/8-1/9 #0"},
		{"the same, and truncated in the third", []files{
			{named(zx(1, 1)): file(e1[:9]...), snapNamed(0): nil},
			{named(zx(1, 1)): file(e1[:7]...), named(zx(2, 1)): file(e2...), snapNamed(0): nil},
			{named(zx(1, 1)): file(e1[:7]...), named(zx(2, 1)): file(e2...), snapNamed(0): nil},
		}, "1/1-7 1/8? 1/9? 2/1-10", "disputed 1/8-1/9 #0"},
		{"logs and snapshots apart", []files{
			{named(zx(1, 1)): file(e1[:9]...)}, {snapNamed(0): nil},
			{named(zx(1, 1)): file(e1[:7]...), named(zx(2, 1)): file(e2...)}, {snapNamed(0): nil},
		}, "1/1-7 1/8? 1/9? 2/1-10", "disputed 1/8-1/9 #0"},
		{"a standalone server's, apart", []files{{named(zx(0, 1)): file(run(0, 1, 10, "data")...)}, {snapNamed(0): nil, snapNamed(7): nil}}, "0/1-10", ""},
		{"a standalone server's, whose logs moved", []files{
			{named(zx(0, 1)): file(run(0, 1, 10, "data")...), snapNamed(0): nil}, {named(zx(0, 11)): file(run(0, 11, 20, "data")...)},
		}, "0/1-20", ""},
		{"got by a snapshot", []files{
			{named(zx(1, 1)): file(e1...), snapNamed(0): nil},
			{named(zx(1, 1)): file(e1[:7]...), named(zx(2, 1)): file(e2...), snapNamed(0): nil, snapNamed(zx(1, 10)): nil},
		}, "1/1-10 2/1-10", ""},
		{"a snapshot of the election", []files{
			{named(zx(1, 1)): file(e1[:9]...), snapNamed(zx(1, 9)): nil},
			{named(zx(1, 1)): file(e1[:7]...), named(zx(2, 1)): file(e2...), snapNamed(zx(2, 0)): nil},
		}, "1/1-7 1/8? 1/9? 2/1-10", "disputed 1/8-1/9 #0; epoch 1/10-1/9"},
		{"a snapshot of an epoch's beginning, which its leader sent", []files{
			{named(zx(1, 1)): file(e1...), snapNamed(zx(2, 0)): nil, named(zx(2, 1)): file(e2...)},
		}, "1/1-10 2/1-10", "epoch 1/11-1/10"},
		{"the same, and snapshots apart", []files{
			{named(zx(1, 1)): file(e1...), named(zx(2, 1)): file(e2...)}, {snapNamed(zx(2, 0)): nil},
		}, "1/1-10 2/1-10", "epoch 1/11-1/10"},
		{"the same, and another that goes on", []files{
			{named(zx(1, 1)): file(e1...), snapNamed(zx(2, 0)): nil, named(zx(2, 1)): file(e2...)},
			{named(zx(1, 1)): file(e1...), named(zx(2, 1)): file(e2...)},
		}, "1/1-10 2/1-10", ""},
		{"discarded, and the other is purged", []files{
			{named(zx(1, 1)): file(e1...), snapNamed(zx(2, 3)): nil, named(zx(2, 4)): file(e2[3:]...)},
			{named(zx(2, 1)): file(e2...)},
		}, "1/1-10 2/1-10", "epoch 1/11-1/10"},
		{"a snapshot shows what no log has", []files{
			{named(zx(1, 1)): file(e1[:7]...), snapNamed(zx(1, 9)): nil, named(zx(2, 1)): file(e2...)},
		}, "1/1-7 2/1-10", "epoch 1/8-1/9"},
		{"torn in one", []files{
			{named(zx(1, 1)): file(e1[:8]...), snapNamed(0): nil},
			{named(zx(1, 1)): append(file(e1[:7]...), "torn"...), named(zx(2, 1)): file(e2...), snapNamed(0): nil},
		}, "1/1-7 1/8? 2/1-10", "truncated 1/7-0/0; disputed 1/8-1/8 #0"},
		{"discarded, but left in the log by a snapshot from the next leader", []files{
			{named(zx(1, 1)): file(slices.Concat(e1[:7], e2, e3)...), snapNamed(0): nil},
			{named(zx(1, 1)): file(e1[:8]...), snapNamed(0): nil, snapNamed(zx(2, 10)): nil, named(zx(3, 1)): file(e3...)},
		}, "1/1-7 1/8? 2/1-10 3/1-10", "disputed 1/8-1/8 #1"},
		{"away, and back later in the next epoch", []files{
			{named(zx(1, 1)): file(slices.Concat(e1, e2)...), snapNamed(0): nil},
			{named(zx(1, 1)): file(e1[:7]...), snapNamed(zx(2, 4)): nil, named(zx(2, 5)): file(e2[4:]...)},
		}, "1/1-10 2/1-10", ""},
		{"a snapshot shows the end of an epoch", []files{
			{named(zx(1, 1)): file(slices.Concat(e1[:7], e2)...), snapNamed(0): nil, snapNamed(zx(1, 9)): nil},
			{named(zx(1, 1)): file(slices.Concat(e1[:7], e2)...), snapNamed(0): nil},
		}, "1/1-7 2/1-10", ""},
		{"copied at different times", []files{whole, {named(zx(1, 1)): file(e1...), named(zx(2, 1)): file(e2[:4]...)}}, "1/1-10 2/1-10", ""},
		{"missing in one, which then goes on in the same epoch", []files{
			{named(zx(1, 1)): file(e1...)},
			{named(zx(1, 1)): file(e1[:3]...), named(zx(1, 8)): file(e1[7:]...)},
		}, "1/1-10", ""},
		{"two of three", []files{whole, whole, {named(zx(1, 1)): file(e1...), named(zx(2, 1)): file(e2[:4]...)}}, "1/1-10 2/1-10", ""},
		{"damaged", []files{{named(zx(1, 1)): damaged(e1, 2, 3, 7)}}, "1/1-2 1/5-7 1/9-10", "damaged 1/2-1/5; gap 1/3-1/4; damaged 1/7-1/9; gap 1/8-1/8"},
		{"damaged in one", []files{{named(zx(1, 1)): damaged(e1, 2, 3, 7)}, whole}, "1/1-10 2/1-10", "damaged 1/2-1/5; damaged 1/7-1/9"},
		{"with digests in one", []files{whole, {named(zx(1, 1)): file(digests...)}}, "1/1-10 2/1-10", ""},
		{"crashed before the header", []files{{named(zx(1, 1)): file(e1...), named(zx(1, 11)): nil}}, "1/1-10", "truncated 0/0-0/0"},
		{"not a log", []files{{named(zx(1, 1)): file(e1...), named(zx(1, 11)): []byte(strings.Repeat("text ", 20))}}, "1/1-10", "unreadable 0/0-0/0"},
		{"an unknown version", []files{{named(zx(1, 1)): file(e1...), named(zx(1, 11)): append([]byte("ZKLG\x00\x00\x00\x03"), make([]byte, 99)...)}}, "1/1-10", "unsupported 0/0-0/0"},
		{"an unknown type", []files{{named(zx(1, 1)): file(e1[0], record(zx(1, 2), start, 99, nil), e1[2])}}, "1/1 1/3", "unsupported 1/2-1/2"},
		{"renamed files", []files{{"log.1": file(e1...), "log.2": file(e2...)}}, "1/1-10 2/1-10", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var dirs []string
			for _, f := range test.folders {
				dirs = append(dirs, write(t, f))
			}
			l := mustOpen(t, dirs...)
			txns, problems := collect(l, Range{})
			if got := zxids(txns); got != test.want {
				t.Errorf("transactions %s, want %s", got, test.want)
			}
			if got := told(l, problems); got != test.told {
				t.Errorf("problems %s, want %s", got, test.told)
			}
			for _, p := range problems {
				if text := p.Error(); text == "" || strings.Contains(text, "%!") {
					t.Errorf("message %q", text)
				}
			}
		})
	}
}

// TestRange: Txns returns the transactions of a range, and reads no more files than necessary.
func TestRange(t *testing.T) {
	at := func(epoch, c int64) time.Time {
		return start.Add(time.Duration(epoch)*time.Hour + time.Duration(c)*time.Second)
	}
	for _, test := range []struct {
		name  string
		rng   Range
		want  string
		files string // those that must be read
		told  string
	}{
		{"all", Range{}, "1/1-20 2/1-20", "abcd", ""},
		{"from", Range{From: zx(1, 15)}, "1/15-20 2/1-20", "bcd", ""},
		{"from the first of a file", Range{From: zx(1, 11)}, "1/11-20 2/1-20", "bcd", ""},
		{"to", Range{To: zx(2, 3)}, "1/1-20 2/1-3", "abc", ""},
		{"from and to", Range{From: zx(1, 12), To: zx(1, 14)}, "1/12-14", "b", ""},
		{"to the end of an epoch", Range{From: zx(1, 12), To: zx(1, 0xffffffff)}, "1/12-20", "b", ""},
		{"since", Range{Since: at(2, 4)}, "2/4-20", "cd", ""},
		{"since, between", Range{Since: at(2, 4).Add(-time.Millisecond)}, "2/4-20", "cd", ""},
		{"since, before all", Range{Since: at(0, 0)}, "1/1-20 2/1-20", "abcd", ""},
		{"since, after all", Range{Since: at(3, 0)}, "", "d", ""},
		{"until", Range{Until: at(1, 13)}, "1/1-13", "abc", ""},
		{"until, between files", Range{Until: at(1, 10).Add(time.Millisecond)}, "1/1-10", "ab", ""},
		{"until, before all", Range{Until: at(0, 0)}, "", "ab", ""},
		{"since and until", Range{Since: at(1, 19), Until: at(2, 2)}, "1/19-20 2/1-2", "bcd", ""},
		{"after the end", Range{From: zx(2, 99)}, "", "d", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			e1, e2 := run(1, 1, 20, "data"), run(2, 1, 20, "data")
			dir := write(t, map[string][]byte{
				named(zx(1, 1)): file(e1[:10]...), named(zx(1, 11)): file(e1[10:]...),
				named(zx(2, 1)): file(e2[:10]...), named(zx(2, 11)): file(e2[10:]...),
			})
			l := mustOpen(t, dir)
			for i, f := range l.logs {
				if !strings.Contains(test.files, string(rune('a'+i))) {
					if err := os.Remove(f.path); err != nil {
						t.Fatal(err)
					}
				}
			}
			txns, problems := collect(l, test.rng)
			if got := zxids(txns); got != test.want {
				t.Errorf("transactions %s, want %s", got, test.want)
			}
			if got := told(l, problems); got != test.told {
				t.Errorf("problems %s, want %s", got, test.told)
			}
		})
	}
	t.Run("from a snapshot that shows the end of an epoch", func(t *testing.T) {
		dir := write(t, map[string][]byte{
			named(zx(1, 1)): file(run(1, 1, 10, "data")...), snapNamed(zx(1, 20)): nil, named(zx(2, 1)): file(run(2, 1, 10, "data")...),
		})
		for from, want := range map[int64]string{zx(1, 21): "", zx(1, 15): "epoch 1/15-1/20"} {
			l := mustOpen(t, dir)
			if txns, problems := collect(l, Range{From: from}); zxids(txns) != "2/1-10" || told(l, problems) != want {
				t.Errorf("from %#x: %s, %s", from, zxids(txns), told(l, problems))
			}
		}
	})
	t.Run("the beginning is missing", func(t *testing.T) {
		dir := write(t, map[string][]byte{named(zx(1, 11)): file(run(1, 11, 20, "data")...)})
		l := mustOpen(t, dir)
		txns, problems := collect(l, Range{From: zx(1, 5)})
		if got := zxids(txns); got != "1/11-20" || told(l, problems) != "gap 1/5-1/10" {
			t.Errorf("transactions %s, problems %s", got, told(l, problems))
		}
	})
	t.Run("what is missing before it is not told", func(t *testing.T) { // the server got a snapshot instead, and went on with the same file
		e1 := run(1, 1, 20, "data")
		dir := write(t, map[string][]byte{named(zx(1, 1)): file(slices.Concat(e1[:5], e1[10:], run(2, 5, 9, "data"))...)})
		for from, want := range map[int64]string{
			zx(1, 5):  "1/5 1/11-20 2/5-9, gap 1/6-1/10; gap 2/1-2/4",
			zx(1, 8):  "1/11-20 2/5-9, gap 1/8-1/10; gap 2/1-2/4",
			zx(1, 11): "1/11-20 2/5-9, gap 2/1-2/4",
			zx(2, 5):  "2/5-9, ",
		} {
			l := mustOpen(t, dir)
			txns, problems := collect(l, Range{From: from})
			if got := zxids(txns) + ", " + told(l, problems); got != want {
				t.Errorf("from %#x: %s, want %s", from, got, want)
			}
		}
	})
	t.Run("how an epoch before it ended is not told", func(t *testing.T) {
		dir := write(t, map[string][]byte{named(zx(1, 1)): file(slices.Concat(run(1, 1, 10, "data"), run(2, 1, 10, "data"))...), snapNamed(zx(2, 0)): nil})
		for from, want := range map[int64]string{zx(1, 10): "epoch 1/11-1/10", zx(1, 11): "epoch 1/11-1/10", zx(2, 1): "", zx(2, 4): ""} {
			l := mustOpen(t, dir)
			if _, problems := collect(l, Range{From: from}); told(l, problems) != want {
				t.Errorf("from %#x: %s, want %s", from, told(l, problems), want)
			}
		}
	})
}

// TestSteppedClock: if the leader's clock goes an hour ahead and back, a range by time has no gaps.
func TestSteppedClock(t *testing.T) {
	var records [][]byte
	for c := range int64(30) {
		at := start.Add(time.Duration(c) * time.Minute)
		if c >= 10 && c < 20 {
			at = at.Add(time.Hour)
		}
		records = append(records, setData(zx(1, c+1), at, "data"))
	}
	dir := write(t, map[string][]byte{
		named(zx(1, 1)): file(records[:8]...), named(zx(1, 9)): file(records[8:15]...), named(zx(1, 16)): file(records[15:]...),
	})
	l := mustOpen(t, dir)
	for _, test := range []struct {
		since, until time.Duration
		want         string
	}{
		{0, 25 * time.Minute, "1/1-26"},
		{15 * time.Minute, 0, "1/11-30"}, // the first of that time or later was stamped by the stepped clock
		{75 * time.Minute, 0, "1/16-30"},
		{0, 75 * time.Minute, "1/1-30"},
		{22 * time.Minute, 24 * time.Minute, "1/11-25"},
	} {
		r := Range{Since: start.Add(test.since)}
		if test.until != 0 {
			r.Until = start.Add(test.until)
		}
		txns, problems := collect(l, r)
		if got := zxids(txns); got != test.want || len(problems) > 0 {
			t.Errorf("from %v to %v: transactions %s, want %s; problems %v", test.since, test.until, got, test.want, problems)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := write(t, map[string][]byte{"log.1": file(run(0, 1, 3, "data")...), "snapshot.0": nil, "acceptedEpoch": nil, "snapshot.1.tmp": nil, "log.xyz": nil})
	parent := t.TempDir()
	if err := os.Rename(dir, filepath.Join(parent, "version-2")); err != nil {
		t.Fatal(err)
	}
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
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
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

// TestStop: an iteration can end early, and the log can be read again.
func TestStop(t *testing.T) {
	l := mustOpen(t, write(t, map[string][]byte{"log.1": file(run(0, 1, 30, "data")...), "log.2": nil}))
	for range 2 {
		n := 0
		for range l.Txns(Range{}) {
			if n++; n == 5 {
				break
			}
		}
	}
}
