package txnlog

import (
	"bufio"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// benchBytes returns the size in bytes of the log that BenchmarkTxns reads. The environment variable
// HOLDFAST_LOG_MB sets it in MiB; default 128.
func benchBytes(b *testing.B) int64 {
	mb := int64(128)
	if text := os.Getenv("HOLDFAST_LOG_MB"); text != "" {
		if _, err := fmt.Sscan(text, &mb); err != nil {
			b.Fatalf("HOLDFAST_LOG_MB=%q: %v", text, err)
		}
	}
	return mb << 20
}

// lockTraffic writes a log of joins, grants, renewals and releases, as locks make them, and returns the
// number of transactions.
func lockTraffic(b *testing.B, path string, size int64) (txns int) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	written, zxid := int64(fileHeaderSize), zx(1, 0)
	w.Write(file())
	acl := str(str(u32(u32(nil, 1), 31), "world"), "anyone")
	data := `{"holdfast":2,"owner":"shop-7","host":"shop-7.example.com","pid":4711,"ttl_ms":30000,"expires_at":1700000000000,"acquired_at":1699999970000` + strings.Repeat(" ", 40) + `}`
	kind := `{"holdfast":2,"kind":"mutex","generation":"0123456789abcdef"}`
	op := func(list []byte, code int32, body []byte) []byte {
		return append(u32(u32(list, code), int32(len(body))), body...)
	}
	for written < size {
		zxid++
		life := zxid / 4 // each entry has four transactions
		parent := fmt.Sprintf("/locks/orders/%d", life%997)
		entry := fmt.Sprintf("%s/0123456789abcdef-lock-%010d", parent, life/997)
		at := start.Add(time.Duration(zxid&0xffffffff) * time.Millisecond)
		var r []byte
		switch zxid % 4 {
		case 0: // join
			list := op(u32(nil, 2), 1, u32(append(append(str(str(nil, entry), data), acl...), 0), int32(zxid)))
			list = op(list, 5, u32(str(str(nil, parent), kind), 1))
			r = record(zxid, at, typeMulti, list)
		case 1, 2: // renewal
			r = record(zxid, at, 5, u32(str(str(nil, entry), data), 2))
		case 3: // release
			list := op(u32(nil, 2), 2, str(nil, entry))
			list = op(list, 5, u32(str(str(nil, parent), kind), 1))
			r = record(zxid, at, typeMulti, list)
		}
		r = u64(u32(r, 2), zxid*7919) // digest
		e := frame(r)
		if _, err := w.Write(e); err != nil {
			b.Fatal(err)
		}
		written += int64(len(e))
		txns++
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return txns
}

// BenchmarkTxns reads a log. It also reports the speed of a plain read of the same file, the heap
// in use in the middle of the log, and the allocations.
func BenchmarkTxns(b *testing.B) {
	dir := b.TempDir()
	path := filepath.Join(dir, named(zx(1, 1)))
	size := benchBytes(b)
	want := lockTraffic(b, path, size)
	l := mustOpen(b, dir)
	var bare, full time.Duration
	var heap uint64
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		// WriterTo and ReaderFrom would avoid the copy to this process.
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, chunkSize)); err != nil {
			b.Fatal(err)
		}
		f.Close()
		bare += time.Since(begin)

		begin = time.Now()
		n := 0
		for _, err := range l.Txns(Range{}) {
			if err != nil {
				b.Fatal(err)
			}
			if n++; n == want/2 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heap = max(heap, m.HeapInuse)
			}
		}
		if n != want {
			b.Fatalf("%d transactions, want %d", n, want)
		}
		full += time.Since(begin)
	}
	mb := float64(size) / 1e6 * float64(b.N)
	b.ReportMetric(mb/full.Seconds(), "MB/s")
	b.ReportMetric(mb/bare.Seconds(), "bare-MB/s")
	b.ReportMetric(float64(heap)/1e6, "heap-MB")
	b.ReportMetric(float64(want), "txns")
}

// BenchmarkSnapshot reads a snapshot of half a million nodes.
func BenchmarkSnapshot(b *testing.B) {
	data := u32(append([]byte("ZKSN"), 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0), 0) // no sessions
	data = u32(data, 0)                                                        // no access control lists
	const nodes = 500_000
	for i := range int64(nodes) {
		path := fmt.Sprintf("/locks/orders/%d/%016x-lock-%010d", i%997, i, i%1000)
		if i == 0 {
			path = ""
		}
		data = str(str(data, path), strings.Repeat("some data ", 20))
		data = u64(u64(u64(u64(u64(data, -1), i), i), start.UnixMilli()), start.UnixMilli())
		data = u64(u64(u32(u32(u32(data, 1), 2), 3), 0), i)
	}
	data = str(data, "/")
	data = str(u64(data, int64(adler32.Checksum(data))), "/")
	path := filepath.Join(b.TempDir(), "snapshot.1")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	s := &Snapshot{Path: path, Zxid: 1, Size: int64(len(data))}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range s.Nodes() {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != nodes {
			b.Fatalf("%d nodes, want %d", n, nodes)
		}
	}
}
