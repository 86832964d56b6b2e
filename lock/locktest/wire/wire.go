// Package wire talks to ZooKeeper servers without a client library, for tests and demonstrations. It
// can end sessions as servers do. It has only the parts of the protocol that this needs.
//
// The API of this package is not part of the compatibility promise in README.md: it may change in any
// release.
package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// expireTimeout limits Expire if the context allows more.
	expireTimeout = time.Minute
	// answerTimeout is the time without an answer after which Expire opens another connection.
	answerTimeout = 10 * time.Second
	// retryAfter is the pause after a lost connection.
	retryAfter = 20 * time.Millisecond
	// maxFrame is the largest frame accepted; servers refuse far smaller ones.
	maxFrame = 64 << 20
)

// ErrSessionGone means that the session does not exist, or has another password.
var ErrSessionGone = errors.New("session unknown to the server or password wrong")

// Expire ends a session at a server, as if it had timed out. The server deletes the session's
// ephemeral nodes, and the client learns of the end at its next connection. If the session does not
// exist, the error is [ErrSessionGone].
//
// Expire attaches the session to its own connection, so that the server closes the client's
// connection. Then Expire closes the session. A quick client may attach the session again, so
// Expire repeats this until the server no longer knows the session. A client that has attached its
// session again may notice the end only after its read timeout.
func Expire(ctx context.Context, addr string, id int64, passwd []byte) error {
	return expire(ctx, addr, id, passwd, answerTimeout)
}

func expire(ctx context.Context, addr string, id int64, passwd []byte, answerTimeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, expireTimeout)
	defer cancel()
	unanswered := &ConnectionLost{fmt.Errorf("no answer for %v", answerTimeout)}
	var last error
	for try := 1; ; try++ {
		// A busy server may accept a connection and never serve it.
		attempt, end := context.WithTimeoutCause(ctx, answerTimeout, unanswered)
		err := WithConn(attempt, addr, func(conn net.Conn) error { return closeSession(conn, id, passwd) })
		end()
		if try > 1 && errors.Is(err, ErrSessionGone) {
			return nil
		}
		var lost *ConnectionLost
		if err != nil && !errors.As(err, &lost) {
			return fmt.Errorf("wire: expiring session %#x at %s: %w (try %d, after %v)", id, addr, err, try, last)
		}
		if last = err; err != nil {
			// The client has attached the session again, or the server cannot serve now.
			select {
			case <-time.After(retryAfter):
			case <-ctx.Done():
			}
		}
	}
}

// ConnectionLost is the error of a connection that was lost.
type ConnectionLost struct{ error }

// Unwrap returns the reason.
func (e *ConnectionLost) Unwrap() error { return e.error }

// closeSession attaches a session to a connection, and closes the session. It sends both requests
// at once. The server reads the second as soon as it has attached the session, so the client has
// little time to attach the session again.
func closeSession(conn net.Conn, id int64, passwd []byte) error {
	// RequestHeader: xid int32 1, type int32 -11, which is closeSession in ZooDefs.OpCode.
	closing := []byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}
	if _, err := conn.Write(append(ConnectRequest(id, passwd), Frame(closing)...)); err != nil {
		return &ConnectionLost{err}
	}
	reply, err := ReadFrame(conn)
	if err != nil {
		return err
	}
	attached, _, err := ParseConnectResponse(reply)
	if err != nil {
		return err
	}
	if attached != id {
		return ErrSessionGone
	}
	reply, err = ReadFrame(conn)
	if err != nil {
		return err
	}
	// ReplyHeader: xid int32, zxid int64, err int32.
	if len(reply) < 4+16 {
		return fmt.Errorf("reply to closeSession is %d bytes long: must be 20 or more", len(reply))
	}
	if code := int32(binary.BigEndian.Uint32(reply[16:])); code != 0 {
		return fmt.Errorf("closeSession failed with code %d", code)
	}
	return nil
}

// ConnectRequest returns the first frame of a connection: protocolVersion int32,
// lastZxidSeen int64, timeOut int32, sessionId int64, passwd buffer, readOnly
// boolean; zookeeper.jute, class ConnectRequest.
func ConnectRequest(id int64, passwd []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, 0)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(expireTimeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = binary.BigEndian.AppendUint32(b, uint32(len(passwd)))
	b = append(b, passwd...)
	b = append(b, 0)
	return Frame(b)
}

// ParseConnectResponse reads a server's first frame: protocolVersion int32, timeOut int32,
// sessionId int64, passwd buffer; zookeeper.jute, class ConnectResponse. The id is 0 if the server
// has refused the session. passwd is a part of frame.
func ParseConnectResponse(frame []byte) (id int64, passwd []byte, err error) {
	const passwdAt = 4 + 4 + 4 + 8 + 4
	if len(frame) < passwdAt {
		return 0, nil, fmt.Errorf("connect response is %d bytes long: must be %d or more", len(frame), passwdAt)
	}
	id = int64(binary.BigEndian.Uint64(frame[12:]))
	size := binary.BigEndian.Uint32(frame[20:])
	if uint64(size) > uint64(len(frame)-passwdAt) {
		return 0, nil, fmt.Errorf("connect response has a password of %d bytes: there are %d", size, len(frame)-passwdAt)
	}
	return id, frame[passwdAt : passwdAt+size], nil
}

// Frame returns a packet with its length before it.
func Frame(packet []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)
}

// ReadFrame reads a packet, and returns it with its length before it, as [Frame] does. If the
// connection ends, the error is a [ConnectionLost].
func ReadFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, &ConnectionLost{err}
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes: must be at most %d", size, maxFrame)
	}
	frame := make([]byte, 4+size)
	copy(frame, length[:])
	if _, err := io.ReadFull(r, frame[4:]); err != nil {
		return nil, &ConnectionLost{err}
	}
	return frame, nil
}

// WithConn calls talk with a new connection to a server, and closes the connection afterwards. When
// the context ends, WithConn closes the connection at once and returns the cause.
func WithConn(ctx context.Context, addr string, talk func(net.Conn) error) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err == nil {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		err = talk(conn)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
