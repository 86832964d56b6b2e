package txnlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Types of transactions that have no OpKind of their own.
const (
	typeMulti           = 14
	typeCreate2         = 15
	typeCreateContainer = 19
	typeDeleteContainer = 20
	typeCreateTTL       = 21
)

const headerSize = 32 // TxnHeader: session, the client's number of the request, zxid, time, type

// header is the fixed beginning of a transaction.
type header struct {
	session int64
	zxid    int64
	time    int64 // Unix milliseconds
	kind    int32
}

func decodeHeader(b []byte) header {
	return header{
		session: int64(binary.BigEndian.Uint64(b)),
		zxid:    int64(binary.BigEndian.Uint64(b[12:])),
		time:    int64(binary.BigEndian.Uint64(b[20:])),
		kind:    int32(binary.BigEndian.Uint32(b[28:])),
	}
}

// decoder reads ZooKeeper's serialization (jute) from bytes. After a failure, err is set and all
// reads return zero values.
type decoder struct {
	b   []byte
	err error
}

var errShort = errors.New("the record ends too early")

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		if d.err == nil {
			d.err = errShort
		}
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

// buffer returns a part of d.b, not a copy; nil if its length is -1.
func (d *decoder) buffer() []byte {
	n := d.int32()
	if n == -1 {
		return nil
	}
	return d.take(int(n))
}

// data is like buffer, but returns a copy.
func (d *decoder) data() []byte {
	b := d.buffer()
	if b == nil {
		return nil
	}
	data := make([]byte, len(b))
	copy(data, b)
	return data
}

func (d *decoder) string() string { return string(d.buffer()) }

// skipACL skips an access control list.
func (d *decoder) skipACL() {
	n := int(d.int32())
	if n > len(d.b)/12 {
		d.err = errShort
		return
	}
	for range n {
		d.take(4)
		d.buffer()
		d.buffer()
	}
}

// errType is the error of a transaction of unknown type.
type errType int32

func (e errType) Error() string { return fmt.Sprintf("unknown type %d", int32(e)) }

// decodeTxn decodes a whole transaction. t shares no memory with b. rest is the part of b after the
// record: the digest, if there is one.
func decodeTxn(b []byte) (t Txn, rest []byte, err error) {
	if len(b) < headerSize {
		return Txn{}, nil, errShort
	}
	h := decodeHeader(b)
	t = Txn{Zxid: h.zxid, Time: time.UnixMilli(h.time), Session: h.session}
	d := &decoder{b: b[headerSize:]}
	switch {
	case h.kind == typeMulti:
		t.Ops = d.multi()
	case h.kind == int32(OpCloseSession):
		t.Ops = []Op{{Kind: OpCloseSession, Ended: d.ended()}}
	default:
		t.Ops = []Op{d.op(h.kind)}
	}
	if d.err != nil {
		return Txn{}, nil, d.err
	}
	return t, d.b, nil
}

// multi decodes the operations of a multi. Of a multi that failed, it returns only the error of the
// refused operation.
func (d *decoder) multi() []Op {
	n := int(d.int32())
	if n > len(d.b)/8 {
		d.err = errShort
		return nil
	}
	ops := make([]Op, 0, max(n, 0))
	for range n {
		kind := d.int32()
		data := d.buffer()
		if d.err != nil {
			return nil
		}
		sub := decoder{b: data}
		op := sub.op(kind)
		if sub.err != nil {
			d.err = sub.err
			return nil
		}
		// The operations before the one that failed stand in the log as if they had succeeded.
		if op.Kind == OpError && op.Err != 0 {
			ops = append(ops[:0], op)
			d.skipOps(n)
			return ops
		}
		ops = append(ops, op)
	}
	return ops
}

// skipOps skips the remaining operations of a multi that failed: fewer than n.
func (d *decoder) skipOps(n int) {
	for range n {
		rest := d.b
		kind := d.int32()
		d.buffer()
		if d.err != nil || kind != int32(OpError) {
			d.b, d.err = rest, nil // these bytes are the digest
			return
		}
	}
}

// ended decodes the paths of a CloseSessionTxn. Releases before 3.6, and later ones by their
// configuration, write none, and then a digest may follow at once.
func (d *decoder) ended() []string {
	if len(d.b) == 0 {
		return nil
	}
	try := *d
	n := int(try.int32())
	if n < 0 || n > len(try.b)/4 {
		return nil
	}
	paths := make([]string, n)
	for i := range paths {
		paths[i] = try.string()
		if try.err != nil || len(paths[i]) == 0 || paths[i][0] != '/' {
			return nil
		}
	}
	d.b = try.b
	return paths
}

// op decodes one operation, other than a multi or the end of a session.
func (d *decoder) op(kind int32) Op {
	op := Op{Kind: OpKind(kind)}
	switch kind {
	case int32(OpCreate), typeCreate2, typeCreateContainer, typeCreateTTL:
		op.Kind = OpCreate
		op.Path = d.string()
		op.Data = d.data()
		d.skipACL()
		d.createFlags(kind, &op)
	case int32(OpDelete), typeDeleteContainer:
		op.Kind = OpDelete
		op.Path = d.string()
	case int32(OpSetData), int32(OpReconfig):
		op.Path = d.string()
		op.Data = d.data()
		op.Version = d.int32()
	case int32(OpSetACL):
		op.Path = d.string()
		d.skipACL()
		op.Version = d.int32()
	case int32(OpCheck):
		op.Path = d.string()
		op.Version = d.int32() - 1 // the leader logs the version that a write would have made
	case int32(OpBeginSession):
		op.Timeout = time.Duration(d.int32()) * time.Millisecond
	case int32(OpError):
		op.Err = d.int32()
	default:
		d.err = errType(kind)
	}
	return op
}

// createFlags decodes the end of a create's record. kind determines its format.
func (d *decoder) createFlags(kind int32, op *Op) {
	if kind == int32(OpCreate) || kind == typeCreate2 {
		op.Ephemeral = d.bool()
	}
	op.CVersion = d.int32()
	if kind == typeCreateTTL {
		d.int64()
	}
}

// sameTxn reports whether two payloads are the same transaction. Their digests may differ, because
// a server computes the digest from its own tree.
func sameTxn(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if !bytes.Equal(a[:headerSize], b[:headerSize]) {
		return false
	}
	x, restA, errA := decodeTxn(a)
	y, restB, errB := decodeTxn(b)
	if errA != nil || errB != nil {
		return false
	}
	if decodeHeader(a).kind == int32(OpCloseSession) {
		return true // a server of 3.5 leaves out the paths
	}
	failed := func(t Txn) bool { return len(t.Ops) == 1 && t.Ops[0].Kind == OpError }
	if failed(x) && failed(y) {
		return true // a leader of 3.9 may log another code than its followers; neither changes anything
	}
	return bytes.Equal(a[:len(a)-len(restA)], b[:len(b)-len(restB)])
}
