package txnlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	var size [4]byte
	if _, err := io.ReadFull(r.in, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
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
	var err error
	r.out, err = unsnappy(r.out[:0], r.block)
	r.pos = 0
	return err
}

var errSnappy = errors.New("not in Snappy's format")

// unsnappy decompresses one block of Snappy's raw format, and appends it to out. See
// format_description.txt of github.com/google/snappy.
func unsnappy(out, b []byte) ([]byte, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > maxSnappyBlock {
		return nil, errSnappy
	}
	start := len(out)
	for b = b[n:]; len(b) > 0; {
		tag := b[0]
		if tag&3 == 0 {
			length, skip := literal(b)
			if skip == 0 || length > len(b)-skip || length > int(size)-(len(out)-start) {
				return nil, errSnappy
			}
			out = append(out, b[skip:skip+length]...)
			b = b[skip+length:]
			continue
		}
		length, distance, skip := reference(b)
		if skip == 0 || distance == 0 || distance > len(out)-start || length > int(size)-(len(out)-start) {
			return nil, errSnappy
		}
		for range length { // byte by byte, because the copy may overlap with its source
			out = append(out, out[len(out)-distance])
		}
		b = b[skip:]
	}
	if len(out)-start != int(size) {
		return nil, errSnappy
	}
	return out, nil
}

// literal returns the length of the literal at the beginning of b, and the number of bytes before
// its content; 0 if b is too short.
func literal(b []byte) (length, skip int) {
	length = int(b[0] >> 2)
	if length < 60 {
		return length + 1, 1
	}
	extra := length - 59
	if len(b) <= extra {
		return 0, 0
	}
	var n uint32
	for i := range extra {
		n |= uint32(b[1+i]) << (8 * i)
	}
	if n >= maxSnappyBlock {
		return 0, 0
	}
	return int(n) + 1, 1 + extra
}

// reference returns the length and distance of earlier bytes to copy, and the length of the
// reference; 0 if b is too short.
func reference(b []byte) (length, distance, skip int) {
	switch tag := b[0]; {
	case tag&3 == 1 && len(b) >= 2:
		return int(tag>>2&7) + 4, int(tag>>5)<<8 | int(b[1]), 2
	case tag&3 == 2 && len(b) >= 3:
		return int(tag>>2) + 1, int(binary.LittleEndian.Uint16(b[1:])), 3
	case tag&3 == 3 && len(b) >= 5:
		d := binary.LittleEndian.Uint32(b[1:])
		return int(tag>>2) + 1, int(min(d, maxSnappyBlock)), 5
	}
	return 0, 0, 0
}
