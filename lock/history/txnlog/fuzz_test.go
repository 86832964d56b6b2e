package txnlog

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// FuzzLog: any bytes can be read as a log. Zxids rise, and the bytes at each entry's offset contain the
// entry.
func FuzzLog(f *testing.F) {
	f.Add(file(run(0, 1, 3, "data")...))
	for _, version := range versions(f) {
		dir, _ := unpack(f, version, "")
		l := mustOpen(f, dir)
		for _, log := range l.logs {
			data, err := os.ReadFile(log.path)
			iferr.Fatal(f, err)
			f.Add(data)
			if entries, _ := scanAll(data); len(entries) > 0 {
				// This lets the fuzzer reach the records behind the checksum.
				f.Add(entries[len(entries)/2].payload)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, problems := scanAll(data)
		var last, bytesOf int64
		for _, e := range entries {
			if e.zxid <= last {
				t.Fatalf("zxid %#x after %#x", e.zxid, last)
			}
			last = e.zxid
			if !bytes.Equal(data[e.offset+frameSize:][:len(e.payload)], e.payload) {
				t.Fatalf("entry %#x is not at %d", e.zxid, e.offset)
			}
			bytesOf += int64(len(e.payload))
			check(t, e.payload)
		}
		if bytesOf > int64(len(data)) {
			t.Fatalf("%d bytes of entries in %d", bytesOf, len(data))
		}
		for _, p := range problems {
			if p.Error() == "" || p.Offset < 0 || p.Bytes < 0 || p.Offset+p.Bytes > int64(len(data)) {
				t.Fatalf("problem %+v", p)
			}
		}
		check(t, data)
	})
}

// check decodes a record, applies it, and compares it with itself.
func check(t *testing.T, payload []byte) {
	txn, rest, err := decodeTxn(payload)
	if err != nil {
		return
	}
	if len(rest) > len(payload) || !sameTxn(payload, bytes.Clone(payload)) {
		t.Fatal("a record is not the same as itself")
	}
	NewState().Apply(&txn)
}

// FuzzSnapshot: any bytes can be read as a snapshot, plain or compressed, without a panic.
func FuzzSnapshot(f *testing.F) {
	for _, version := range versions(f) {
		for _, prefix := range []string{"", "compressed-"} {
			dir, _ := unpack(f, version, prefix)
			for _, s := range mustOpen(f, dir).Snapshots() {
				data, err := os.ReadFile(s.Path)
				iferr.Fatal(f, err)
				f.Add(data, s.compression)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, compression string) {
		if compression != "" && compression != "gz" && compression != "snappy" {
			return
		}
		path := filepath.Join(t.TempDir(), "snapshot.1")
		iferr.Fatal(t, os.WriteFile(path, data, 0o600))
		s := &Snapshot{Path: path, Zxid: 1, Size: int64(len(data)), compression: compression}
		s.whole()
		for n, err := range s.Nodes() {
			if err == nil && n.Path[0] != '/' {
				t.Fatalf("node %+v", n)
			}
		}
		for range s.Sessions() {
		}
	})
}
