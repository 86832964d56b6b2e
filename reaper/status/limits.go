package status

import (
	"bytes"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Limits that keep slow readers, and many of them, from shutting out others.
const (
	// maxBusy is the largest number of answers that are made at once: of pages and the API, and of
	// probes and metrics, which have room of their own. Further requests get the status 503. An answer
	// is complete before it is sent, so a viewer that does not read takes no room.
	maxBusy = 64
	// maxSending is the time for which an answer may be sent. Then its connection is closed.
	maxSending = 10 * time.Second
	// maxConns is the largest number of connections from one address. Beyond it, the oldest is closed.
	maxConns = 32
)

// rooms are the two kinds of requests, each with a token for each running one.
type rooms struct{ pages, probes chan struct{} }

func newRooms() rooms { return rooms{make(chan struct{}, maxBusy), make(chan struct{}, maxBusy)} }

// serve has h answer the request if there is room, and sends the answer.
func (r rooms) serve(h http.Handler, w http.ResponseWriter, req *http.Request) {
	room := r.pages
	if unnamed[req.URL.Path] {
		room = r.probes
	}
	select {
	case room <- struct{}{}:
	default:
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Connection", "close")
		http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
		return
	}
	a := &answered{header: w.Header(), code: http.StatusOK}
	func() {
		defer func() { <-room }()
		h.ServeHTTP(a, req)
	}()
	// The errors mean that there is no connection to limit, or that the viewer has gone.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxSending))
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body.Bytes())
}

// answered is an answer that has not been sent yet.
type answered struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answered) Header() http.Header         { return a.header }
func (a *answered) WriteHeader(code int)        { a.code = code }
func (a *answered) Write(b []byte) (int, error) { return a.body.Write(b) }

// fewPerAddress is a listener that keeps at most maxConns connections from each address.
type fewPerAddress struct {
	net.Listener

	mu    sync.Mutex
	conns map[string][]*counted // by address, the oldest first
}

// counted is a connection of a fewPerAddress.
type counted struct {
	net.Conn
	of   *fewPerAddress
	from string
}

// Accept closes the oldest connection of an address that has too many.
func (l *fewPerAddress) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	c := &counted{conn, l, from}
	l.mu.Lock()
	if l.conns == nil {
		l.conns = map[string][]*counted{}
	}
	all := append(l.conns[from], c)
	var oldest *counted
	if len(all) > maxConns {
		oldest = all[0]
	}
	l.conns[from] = all
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // it is closed either way
	}
	return c, nil
}

// Close closes the connection, which counts no more.
func (c *counted) Close() error {
	c.of.mu.Lock()
	kept := slices.DeleteFunc(c.of.conns[c.from], func(other *counted) bool { return other == c })
	if c.of.conns[c.from] = kept; len(kept) == 0 {
		delete(c.of.conns, c.from)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}
