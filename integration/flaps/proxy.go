package main

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// proxy stands between one client, of whatever language, and the server: a Tap
// that listens on a port of its own. While it is stalled, connections can be
// opened, but nothing passes.
type proxy struct {
	zkserver.Tap
	server   string
	listener net.Listener
	links    atomic.Int64 // connections that have reached the server, ever
}

func newProxy(server string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{server: server, listener: listener}
	go p.serve()
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		go p.pass(client)
	}
}

// pass passes bytes until either end closes.
func (p *proxy) pass(client net.Conn) {
	defer client.Close()
	server, err := p.Dial("tcp", p.server, time.Minute)
	if err != nil {
		return // which the client sees as a connection that closes
	}
	p.links.Add(1)
	go func() {
		io.Copy(server, client)
		server.Close()
	}()
	io.Copy(client, server)
}

// close ends the proxy and all that passes through it.
func (p *proxy) close() {
	p.listener.Close()
	p.Cut()
	p.Resume()
}
