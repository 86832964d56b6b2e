package main

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// roundTrip is what the far server's replies take longer.
const roundTrip = time.Millisecond

// proxy passes on what clients and a server say, and holds back all that the
// server says for a time: so a round trip takes that much longer, while any
// number of them may be under way. It counts the bytes.
type proxy struct {
	target   string
	delay    time.Duration
	listener net.Listener
	running  sync.WaitGroup
	out, in  atomic.Int64 // to the server, to clients

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

func newProxy(target string, delay time.Duration) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{target: target, delay: delay, listener: listener, conns: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// close cuts the connections and waits until all is done.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.listener.Close()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// keep notes a connection to be closed with the proxy; false: that is closed.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.Close()
	delete(p.conns, c)
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	server, err := net.Dial("tcp", p.target)
	if err != nil || !p.keep(server) {
		return
	}
	defer p.drop(server)
	replies := make(chan chunk, 1024)
	p.running.Go(func() {
		defer client.Close()
		for c := range replies {
			sleepUntil(c.at.Add(p.delay))
			if _, err := client.Write(c.data); err != nil {
				server.Close()
			}
		}
	})
	p.running.Go(func() {
		defer server.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				return
			}
			p.out.Add(int64(n))
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	defer close(replies)
	for {
		buffer := make([]byte, 32<<10)
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		p.in.Add(int64(n))
		replies <- chunk{time.Now(), buffer[:n]}
	}
}

// chunk is something that the server said, and when.
type chunk struct {
	at   time.Time
	data []byte
}

// proxies are those to several servers.
type proxies []*proxy

func newProxies(addr string, delay time.Duration) (proxies, error) {
	var all proxies
	for target := range strings.SplitSeq(addr, ",") {
		one, err := newProxy(target, delay)
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (all proxies) addr() string {
	var addrs []string
	for _, p := range all {
		addrs = append(addrs, p.addr())
	}
	return strings.Join(addrs, ",")
}

// passed tells which bytes have passed so far.
func (all proxies) passed() cost {
	var n zkserver.Counts
	for _, p := range all {
		n.BytesOut += p.out.Load()
		n.BytesIn += p.in.Load()
	}
	return cost{client: n}
}

func (all proxies) close() {
	for _, p := range all {
		p.close()
	}
}
