package txnlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
)

// snappyReader decompresses the stream format of the snappy-java library, which servers use: a
// header, then blocks of a length and Snappy's raw format.
type snappyReader struct {
	in    io.Reader
	block []byte // compressed
	out   []byte // decompressed
	pos   int    // number of bytes of out that Read has returned
}

const (
	snappyHeader   = "\x82SNAPPY\x00"
	maxSnappyBlock = 64 << 20
)

func newSnappyReader(in io.Reader) (*snappyReader, error) {
	head := make([]byte, len(snappyHeader)+8) // the header, and two version numbers
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	if string(head[:len(snappyHeader)]) != snappyHeader {
		return nil, errors.New("not in the format of snappy-java")
	}
	return &snappyReader{in: in}, nil
}

func (r *snappyReader) Read(p []byte) (int, error) {
	for r.pos == len(r.out) {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.out[r.pos:])
	r.pos += n
	return n, nil
}

// next decompresses the next block.
func (r *snappyReader) next() error {
	var head [4]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxSnappyBlock {
		return fmt.Errorf("a block of %d bytes", n)
	}
	if cap(r.block) < int(n) {
		r.block = make([]byte, n)
	}
	r.block = r.block[:n]
	if _, err := io.ReadFull(r.in, r.block); err != nil {
		return io.ErrUnexpectedEOF
	}
	size, err := snappy.DecodedLen(r.block)
	if err == nil && size > maxSnappyBlock {
		err = fmt.Errorf("a block of %d decompressed bytes", size)
	}
	if err == nil {
		r.out, err = snappy.Decode(r.out[:cap(r.out)], r.block)
	}
	if r.pos = 0; err != nil {
		r.out = nil
	}
	return err
}
