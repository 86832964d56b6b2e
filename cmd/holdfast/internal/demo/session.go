package demo

import (
	"bytes"
	"io"
	"net"
	"time"

	"github.com/holdfast-io/holdfast/lock/locktest/wire"
)

// session is a ZooKeeper session that a server has granted.
type session struct {
	server string // host:port
	id     int64
	secret []byte // password with which any connection can take the session over
}

// dial opens a connection that records its session in w.session.
func (w *worker) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &listener{Conn: conn, server: address, worker: w}, nil
}

// listener is a worker's connection to a server. It stores the session that the server grants in
// worker.session.
type listener struct {
	net.Conn
	server string
	worker *worker
	rest   io.Reader // what Read returns; nil until the server has answered the handshake
}

func (l *listener) Read(p []byte) (int, error) {
	if l.rest == nil {
		answer, err := wire.ReadFrame(l.Conn)
		if err != nil {
			return 0, err
		}
		if id, secret, err := wire.ParseConnectResponse(answer); err == nil && id != 0 { // 0: the old session has expired
			l.worker.session.Store(&session{l.server, id, secret})
		}
		l.rest = io.MultiReader(bytes.NewReader(answer), l.Conn)
	}
	return l.rest.Read(p)
}
