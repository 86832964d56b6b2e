package zkconn

import (
	"encoding/binary"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Constants of the wire protocol: operations, xids of requests and replies, and error codes.
const (
	opGetData    = 4
	opPing       = 11
	opAuth       = 100
	opSetWatches = 101
	opSASL       = 102
	opClose      = -11

	xidEvent = -1
	xidPing  = -2
	xidSASL  = -16 // distinct, because the xids of go-zookeeper's calls are not negative

	codeAuthFailed   = -115
	codeRequiresAuth = -124
)

func ping() []byte { return frame(binary.BigEndian.AppendUint32(int32s(xidPing), opPing)) }

// frame returns a frame of the wire protocol: the length of the content, and the content.
func frame(content []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(content))), content...)
}

// operation returns the operation of a request; 0 if it has none.
func operation(packet []byte) int32 {
	if len(packet) < 12 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(packet[8:]))
}

// int32s encodes 32-bit numbers, one after the other.
func int32s(numbers ...int32) (b []byte) {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// reply returns a server's reply to a request, without results.
func reply(xid int32) []byte { return frame(int32s(xid, 0, 0, 0)) }

// firings returns the events with which a server fires the watches.
func firings(keys []watchKey) (frames []byte) {
	for _, k := range keys {
		head := int32s(xidEvent, -1, -1, 0, int32(k.event), int32(zk.StateSyncConnected), int32(len(k.path)))
		frames = append(frames, frame(append(head, k.path...))...)
	}
	return frames
}

var errNoWatches = errors.New("undecodable setWatches")

// parseSetWatches returns the xid of a setWatches, and its watches: on data, on existence and on
// children.
func parseSetWatches(packet []byte) (xid int32, keys []watchKey, err error) {
	const head = 20 // length, xid, operation and zxid
	if len(packet) < head {
		return 0, nil, errNoWatches
	}
	xid, rest := int32(binary.BigEndian.Uint32(packet[4:])), packet[head:]
	number := func() int {
		if len(rest) < 4 {
			err = errNoWatches
			return 0
		}
		n := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		return int(n)
	}
	for _, event := range []zk.EventType{zk.EventNodeDataChanged, zk.EventNodeCreated, zk.EventNodeChildrenChanged} {
		for n := number(); n > 0 && err == nil; n-- {
			length := number()
			if length < 0 || length > len(rest) {
				return 0, nil, errNoWatches
			}
			keys = append(keys, watchKey{event, string(rest[:length])})
			rest = rest[length:]
		}
	}
	return xid, keys, err
}

// handshake is the session id and the last seen zxid in a client's first frame.
type handshake struct{ session, zxid int64 }

func parseHandshake(packet []byte) *handshake {
	if len(packet) < 28 {
		return &handshake{}
	}
	return &handshake{
		zxid:    int64(binary.BigEndian.Uint64(packet[8:])),
		session: int64(binary.BigEndian.Uint64(packet[20:])),
	}
}

// expired returns the answer to a handshake for a session that has ended.
func expired() []byte { return frame(append(int32s(0, 0, 0, 0, 16), make([]byte, 16)...)) }
