package demo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// session is a ZooKeeper session, as its client got it from a server.
type session struct {
	server string // host:port
	id     uint64
	secret []byte // with which any connection may take it over
}

// listen wraps a connection to a server so that it tells of the session that the
// server gives: the first frame that comes is the answer to the handshake.
func listen(conn net.Conn, server string, tell func(session)) net.Conn {
	return &listener{Conn: conn, server: server, tell: tell}
}

type listener struct {
	net.Conn
	server string
	tell   func(session)
	frame  []byte
	done   bool
}

func (l *listener) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if !l.done {
		l.frame = append(l.frame, p[:n]...)
		if id, secret, whole := connectResponse(l.frame); whole {
			l.done, l.frame = true, nil
			l.tell(session{l.server, id, secret})
		}
	}
	return n, err
}

// connectResponse reads the answer to a handshake, if it is whole: the length of
// what follows, protocolVersion int32, timeOut int32, sessionId int64, passwd as a
// length and bytes; zookeeper.jute, class ConnectResponse.
func connectResponse(frame []byte) (id uint64, secret []byte, whole bool) {
	const secretAt = 4 + 4 + 4 + 8 + 4
	if len(frame) < secretAt {
		return 0, nil, false
	}
	const most = 1 << 10 // it has 16 bytes
	n := binary.BigEndian.Uint32(frame[secretAt-4:])
	switch {
	case n > most:
		return 0, nil, true // whatever it is
	case len(frame) < secretAt+int(n):
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(frame[12:]), frame[secretAt : secretAt+n], true
}

var errGone = errors.New("the server does not know the session")

// expire ends the session at the server, as the server does when it has heard
// nothing from the client for too long. It returns when the server no longer knows
// the session.
func (s session) expire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for try := 1; ; try++ {
		err := s.takeOverAndClose(ctx)
		switch {
		case errors.Is(err, errGone) && try > 1:
			return nil
		case errors.Is(err, errGone):
			return fmt.Errorf("expire session %#x: %w", s.id, err)
		case err == nil:
			continue // once more, to hear that it is gone
		}
		// Its client may have been quicker, and taken it back.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("expire session %#x: %w", s.id, errors.Join(context.Cause(ctx), err))
		}
	}
}

// takeOverAndClose connects with the session and closes it. A server that does not
// know it gives errGone.
func (s session) takeOverAndClose(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.server)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	// ConnectRequest: protocolVersion int32, lastZxidSeen int64, timeOut int32,
	// sessionId int64, passwd, readOnly bool. Then a RequestHeader: xid int32,
	// type int32, -11 for closeSession.
	hello := make([]byte, 4+8, 64)
	hello = binary.BigEndian.AppendUint32(hello, 10_000)
	hello = binary.BigEndian.AppendUint64(hello, s.id)
	hello = binary.BigEndian.AppendUint32(hello, uint32(len(s.secret)))
	hello = append(append(hello, s.secret...), 0)
	goodbye := []byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}
	if _, err := conn.Write(append(frame(hello), frame(goodbye)...)); err != nil {
		return err
	}
	answer, err := readFrame(conn)
	if err != nil {
		return err
	}
	if id, _, whole := connectResponse(answer); !whole || id != s.id {
		return errGone
	}
	_, err = readFrame(conn)
	return err
}

func frame(packet []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)
}

// readFrame reads a frame, its length included.
func readFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	const most = 1 << 20 // the server's limit, too
	n := binary.BigEndian.Uint32(head)
	if n > most {
		return nil, fmt.Errorf("frame of %d bytes: at most %d are allowed", n, most)
	}
	frame := make([]byte, 4+n)
	copy(frame, head)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
