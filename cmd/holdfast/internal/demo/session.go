package demo

import (
	"bytes"
	"errors"
	"net"

	"github.com/holdfast-io/holdfast/integration/wire"
)

// session is a ZooKeeper session, as a server has granted it.
type session struct {
	server string // host:port
	id     int64
	secret []byte // password with which any connection can take the session over
}

// listen wraps a connection to a server. It passes the granted session to tell: the first frame
// from the server is the answer to the handshake.
func listen(conn net.Conn, server string, tell func(session)) net.Conn {
	return &listener{Conn: conn, server: server, tell: tell}
}

type listener struct {
	net.Conn
	server string
	tell   func(session)
	begun  []byte // first bytes of the first frame
	done   bool
}

func (l *listener) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.done {
		return n, err
	}
	l.begun = append(l.begun, p[:n]...)
	frame, frameErr := wire.ReadFrame(bytes.NewReader(l.begun))
	if more := new(wire.ConnectionLost); errors.As(frameErr, &more) {
		return n, err
	}
	if id, secret, err := wire.ParseConnectResponse(frame); err == nil {
		l.tell(session{l.server, id, secret})
	}
	l.done, l.begun = true, nil
	return n, err
}
