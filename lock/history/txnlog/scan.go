package txnlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"slices"
)

const (
	fileHeaderSize = 16 // magic, version, dbid
	frameSize      = 12 // an entry's checksum and length, before its payload
	chunkSize      = 256 << 10
	// maxEntry bounds an entry. The server's default for a request is 1 MiB, but the end of a session
	// may name many nodes, and jute.maxbuffer can be raised.
	maxEntry = 128 << 20
	// maxResync bounds the entries that resync looks for after damage, where any bytes may look like
	// a length.
	maxResync = 8 << 20
)

// entry is one entry of a log.
type entry struct {
	offset  int64
	zxid    int64
	time    int64  // Unix milliseconds
	sum     uint32 // Adler-32 of the payload
	payload []byte // header, record, digest; valid until the scanner's next entry
}

// scanner reads the entries of one log in their order. It verifies checksums and zxids, and finds
// the next entry after damage.
type scanner struct {
	f      io.ReaderAt
	path   string
	report func(*Problem)
	read   func(n int) // called with the number of bytes that were read; may be nil

	buf     []byte
	start   int64   // offset of buf in the file
	pos     int     // index of the next entry in buf
	eof     bool    // buf ends where the file does
	last    int64   // zxid of the last entry; 0: none
	swapped bool    // a disorder was reported
	seen    *recent // the latest entries of the folder
	done    bool    // there are no more entries
}

// newScanner reads the file's header. Its error is a *Problem.
func newScanner(f io.ReaderAt, path string, report func(*Problem), read func(int)) (*scanner, error) {
	s := &scanner{f: f, path: path, report: report, read: read, seen: new(recent)}
	got, err := s.need(fileHeaderSize)
	switch {
	case err != nil:
		return nil, &Problem{Kind: ProblemUnreadable, File: path, Err: err}
	case allZero(s.buf[:min(len(s.buf), fileHeaderSize)]):
		// The server crashed before it wrote the header.
		return nil, &Problem{Kind: ProblemTruncated, File: path, Err: errors.New("empty")}
	case !got:
		return nil, &Problem{Kind: ProblemTruncated, File: path, Bytes: int64(len(s.buf)), Err: errors.New("within the file's header")}
	case string(s.buf[:4]) != "ZKLG":
		return nil, &Problem{Kind: ProblemUnreadable, File: path, Err: errors.New("not a transaction log: it does not begin with ZKLG")}
	}
	if v := binary.BigEndian.Uint32(s.buf[4:]); v != 2 {
		return nil, &Problem{Kind: ProblemUnsupported, File: path, Err: fmt.Errorf("version %d of the transaction log's format; this program reads 2", v)}
	}
	s.pos = fileHeaderSize
	return s, nil
}

func (s *scanner) offset() int64 { return s.start + int64(s.pos) }

// need makes sure that buf has n bytes from pos on. It returns false if the file ends before.
func (s *scanner) need(n int) (bool, error) {
	for len(s.buf)-s.pos < n {
		if s.eof {
			return false, nil
		}
		rest := copy(s.buf, s.buf[s.pos:])
		s.buf, s.start, s.pos = s.buf[:rest], s.start+int64(s.pos), 0
		if rest == cap(s.buf) {
			// Grows with what the file has, so a hostile length costs no more than the file.
			s.buf = append(make([]byte, 0, max(chunkSize, 2*cap(s.buf))), s.buf...)
		}
		m, err := s.f.ReadAt(s.buf[rest:cap(s.buf)], s.start+int64(rest))
		s.buf = s.buf[:rest+m]
		if s.read != nil {
			s.read(m)
		}
		if err == io.EOF {
			s.eof = true
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// seek empties the buffer, so that the file is read again from the offset on.
func (s *scanner) seek(offset int64) {
	if s.read != nil {
		s.read(int(offset - s.start - int64(len(s.buf))))
	}
	s.buf, s.start, s.pos, s.eof = s.buf[:0], offset, 0, false
}

// next returns the next entry; false at the end.
func (s *scanner) next() (entry, bool) {
	for again := int64(-1); !s.done; {
		e, state, err := s.parse()
		switch {
		case err != nil:
			s.report(&Problem{Kind: ProblemUnreadable, File: s.path, Offset: s.offset(), Zxid: s.last, Err: err})
			s.done = true
		case state == entryGood:
			if s.accept(e) {
				return e, true
			}
		case s.offset() != again:
			// A server may have written this entry since the buffer was filled: read it again.
			again = s.offset()
			s.seek(again)
		case state == entryNone:
			s.padding()
		default:
			s.resync(s.offset()+1, s.offset())
		}
	}
	return entry{}, false
}

// accept reports whether e's zxid is higher than the last one; if not, e is left out. Then it reports
// a disorder, once for the file, unless the folder already had an equal entry: a server that restarts
// logs all that it gets from its leader, also entries that its log already has.
func (s *scanner) accept(e entry) bool {
	if e.zxid > s.last {
		s.last = e.zxid
		s.seen.add(e)
		return true
	}
	if !s.seen.has(e) && !s.swapped {
		s.swapped = true
		s.report(&Problem{Kind: ProblemDisorder, File: s.path, Offset: e.offset, Zxid: s.last, Until: e.zxid})
	}
	return false
}

// recent has the checksums of a folder's latest entries, to recognize entries that a server logs
// again. To a server that restarts, a leader sends up to 500 transactions, or more from its log: up
// to a third of a snapshot's size.
type recent struct {
	ring []checksum
	next int // index of the oldest one, once ring is full
}

type checksum struct {
	zxid int64
	sum  uint32
	size int32
}

const maxRecent = 1 << 15

func (r *recent) add(e entry) {
	c := checksum{e.zxid, e.sum, int32(len(e.payload))}
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, c)
		return
	}
	r.ring[r.next] = c
	r.next = (r.next + 1) % maxRecent
}

// has reports whether the ring has an equal entry. It uses a binary search, because zxids rise.
func (r *recent) has(e entry) bool {
	older, newer := r.ring[r.next:], r.ring[:r.next]
	for _, part := range [][]checksum{older, newer} {
		i, ok := slices.BinarySearchFunc(part, e.zxid, func(c checksum, zxid int64) int { return cmp.Compare(c.zxid, zxid) })
		if ok {
			return part[i] == checksum{e.zxid, e.sum, int32(len(e.payload))}
		}
	}
	return false
}

type entryState int

const (
	entryGood entryState = iota
	entryNone            // zeros: preallocated, or the end of the file
	entryBad
)

// parse reads the entry at pos, and advances past it if it is good.
func (s *scanner) parse() (entry, entryState, error) {
	ok, err := s.need(frameSize)
	if err != nil {
		return entry{}, 0, err
	}
	if !ok {
		if allZero(s.buf[s.pos:]) {
			return entry{}, entryNone, nil
		}
		return entry{}, entryBad, nil
	}
	sum := binary.BigEndian.Uint64(s.buf[s.pos:])
	n := int32(binary.BigEndian.Uint32(s.buf[s.pos+8:]))
	if sum == 0 && n == 0 {
		return entry{}, entryNone, nil
	}
	if sum>>32 != 0 || n < headerSize || n > maxEntry {
		return entry{}, entryBad, nil
	}
	size := frameSize + int(n) + 1
	if ok, err := s.need(size); !ok || err != nil {
		return entry{}, entryBad, err
	}
	b := s.buf[s.pos : s.pos+size]
	payload := b[frameSize : size-1 : size-1]
	if b[size-1] != 'B' || uint64(adler32.Checksum(payload)) != sum {
		return entry{}, entryBad, nil
	}
	h := decodeHeader(payload)
	e := entry{offset: s.offset(), zxid: h.zxid, time: h.time, sum: uint32(sum), payload: payload}
	s.pos += size
	return e, entryGood, nil
}

// padding skips the zeros at pos. If they are not the last bytes of the file, it looks for entries
// after them.
func (s *scanner) padding() {
	from := s.offset()
	for {
		ok, err := s.need(1)
		if err != nil {
			s.report(&Problem{Kind: ProblemUnreadable, File: s.path, Offset: s.offset(), Zxid: s.last, Err: err})
			s.done = true
			return
		}
		if !ok {
			s.done = true
			return
		}
		s.pos += leadingZeros(s.buf[s.pos:])
		if s.pos < len(s.buf) {
			break
		}
		if data, ok := nextData(s.f, s.offset()); ok && data > s.offset() {
			s.seek(data)
		}
	}
	// The checksum of an entry begins with four zeros, and may go on with more.
	candidate := max(from+1, s.offset()-frameSize)
	s.seek(from)
	if _, state, _ := s.parse(); state == entryGood {
		// No damage: the server was still writing this entry.
		s.seek(from)
		return
	}
	s.seek(candidate)
	s.resync(candidate, from)
}

// resync looks for a good entry at the offset or after it. It reports the bytes from bad on as lost.
func (s *scanner) resync(offset, bad int64) {
	s.pos += int(offset - s.offset())
	var spent int64 // bytes of false beginnings of entries
	end := bad      // end of the last byte that is not zero
	for {
		ok, err := s.need(frameSize + headerSize)
		if err != nil {
			s.report(&Problem{Kind: ProblemUnreadable, File: s.path, Offset: s.offset(), Zxid: s.last, Err: err})
			s.done = true
			return
		}
		if !ok {
			break
		}
		if s.plausible(&spent) {
			at := s.offset()
			if e, state, err := s.parse(); err == nil && state == entryGood {
				s.seek(at)
				s.report(&Problem{Kind: ProblemDamaged, File: s.path, Offset: bad, Bytes: at - bad, Zxid: s.last, Until: e.zxid})
				return
			}
		}
		if spent > 8*(s.offset()-bad)+64<<20 {
			s.report(&Problem{Kind: ProblemDamaged, File: s.path, Offset: bad, Bytes: s.offset() - bad, Zxid: s.last,
				Err: errors.New("too many false beginnings of entries; the rest of the file is left out")})
			s.done = true
			return
		}
		if zeros := leadingZeros(s.buf[s.pos:]); zeros > frameSize {
			s.pos += zeros - frameSize
			if data, ok := nextData(s.f, s.offset()); ok && data > s.start+int64(len(s.buf)) {
				s.seek(data - frameSize) // an entry's checksum may begin with zeros
			}
			continue
		}
		if s.buf[s.pos] != 0 {
			end = s.offset() + 1
		}
		s.pos++
	}
	for _, c := range s.buf[s.pos:] {
		s.pos++
		if c != 0 {
			end = s.offset()
		}
	}
	s.done = true
	s.report(&Problem{Kind: ProblemTruncated, File: s.path, Offset: bad, Bytes: max(end-bad, 0), Zxid: s.last})
}

// plausible reports cheaply whether an entry may begin at pos, and adds its length to spent. The
// header must be in the buffer.
func (s *scanner) plausible(spent *int64) bool {
	b := s.buf[s.pos:]
	if b[0]|b[1]|b[2]|b[3] != 0 {
		return false
	}
	n := int(int32(binary.BigEndian.Uint32(b[8:])))
	if n < headerSize || n > maxResync {
		return false
	}
	h := decodeHeader(b[frameSize:])
	if h.zxid <= s.last || h.time <= 0 || h.time > 1<<43 {
		return false
	}
	if ok, err := s.need(frameSize + n + 1); !ok || err != nil || s.buf[s.pos+frameSize+n] != 'B' {
		return false
	}
	*spent += int64(n)
	return true
}

func allZero(b []byte) bool { return leadingZeros(b) == len(b) }

var zeroBlock [4096]byte

// leadingZeros returns the number of zero bytes that b begins with.
func leadingZeros(b []byte) int {
	n := 0
	for len(b)-n >= len(zeroBlock) && bytes.Equal(b[n:n+len(zeroBlock)], zeroBlock[:]) {
		n += len(zeroBlock)
	}
	for n < len(b) && b[n] == 0 {
		n++
	}
	return n
}
