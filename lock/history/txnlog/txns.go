package txnlog

import (
	"iter"
	"os"
	"time"
)

// Txns returns the range's transactions in the order of their zxids, each once, merged from all
// folders: each fills the gaps of the others. An error is a *Problem with a zero Txn, at its place
// among the transactions; the iteration goes on after it. Where the folders differ, Txns returns what
// each has, with [Txn.Disputed]. The caller may keep transactions. Memory is bounded by a buffer for
// each folder, and the largest transactions.
//
// Files that end before the range, or begin after it, are not read. If Until is set, Txns first
// reads the last file of each folder that begins at Until or earlier, and the next file, to find the
// range's end.
func (l *Log) Txns(r Range) iter.Seq2[Txn, error] {
	return func(yield func(Txn, error) bool) {
		m := newMerge(l, r)
		defer m.close()
		for {
			s := m.next()
			for _, p := range m.takeProblems() {
				if !yield(Txn{}, p) {
					return
				}
			}
			if s == nil {
				return
			}
			t, _, err := decodeTxn(s.cur.payload)
			t.Disputed = m.disputed
			if err != nil {
				t, err = Txn{}, &Problem{
					Kind: ProblemUnsupported, File: s.path, Offset: s.cur.offset, Zxid: s.cur.zxid, Until: s.cur.zxid, Count: 1,
					Type: decodeHeader(s.cur.payload).kind, Err: err,
				}
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// open opens a log and reads its header. If that fails, open reports the problem and returns nil.
func (f *logFile) open(report func(*Problem), read func(int)) (*os.File, *scanner) {
	file, err := os.Open(f.path)
	if err != nil {
		report(&Problem{Kind: ProblemUnreadable, File: f.path, Zxid: f.first, Err: err})
		return nil, nil
	}
	s, err := newScanner(file, f.path, report, read)
	if err != nil {
		report(err.(*Problem))
		file.Close()
		return nil, nil
	}
	return file, s
}

// newLogFile returns the logFile of a log, with the time of its first entry.
func newLogFile(path string, dir int, zxid, size int64) *logFile {
	f := &logFile{path: path, dir: dir, first: zxid, size: size}
	file, err := os.Open(path)
	if err != nil {
		return f // the error is reported when the file is read
	}
	defer file.Close()
	head := make([]byte, fileHeaderSize+frameSize+headerSize)
	if n, _ := file.ReadAt(head, 0); n < len(head) {
		return f
	}
	// If the file was renamed, or its first entry is damaged, only its name counts.
	if h := decodeHeader(head[fileHeaderSize+frameSize:]); h.zxid == zxid {
		f.time = time.UnixMilli(h.time)
	}
	return f
}

// needed returns the logs that may have transactions of the range up to the zxid to; 0: no bound.
func (l *Log) needed(r Range, to int64) (files []*logFile) {
	started := map[int]bool{}
	for _, f := range l.logs {
		switch next := f.next; {
		case to != 0 && f.first > to,
			next != nil && next.first <= r.From,
			next != nil && !started[f.dir] && !next.time.IsZero() && next.time.Before(r.Since):
			continue
		}
		started[f.dir] = true
		files = append(files, f)
	}
	return files
}

// around returns the logs that may have the last transaction that is not after the time until: for
// each folder the last log that begins at until or earlier, and the next log, in which the clock may
// have been set back.
func (l *Log) around(until time.Time) (files []*logFile) {
	last := map[int]*logFile{}
	for _, f := range l.logs {
		if last[f.dir] == nil || !f.time.IsZero() && !f.time.After(until) {
			last[f.dir] = f
		}
	}
	for _, f := range last {
		files = append(files, f)
		if f.next != nil {
			files = append(files, f.next)
		}
	}
	return files
}

// lastUntil returns the highest zxid of the files' entries that are not later than until; 0 if there
// is no such entry.
func lastUntil(files []*logFile, until time.Time, read func(int)) int64 {
	var zxid int64
	ms := until.UnixMilli()
	for _, f := range files {
		f.scan(read, func(e entry) bool {
			if e.time <= ms {
				zxid = max(zxid, e.zxid)
			}
			return true
		})
	}
	return zxid
}

// scan reads a log's entries, as far as it can, until visit returns false.
func (f *logFile) scan(read func(int), visit func(entry) bool) {
	file, s := f.open(func(*Problem) {}, read)
	if s == nil {
		return
	}
	defer file.Close()
	for e, ok := s.next(); ok && visit(e); e, ok = s.next() {
	}
}
