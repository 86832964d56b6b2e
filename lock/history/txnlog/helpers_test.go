// Helpers: logs that are made by hand.

package txnlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// start is the time of transaction 1 of epoch 0 in the logs made by hand.
var start = time.UnixMilli(1_700_000_000_000)

func u32(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }
func u64(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }
func str(b []byte, s string) []byte {
	return append(u32(b, int32(len(s))), s...)
}

// record returns a transaction as it stands in a log.
func record(zxid int64, at time.Time, kind int32, body []byte) []byte {
	b := u64(nil, 0x1000)
	b = u32(b, 1)
	b = u64(b, zxid)
	b = u64(b, at.UnixMilli())
	b = u32(b, kind)
	return append(b, body...)
}

// setData returns a record that writes to /n.
func setData(zxid int64, at time.Time, data string) []byte {
	return record(zxid, at, 5, u32(str(str(nil, "/n"), data), 1))
}

// frame returns a log's entry with a record.
func frame(record []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(adler32.Checksum(record)))
	b = append(u32(b, int32(len(record))), record...)
	return append(b, 'B')
}

// file returns the bytes of a log file with the records.
func file(records ...[]byte) []byte {
	b := append([]byte("ZKLG"), 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0)
	for _, r := range records {
		b = append(b, frame(r)...)
	}
	return b
}

func zx(epoch, counter int64) int64 { return epoch<<32 | counter }

// run returns records of an epoch, a second apart, with the counters from..to and the same data.
func run(epoch, from, to int64, data string) [][]byte {
	var records [][]byte
	for c := from; c <= to; c++ {
		at := start.Add(time.Duration(epoch)*time.Hour + time.Duration(c)*time.Second)
		records = append(records, setData(zx(epoch, c), at, data))
	}
	return records
}

// write writes files, by name, into a new folder, and returns the folder.
func write(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// zxids returns the zxids of transactions as runs: 0/1-5 1/1-3. Disputed ones stand alone: 1/4?.
func zxids(txns []Txn) string {
	var b strings.Builder
	for i := 0; i < len(txns); {
		j := i + 1
		for j < len(txns) && txns[j].Zxid == txns[j-1].Zxid+1 && !txns[j].Disputed && !txns[j-1].Disputed {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d/%d", znode.Epoch(txns[i].Zxid), znode.Counter(txns[i].Zxid))
		if txns[i].Disputed {
			b.WriteByte('?')
		}
		if j > i+1 {
			fmt.Fprintf(&b, "-%d", znode.Counter(txns[j-1].Zxid))
		}
		i = j
	}
	return b.String()
}

// scanAll reads the entries of a log in memory.
func scanAll(data []byte) (entries []entry, problems []*Problem) {
	report := func(p *Problem) { problems = append(problems, p) }
	s, err := newScanner(bytes.NewReader(data), "log.1", report, nil)
	if err != nil {
		return nil, []*Problem{err.(*Problem)}
	}
	for e, ok := s.next(); ok; e, ok = s.next() {
		e.payload = bytes.Clone(e.payload)
		entries = append(entries, e)
	}
	return entries, problems
}
