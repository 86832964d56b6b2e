// Logs that are cut, flipped, or overwritten: what can be read is read, and the rest is reported.

package txnlog

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// goldenLogs returns logs of an old and a new server.
func goldenLogs(t *testing.T) map[string][]byte {
	logs := map[string][]byte{}
	for _, version := range []string{"3.4.14", "3.9.5"} {
		dir, _ := unpack(t, version, "")
		for _, f := range mustOpen(t, dir).logs {
			data, err := os.ReadFile(f.path)
			iferr.Fatal(t, err)
			logs[version+"/"+filepath.Base(f.path)] = data
		}
	}
	return logs
}

// TestCut: if a log is cut at any byte, all entries before the cut are read. The cut is reported,
// unless it is between two entries.
func TestCut(t *testing.T) {
	for name, data := range goldenLogs(t) {
		whole, problems := scanAll(data)
		if len(whole) == 0 || len(problems) > 0 {
			t.Fatalf("%s: %d entries, problems %v", name, len(whole), problems)
		}
		ends := map[int]int{fileHeaderSize: 0} // number of entries by the offset where the last one ends
		for i, e := range whole {
			ends[int(e.offset)+frameSize+len(e.payload)+1] = i + 1
		}
		want := 0
		for cut := range len(data) + 1 {
			n, clean := ends[cut]
			if clean {
				want = n
			}
			entries, problems := scanAll(data[:cut])
			if len(entries) != want {
				t.Fatalf("%s cut at %d: %d entries, want %d", name, cut, len(entries), want)
			}
			last := whole[max(want-1, 0)]
			at := int(last.offset) + frameSize + len(last.payload) + 1
			if want == 0 {
				at = fileHeaderSize
			}
			if cut > at && allZero(data[at:cut]) {
				clean = true // as preallocated
			}
			switch {
			case clean && len(problems) == 0:
			case !clean && len(problems) == 1 && problems[0].Kind == ProblemTruncated:
			default:
				t.Fatalf("%s cut at %d, between entries: %v, problems %v", name, cut, clean, problems)
			}
		}
	}
}

// TestFlip: if a byte of a log is changed, only the entry with the byte is lost, and the loss is
// reported once.
func TestFlip(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for name, data := range goldenLogs(t) {
		whole, _ := scanAll(data)
		for at := fileHeaderSize; at < len(data); at++ {
			flipped := bytes.Clone(data)
			flipped[at] ^= byte(1 + random.IntN(255))
			entries, problems := scanAll(flipped)
			var want []entry
			for _, e := range whole {
				if at < int(e.offset) || at >= int(e.offset)+frameSize+len(e.payload)+1 {
					want = append(want, e)
				}
			}
			if !sameEntries(entries, want) || len(want) != len(whole)-1 {
				t.Fatalf("%s flipped at %d (seed %d): %d entries, want %d of %d", name, at, seed, len(entries), len(want), len(whole))
			}
			if len(problems) != 1 || problems[0].Kind != ProblemDamaged && problems[0].Kind != ProblemTruncated {
				t.Fatalf("%s flipped at %d (seed %d): problems %v", name, at, seed, problems)
			}
		}
		for at := range 8 {
			flipped := bytes.Clone(data)
			flipped[at] ^= 1
			if entries, problems := scanAll(flipped); len(entries) > 0 || len(problems) != 1 {
				t.Fatalf("%s flipped at %d: %d entries, problems %v", name, at, len(entries), problems)
			}
		}
	}
}

func sameEntries(a, b []entry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].offset != b[i].offset || !bytes.Equal(a[i].payload, b[i].payload) {
			return false
		}
	}
	return true
}

// TestOverwritten: if a part of a log is overwritten by zeros or noise, all other entries are read.
func TestOverwritten(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	data := file(run(0, 1, 2000, "some data of a usual length")...)
	whole, _ := scanAll(data)
	padded := append(bytes.Clone(data), make([]byte, 1<<20)...)
	if entries, problems := scanAll(padded); len(entries) != len(whole) || len(problems) > 0 {
		t.Fatalf("preallocated: %d entries, problems %v", len(entries), problems)
	}
	for range 50 {
		broken := bytes.Clone(padded)
		from := fileHeaderSize + random.IntN(len(data)-fileHeaderSize)
		size := random.IntN(min(20_000, len(data)-from))
		zeros := random.IntN(2) == 0
		for i := from; i < from+size; i++ {
			broken[i] = 0
			if !zeros {
				broken[i] = byte(random.Uint32())
			}
		}
		var want []entry
		for _, e := range whole {
			if end := int(e.offset) + frameSize + len(e.payload) + 1; bytes.Equal(broken[e.offset:end], data[e.offset:end]) {
				want = append(want, e)
			}
		}
		entries, problems := scanAll(broken)
		if !sameEntries(entries, want) {
			t.Fatalf("seed %d: %d bytes at %d overwritten by zeros (%v): %d entries, want %d", seed, size, from, zeros, len(entries), len(want))
		}
		if len(want) < len(whole)-1 && len(problems) != 1 {
			t.Errorf("seed %d: problems %v", seed, problems)
		}
	}
}

// TestHoles: entries before and behind a hole of a sparse file are read, and damage is reported.
func TestHoles(t *testing.T) {
	records := run(0, 1, 100, "data")
	first, second := file(records[:50]...), file(records[50:]...)[fileHeaderSize:]
	const hole = 1 << 30
	for _, test := range []struct {
		name  string
		parts map[int64][]byte
		want  string
		told  []ProblemKind
	}{
		{"preallocated", map[int64][]byte{0: first, 2 * hole: nil}, "0/1-50", nil},
		{"torn", map[int64][]byte{0: append(bytes.Clone(first), second[:30]...), 2 * hole: nil}, "0/1-50", []ProblemKind{ProblemTruncated}},
		{"entries after it", map[int64][]byte{0: first, hole: second, 2 * hole: nil}, "0/1-100", []ProblemKind{ProblemDamaged}},
		{"entries after a torn one", map[int64][]byte{0: append(bytes.Clone(first), second[:30]...), hole: second, 2 * hole: nil}, "0/1-100", []ProblemKind{ProblemDamaged}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := write(t, map[string][]byte{"log.1": nil})
			f, err := os.OpenFile(filepath.Join(dir, "log.1"), os.O_WRONLY, 0)
			iferr.Fatal(t, err)
			defer f.Close()
			for at, data := range test.parts {
				if data == nil {
					err = f.Truncate(at)
				} else {
					_, err = f.WriteAt(data, at)
				}
				iferr.Fatal(t, err)
			}
			if data, ok := nextData(f, int64(len(first))+1<<20); ok && data < hole {
				t.Skip("the file system has no sparse files")
			} else if !ok {
				t.Skip("holes cannot be found here")
			}
			l := mustOpen(t, dir)
			var told int64
			l.Progress = func(read, total int64) { told = read }
			txns, problems := collect(l, Range{})
			var kinds []ProblemKind
			for _, p := range problems {
				kinds = append(kinds, p.Kind)
			}
			if got := zxids(txns); got != test.want || !slices.Equal(kinds, test.told) {
				t.Errorf("transactions %s, want %s; problems %v", got, test.want, problems)
			}
			if told != 2*hole {
				t.Errorf("told of %d bytes of %d", told, 2*hole)
			}
		})
	}
}

// TestHostileLength: a length that the file cannot hold is reported, and at most 4 MB are
// allocated.
func TestHostileLength(t *testing.T) {
	data := file(run(0, 1, 3, "data")...)
	for _, n := range []uint32{maxEntry, maxEntry + 1, 1 << 31, 0xffffffff, 33, 0} {
		broken := binary.BigEndian.AppendUint64(bytes.Clone(data), 12345)
		broken = append(binary.BigEndian.AppendUint32(broken, n), "tail"...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		entries, problems := scanAll(broken)
		runtime.ReadMemStats(&after)
		if len(entries) != 3 || len(problems) != 1 || problems[0].Kind != ProblemTruncated {
			t.Errorf("length %d: %d entries, problems %v", n, len(entries), problems)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
			t.Errorf("length %d: %d bytes allocated", n, used)
		}
	}
	for _, count := range []int32{1 << 30, -5} {
		r := record(1, start, typeMulti, u32(nil, count))
		if txn, _, err := decodeTxn(r); err == nil && len(txn.Ops) > 0 {
			t.Errorf("a multi of %d operations: %v", count, txn)
		}
		r = record(1, start, int32(OpSetACL), u32(str(nil, "/n"), count))
		if _, _, err := decodeTxn(r); err == nil {
			t.Errorf("a list of %d entries is accepted", count)
		}
	}
}

// TestManyFalseBeginnings: 20,000 false beginnings of large entries are reported as one damage, and
// the entries before them are read.
func TestManyFalseBeginnings(t *testing.T) {
	data := file(run(0, 1, 3, "data")...)
	head := record(100, start, 5, nil)
	for range 20_000 {
		b := u32(u64(nil, 1), 1<<19)
		data = append(append(data, b...), head...)
	}
	data = append(data, bytes.Repeat([]byte{'B'}, 1<<20)...)
	entries, problems := scanAll(data)
	if len(entries) != 3 || len(problems) != 1 || problems[0].Kind != ProblemDamaged {
		t.Errorf("%d entries, problems %v", len(entries), problems)
	}
}

// growing is a preallocated file that a server writes. Each read sees the data up to the next of
// sizes, and zeros after it. The last size stays.
type growing struct {
	data  []byte
	sizes []int
}

func (g *growing) ReadAt(p []byte, off int64) (int, error) {
	size := g.sizes[0]
	if len(g.sizes) > 1 {
		g.sizes = g.sizes[1:]
	}
	shown := append(bytes.Clone(g.data[:size]), make([]byte, len(g.data)-size)...)
	return bytes.NewReader(shown).ReadAt(p, off)
}

// TestGrowing: a log can be read while a server writes it into preallocated zeros. No entry is
// skipped, and only truncation is reported.
func TestGrowing(t *testing.T) {
	data := append(file(run(0, 1, 3000, "some data of a usual length")...), make([]byte, 600<<10)...)
	whole, _ := scanAll(data)
	written := int(whole[len(whole)-1].offset) + 200
	for cut := 100_000; cut < written; cut += 997 {
		// The rest of the file appears after the first read, or in several steps.
		for _, sizes := range [][]int{{cut, len(data)}, {cut, cut + 300, cut + 9000, min(cut+20_000, len(data)), len(data)}} {
			var problems []*Problem
			s, err := newScanner(&growing{data: data, sizes: slices.Clone(sizes)}, "log.1", func(p *Problem) { problems = append(problems, p) }, nil)
			iferr.Fatal(t, err)
			var last int64
			for e, ok := s.next(); ok; e, ok = s.next() {
				if e.zxid != last+1 {
					t.Fatalf("zxid %d after %d", e.zxid, last)
				}
				last = e.zxid
			}
			if len(sizes) == 2 && (last != 3000 || len(problems) > 0) {
				t.Fatalf("cut at %d: read up to %d of 3000, problems %v", cut, last, problems)
			}
			for _, p := range problems {
				if p.Kind != ProblemTruncated {
					t.Fatalf("cut at %d: %v", cut, p)
				}
			}
		}
	}
}

// TestBrokenSnapshot: a snapshot that is cut, or whose bytes are changed, gives an error.
func TestBrokenSnapshot(t *testing.T) {
	dir, _ := unpack(t, "3.9.5", "")
	l := mustOpen(t, dir)
	data := gunzip(t, "testdata/3.9.5/snapshot.20.gz")
	for at := 0; at < len(data)-60; at++ { // what follows the first checksum is not read
		broken := write(t, map[string][]byte{"snapshot.20": data[:at]})
		if _, err := mustOpen(t, broken).Snapshots()[0].State(); err == nil {
			t.Fatalf("cut at %d: no error", at)
		}
		flipped := slices.Clone(data)
		flipped[at] ^= 0x10
		broken = write(t, map[string][]byte{"snapshot.20": flipped})
		_, err := mustOpen(t, broken).Snapshots()[0].State()
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
