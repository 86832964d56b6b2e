package locktest

import "encoding/binary"

// Operation codes of requests and transactions, numbered as in ZooKeeper's
// ZooDefs.OpCode.
const (
	opCreate          = 1
	opDelete          = 2
	opExists          = 3
	opGetData         = 4
	opSetData         = 5
	opGetACL          = 6
	opSetACL          = 7
	opGetChildren     = 8
	opSync            = 9
	opPing            = 11
	opGetChildren2    = 12
	opCheck           = 13
	opMulti           = 14
	opCreate2         = 15
	opCheckWatches    = 17
	opRemoveWatches   = 18
	opCreateContainer = 19
	opAuth            = 100
	opSetWatches      = 101
	opSASL            = 102
	opCreateSession   = -10 // in the log only
	opCloseSession    = -11
	opError           = -1 // a failed operation in the reply to a multi

	// Operations that are not modelled, see refusedOps.
	opReconfig      = 16
	opCreateTTL     = 21
	opMultiRead     = 22
	opGetEphemerals = 103
	opCountChildren = 104
	opSetWatches2   = 105
	opAddWatch      = 106
	opWhoAmI        = 107

	// Codes that are never on the wire.
	opConnect     = -1000
	opSetSequence = -1001
)

var opNames = map[int32]string{
	opCreate: "create", opDelete: "delete", opExists: "exists", opGetData: "getData",
	opSetData: "setData", opGetACL: "getACL", opSetACL: "setACL",
	opGetChildren: "getChildren", opSync: "sync", opPing: "ping",
	opGetChildren2: "getChildren2", opCheck: "check", opMulti: "multi",
	opCreate2: "create2", opCreateContainer: "createContainer", opCheckWatches: "checkWatches",
	opRemoveWatches: "removeWatches", opAuth: "setAuth", opSetWatches: "setWatches",
	opSASL:         "sasl",
	opCloseSession: "closeSession", opConnect: "connect",
}

// refusedOps has the operations of real servers that are not modelled, and their error codes. If
// servers can disable an operation, the code is that of a server that has disabled it.
var refusedOps = map[int32]int32{
	opReconfig: codeReconfigDisabled, opCreateTTL: codeUnimplemented, opMultiRead: codeUnimplemented,
	opGetEphemerals: codeUnimplemented, opCountChildren: codeUnimplemented,
	opSetWatches2: codeUnimplemented, opAddWatch: codeUnimplemented, opWhoAmI: codeUnimplemented,
}

func opName(code int32) string {
	if name, ok := opNames[code]; ok {
		return name
	}
	return "unknown"
}

// Error codes of replies, numbered as in ZooKeeper's KeeperException.Code.
const (
	codeOK                      int32 = 0
	codeRuntimeInconsistency    int32 = -2
	codeMarshalling             int32 = -5
	codeUnimplemented           int32 = -6
	codeBadArguments            int32 = -8
	codeNoNode                  int32 = -101
	codeNoAuth                  int32 = -102
	codeBadVersion              int32 = -103
	codeNoChildrenForEphemerals int32 = -108
	codeNodeExists              int32 = -110
	codeNotEmpty                int32 = -111
	codeSessionExpired          int32 = -112
	codeInvalidACL              int32 = -114
	codeAuthFailed              int32 = -115
	codeSessionMoved            int32 = -118
	codeNoWatcher               int32 = -121
	codeReconfigDisabled        int32 = -123
)

// Event types of watches.
const (
	nodeCreated         = 1
	nodeDeleted         = 2
	nodeDataChanged     = 3
	nodeChildrenChanged = 4
)

// Kinds of watches that a client checks or removes.
const (
	watchersOfChildren = 1
	watchersOfData     = 2
	watchersOfAny      = 3
)

// Flags of a create.
const (
	flagEphemeral  = 1
	flagSequential = 2
	flagContainer  = 4
)

const (
	xidEvent        = -1      // xid of a watch's event
	xidPing         = -2      // xid of the reply to a ping
	stateOn         = 3       // session state in a watch's event: connected
	defaultMaxFrame = 0xfffff // jute.maxbuffer's default: a longer frame cuts the connection
	passwordBytes   = 16
)

// An op is one operation: a request, or a part of a multi.
type op struct {
	code    int32
	path    string
	data    []byte
	acl     []ACL
	flags   int32
	version int32
	watch   bool
	which   int32 // watches to check or to remove
}

// A request is one decoded frame from a client.
type request struct {
	op
	xid       int32
	malformed bool // the frame lacks fields of its operation
	ops       []op // operations of a multi

	connect    connectRequest // fields of a handshake
	auth       authRequest    // fields of a setAuth
	setWatches setWatchesRequest

	number int // number among its label's requests, from 1; 0: handshake or ping
}

type connectRequest struct {
	lastZxid    int64
	timeout     int32 // ms
	session     int64
	password    []byte
	hasReadOnly bool // clients since 3.4 append a flag, and receive one
}

type authRequest struct {
	scheme string
	auth   []byte
}

type setWatchesRequest struct {
	relativeZxid         int64
	data, exists, childs []string
}

// decodeConnect decodes the first frame of a connection.
func decodeConnect(frame []byte) *request {
	d := decoder{b: frame}
	r := &request{op: op{code: opConnect}}
	d.int32() // the protocol's version
	r.connect.lastZxid = d.int64()
	r.connect.timeout = d.int32()
	r.connect.session = d.int64()
	r.connect.password = d.buffer()
	r.connect.hasReadOnly = len(d.b) > 0
	r.malformed = d.bad
	return r
}

// decodeRequest decodes a frame after the first one. It returns nil if the frame is too short for a
// request's header.
func decodeRequest(frame []byte) *request {
	d := decoder{b: frame}
	r := &request{}
	r.xid = d.int32()
	r.code = d.int32()
	if d.bad {
		return nil
	}
	switch r.code {
	case opMulti:
		r.ops = d.multi()
	case opAuth:
		d.int32() // an unused type
		r.auth.scheme = d.string()
		r.auth.auth = d.buffer()
	case opSASL:
		d.buffer() // the client's token
	case opSetWatches:
		r.setWatches.relativeZxid = d.int64()
		r.setWatches.data = d.strings()
		r.setWatches.exists = d.strings()
		r.setWatches.childs = d.strings()
	default:
		d.op(&r.op)
	}
	r.malformed = d.bad
	return r
}

// A decoder reads values in ZooKeeper's serialization, jute: integers in big endian, strings and
// buffers after their length. A read past the end, or an impossible length, makes it bad; from
// then on it returns zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.bad = true
		d.b = nil
		return nil
	}
	b := d.b[:n]
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

// string reads a string. Null is bad: a real server fails on it too.
func (d *decoder) string() string { return string(d.take(int(d.int32()))) }

// buffer returns a copy of a buffer; nil for null.
func (d *decoder) buffer() []byte {
	n := d.int32()
	if n == -1 || d.bad {
		return nil
	}
	b := d.take(int(n))
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

func (d *decoder) strings() []string {
	var ss []string
	for n := d.int32(); n > 0 && !d.bad; n-- {
		ss = append(ss, d.string())
	}
	return ss
}

func (d *decoder) acl() []ACL {
	var list []ACL
	for n := d.int32(); n > 0 && !d.bad; n-- {
		list = append(list, ACL{Perms: d.int32(), Scheme: d.string(), ID: d.string()})
	}
	return list
}

// op reads the fields of an operation whose code is set.
func (d *decoder) op(o *op) {
	switch o.code {
	case opCreate, opCreate2, opCreateContainer:
		o.path = d.string()
		o.data = d.buffer()
		o.acl = d.acl()
		o.flags = d.int32()
	case opDelete, opCheck:
		o.path = d.string()
		o.version = d.int32()
	case opSetData:
		o.path = d.string()
		o.data = d.buffer()
		o.version = d.int32()
	case opSetACL:
		o.path = d.string()
		o.acl = d.acl()
		o.version = d.int32()
	case opExists, opGetData, opGetChildren, opGetChildren2:
		o.path = d.string()
		o.watch = d.bool()
	case opGetACL, opSync:
		o.path = d.string()
	case opCheckWatches, opRemoveWatches:
		o.path = d.string()
		o.which = d.int32()
	}
}

// multi reads the operations of a multi up to the header that ends it.
func (d *decoder) multi() []op {
	var ops []op
	for !d.bad {
		o := op{code: d.int32()}
		done := d.bool()
		d.int32() // an error code, in replies
		if done {
			break
		}
		switch o.code {
		case opCreate, opCreate2, opCreateContainer, opDelete, opSetData, opCheck:
			d.op(&o)
			ops = append(ops, o)
		default:
			d.bad = true
		}
	}
	return ops
}

// An encoder builds one frame.
type encoder struct{ b []byte }

// start begins a frame. It reuses the memory of the last one.
func (e *encoder) start() { e.b = append(e.b[:0], 0, 0, 0, 0) }

// frame completes the frame and returns it. The next start overwrites its memory.
func (e *encoder) frame() []byte {
	binary.BigEndian.PutUint32(e.b, uint32(len(e.b)-4))
	return e.b
}

func (e *encoder) int32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) int64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) string(s string) {
	e.int32(int32(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) buffer(b []byte) {
	if b == nil {
		e.int32(-1)
		return
	}
	e.int32(int32(len(b)))
	e.b = append(e.b, b...)
}

func (e *encoder) acl(list []ACL) {
	e.int32(int32(len(list)))
	for _, a := range list {
		e.int32(a.Perms)
		e.string(a.Scheme)
		e.string(a.ID)
	}
}

func (e *encoder) stat(s *Stat) {
	e.int64(s.Czxid)
	e.int64(s.Mzxid)
	e.int64(s.Ctime)
	e.int64(s.Mtime)
	e.int32(s.Version)
	e.int32(s.Cversion)
	e.int32(s.Aversion)
	e.int64(s.EphemeralOwner)
	e.int32(s.DataLength)
	e.int32(s.NumChildren)
	e.int64(s.Pzxid)
}

// header begins a reply.
func (e *encoder) header(xid int32, zxid int64, code int32) {
	e.start()
	e.int32(xid)
	e.int64(zxid)
	e.int32(code)
}

// event returns the frame of a watch's event.
func (e *encoder) event(kind int32, path string) []byte {
	e.header(xidEvent, -1, codeOK)
	e.int32(kind)
	e.int32(stateOn)
	e.string(path)
	return e.frame()
}

// result encodes the body of one operation's reply.
func (e *encoder) result(r *result) {
	switch r.code {
	case opCreate:
		e.string(r.path)
	case opCreate2, opCreateContainer:
		e.string(r.path)
		e.stat(&r.stat)
	case opSetData, opSetACL:
		e.stat(&r.stat)
	case opError:
		e.int32(r.err)
	}
}

// multi encodes the body of a multi's reply.
func (e *encoder) multi(results []result) {
	for i := range results {
		r := &results[i]
		e.int32(r.code)
		e.bool(false)
		e.int32(r.err)
		e.result(r)
	}
	e.int32(-1)
	e.bool(true)
	e.int32(-1)
}
