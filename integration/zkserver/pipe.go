package zkserver

import (
	"context"
	"net"
	"sync"
)

// pipe is one connection through a relay or a tap.
type pipe struct {
	client  net.Conn
	replies valve           // blocks the server's data on this pipe only
	ctx     context.Context // ends when the pipe is cut
	end     context.CancelFunc

	mu     sync.Mutex
	server net.Conn // nil while it is dialed
}

// join sets the server's end. If the pipe was cut, it closes that end and returns false.
func (p *pipe) join(server net.Conn) (open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		server.Close()
		return false
	}
	p.server = server
	return true
}

// cut closes both ends.
func (p *pipe) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	p.client.Close()
	if p.server != nil {
		p.server.Close()
	}
}

// pipes has all connections through a relay or a tap.
type pipes struct {
	valve valve
	all   sync.Map // the keys are of type *pipe
}

// add adds a pipe with the client's end.
func (ps *pipes) add(client net.Conn) *pipe {
	p := &pipe{client: client}
	p.ctx, p.end = context.WithCancel(context.Background())
	ps.all.Store(p, nil)
	return p
}

// end cuts a pipe, and forgets it.
func (ps *pipes) end(p *pipe) {
	p.cut()
	ps.all.Delete(p)
}

// each calls f for all pipes.
func (ps *pipes) each(f func(*pipe)) {
	for p := range ps.all.Range {
		f(p.(*pipe))
	}
}

// Stall holds back all bytes in both directions, and the end of connections, and does not answer
// new connections. Nothing is lost.
func (ps *pipes) Stall() { ps.valve.close() }

// Resume ends a stall, and the hold of replies by a [Fault], and delivers what they held back.
func (ps *pipes) Resume() {
	ps.valve.open()
	ps.each(func(p *pipe) { p.replies.open() })
}

// Cut closes the connections now, stalled or not. New ones are possible.
func (ps *pipes) Cut() { ps.each((*pipe).cut) }

// valve lets bytes pass, or holds them back. Its zero value is open.
type valve struct {
	mu   sync.Mutex
	shut chan struct{} // closed when the valve opens; nil while it is open
}

func (v *valve) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut == nil {
		v.shut = make(chan struct{})
	}
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut != nil {
		close(v.shut)
		v.shut = nil
	}
}

// stalled returns a channel that closes when the valve opens, nil if it is open.
func (v *valve) stalled() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shut
}

// pass waits until the valve is open. It returns false if the connection is closed first.
func (v *valve) pass(closed <-chan struct{}) bool {
	for shut := v.stalled(); shut != nil; shut = v.stalled() {
		select {
		case <-shut:
		case <-closed:
			return false
		}
	}
	return true
}
