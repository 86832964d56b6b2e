package txnlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"time"
)

// Snapshot is a snapshot file: all nodes and sessions as of Zxid, and maybe some later changes. It
// may be plain, or compressed by gzip or Snappy.
type Snapshot struct {
	Path string
	Zxid int64
	Size int64 // bytes of the file

	dir         int
	compression string // "", "gz", "snappy"
}

// Session is a client's session that a snapshot shows as open.
type Session struct {
	ID      int64
	Timeout time.Duration
}

// Snapshots returns all snapshots, in the order of their zxids.
func (l *Log) Snapshots() []*Snapshot { return slices.Clone(l.snaps) }

// SnapshotsFor returns the snapshots that are older than the range's first transaction, the newest
// first. The state before the range is that of one of them and all transactions after
// Snapshot.Zxid, up to the range. Files that are visibly incomplete are left out; others may prove
// damaged when they are read, so have the next one ready.
func (l *Log) SnapshotsFor(r Range) []*Snapshot {
	start := r.From
	if files := l.needed(r, r.To); len(files) > 0 {
		start = max(start, files[0].first)
	} else if start == 0 {
		start = math.MaxInt64
	}
	var fit []*Snapshot
	for _, s := range l.snaps {
		if s.Zxid < start && s.whole() {
			fit = append(fit, s)
		}
	}
	slices.Reverse(fit)
	return fit
}

// whole reports whether the file ends as a snapshot does. Of a compressed file it checks only that
// it is not empty.
func (s *Snapshot) whole() bool {
	f, err := os.Open(s.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	if s.compression != "" {
		return s.Size > 0
	}
	end := make([]byte, 5)
	if _, err := f.ReadAt(end, s.Size-int64(len(end))); err != nil {
		return false
	}
	return bytes.Equal(end, []byte{0, 0, 0, 1, '/'})
}

// Sessions returns the sessions that were open. An error, a *Problem, ends the iteration.
func (s *Snapshot) Sessions() iter.Seq2[Session, error] {
	return func(yield func(Session, error) bool) {
		r, err := s.open()
		if err != nil {
			yield(Session{}, err)
			return
		}
		defer r.file.Close()
		stopped := false
		r.sessions(func(session Session) bool {
			stopped = !yield(session, nil)
			return !stopped
		})
		if err := r.problem(); err != nil && !stopped {
			yield(Session{}, err)
		}
	}
}

// Nodes returns all nodes, parents before their children. The caller may keep them. An error, a
// *Problem, ends the iteration: the snapshot is incomplete or damaged. Then its last nodes may be
// wrong, so use another snapshot. Memory is bounded by the largest node.
func (s *Snapshot) Nodes() iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		r, err := s.open()
		if err != nil {
			yield(Node{}, err)
			return
		}
		defer r.file.Close()
		r.sessions(func(Session) bool { return true })
		r.skipACLs()
		for {
			n, ok := r.node()
			if !ok {
				break
			}
			if !yield(n, nil) {
				return
			}
		}
		r.seal()
		if err := r.problem(); err != nil {
			yield(Node{}, err)
		}
	}
}

// snapshotReader reads a snapshot's records. After a failure err is set, and all reads return zero
// values.
type snapshotReader struct {
	snap   *Snapshot
	file   *os.File
	in     *bufio.Reader
	sum    hash.Hash32
	offset int64 // number of uncompressed bytes read
	err    error
	small  [256]byte // buffer of take
}

// open opens the file and reads its header.
func (s *Snapshot) open() (*snapshotReader, error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, &Problem{Kind: ProblemUnreadable, File: s.Path, Zxid: s.Zxid, Err: err}
	}
	r := &snapshotReader{snap: s, file: f, sum: adler32.New()}
	var in io.Reader = bufio.NewReaderSize(f, chunkSize)
	switch s.compression {
	case "gz":
		in, err = gzip.NewReader(in)
	case "snappy":
		in, err = newSnappyReader(in)
	}
	if err != nil {
		f.Close()
		return nil, &Problem{Kind: ProblemTruncated, File: s.Path, Zxid: s.Zxid, Err: fmt.Errorf("%s: %w", s.compression, err)}
	}
	r.in = bufio.NewReaderSize(in, chunkSize)
	magic := r.take(4)
	if r.err == nil && string(magic) != "ZKSN" {
		f.Close()
		return nil, &Problem{Kind: ProblemUnreadable, File: s.Path, Zxid: s.Zxid, Err: errors.New("not a snapshot: it does not begin with ZKSN")}
	}
	if v := r.int32(); r.err == nil && v != 2 {
		f.Close()
		return nil, &Problem{Kind: ProblemUnsupported, File: s.Path, Zxid: s.Zxid, Err: fmt.Errorf("version %d of the snapshot's format; this program reads 2", v)}
	}
	r.int64() // dbid
	return r, nil
}

// problem returns the failure so far as a *Problem, or nil.
func (r *snapshotReader) problem() error {
	if r.err == nil {
		return nil
	}
	kind := ProblemDamaged
	if errors.Is(r.err, io.EOF) || errors.Is(r.err, io.ErrUnexpectedEOF) {
		kind = ProblemTruncated
	}
	return &Problem{Kind: kind, File: r.snap.Path, Offset: r.offset, Zxid: r.snap.Zxid, Err: r.err}
}

// take reads n bytes. If they fit into small, they are valid until the next read; otherwise they are
// the caller's.
func (r *snapshotReader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > maxEntry {
		r.err = fmt.Errorf("a length of %d bytes", n)
		return nil
	}
	var b []byte
	switch {
	case n <= len(r.small):
		b = r.small[:n]
		_, r.err = io.ReadFull(r.in, b)
	case n <= 1<<20:
		b = make([]byte, n)
		_, r.err = io.ReadFull(r.in, b)
	default:
		// Grows with what the file has, so a hostile length costs no more than the file.
		var grown bytes.Buffer
		_, r.err = io.CopyN(&grown, r.in, int64(n))
		b = grown.Bytes()
	}
	if r.err != nil {
		return nil
	}
	r.offset += int64(n)
	r.sum.Write(b)
	return b
}

func (r *snapshotReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *snapshotReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *snapshotReader) buffer() []byte {
	n := r.int32()
	if r.err != nil || n == -1 {
		return nil
	}
	b := r.take(int(n))
	if int(n) <= len(r.small) && b != nil {
		b = append(make([]byte, 0, n), b...)
	}
	return b
}

func (r *snapshotReader) string() string {
	n := r.int32()
	if r.err != nil || n == -1 {
		return ""
	}
	return string(r.take(int(n)))
}

// sessions reads the open sessions, until yield returns false.
func (r *snapshotReader) sessions(yield func(Session) bool) {
	for n := r.int32(); n > 0 && r.err == nil; n-- {
		s := Session{ID: r.int64(), Timeout: time.Duration(r.int32()) * time.Millisecond}
		if r.err == nil && !yield(s) {
			return
		}
	}
}

// skipACLs skips the access control lists.
func (r *snapshotReader) skipACLs() {
	for n := r.int32(); n > 0 && r.err == nil; n-- {
		r.int64() // its number
		for m := r.int32(); m > 0 && r.err == nil; m-- {
			r.int32()
			r.buffer()
			r.buffer()
		}
	}
}

// node reads the next node; false after the last one, or after a failure.
func (r *snapshotReader) node() (Node, bool) {
	path := r.string()
	if r.err != nil || path == "/" {
		return Node{}, false
	}
	if path == "" {
		path = "/"
	}
	if path[0] != '/' {
		r.err = fmt.Errorf("node %.100q: its path does not begin with a slash", path)
	}
	n := Node{Path: path, Data: r.buffer()}
	d := decoder{b: r.take(statSize)}
	if r.err != nil {
		return Node{}, false
	}
	d.int64() // the number of its access control list
	n.Czxid, n.Mzxid = d.int64(), d.int64()
	n.Ctime, n.Mtime = time.UnixMilli(d.int64()), time.UnixMilli(d.int64())
	n.Version, n.CVersion, _ = d.int32(), d.int32(), d.int32()
	n.EphemeralOwner = ownerOf(d.int64())
	n.Pzxid = d.int64()
	return n, true
}

// statSize is the length of a node's record after the data: the number of its access control list,
// and StatPersisted.
const statSize = 68

// ownerOf returns the session in the field ephemeralOwner, or 0: a server also saves there that a node
// is a container, or when it expires.
func ownerOf(owner int64) int64 {
	if owner == math.MinInt64 || uint64(owner)>>40 == 0xff0000 {
		return 0
	}
	return owner
}

// seal verifies the checksum after the nodes. It ignores the data that later releases append.
func (r *snapshotReader) seal() {
	want := int64(r.sum.Sum32())
	if got := r.int64(); r.err == nil && got != want {
		r.err = fmt.Errorf("the checksum is %#x, that of the content is %#x", got, want)
	}
}
