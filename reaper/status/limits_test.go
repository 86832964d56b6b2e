package status

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/reaper"
)

// TestBusy: a request beyond maxBusy concurrent ones gets the status 503 and Retry-After. Probes and
// metrics are counted apart.
func TestBusy(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		for range maxBusy {
			w.server.rooms.pages <- struct{}{}
		}
		for _, path := range []string{"/", "/page.js", "/api/v1/status", "/api/v1/locks", "/api/v1/lock?name=x"} {
			if a := w.get(path); a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" || a.Header().Get("Connection") != "close" {
				t.Errorf("%s: %d, %v", path, a.Code, a.Header())
			}
		}
		for path := range unnamed {
			if a := w.get(path); a.Code != http.StatusOK {
				t.Errorf("%s: %d", path, a.Code)
			}
		}
	})
}

// TestSlowReaders: clients that ask for much and read nothing, three times as many as may be answered at
// once, shut off neither probes and metrics nor the page, from their own address or from another one.
func TestSlowReaders(t *testing.T) {
	m := &told{status: reaper.Status{About: reaper.About{Root: "/locks"}, Session: reaper.Session{Connected: true}}}
	s, err := New(Options{Roots: []Root{{Monitor: m}}})
	iferr.Fatal(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	defer func() {
		cancel()
		iferr.Error(t, <-done)
	}()
	const each = "GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for range 3 * maxBusy {
		conn, err := net.Dial("tcp", l.Addr().String())
		iferr.Fatal(t, err)
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(1)
		go func() { // ends with an error when the connection ends
			for range 500 {
				if _, err := fmt.Fprint(conn, each); err != nil {
					return
				}
			}
		}()
	}
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: 20 * time.Second}
		for range 10 {
			for _, path := range []string{"/healthz", "/metrics", "/readyz", "/", "/api/v1/status"} {
				answer, err := client.Get("http://" + l.Addr().String() + path)
				if err != nil {
					if strings.Contains(err.Error(), "assign requested address") {
						t.Skip(err) // not all systems have 127.0.0.2
					}
					t.Fatalf("%s from %s: %v", path, from, err)
				}
				if answer.Body.Close(); answer.StatusCode != http.StatusOK {
					t.Fatalf("%s from %s: %s", path, from, answer.Status)
				}
			}
			time.Sleep(10 * time.Millisecond) // while the readers' buffers fill
		}
	}
}

// pipes is a listener whose only connection is one end of a net.Pipe.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p.conns); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestAnswerThatIsNotTaken: a connection whose client takes nothing of an answer for maxSending is closed.
func TestAnswerThatIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{Roots: []Root{{Monitor: &told{}}}})
		iferr.Fatal(t, err)
		client, end := net.Pipe()
		l := pipes{make(chan net.Conn, 1)}
		l.conns <- end
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Serve(ctx, l) }()
		iferr.Fatal(t, iferr.Of(fmt.Fprint(client, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")))
		time.Sleep(maxSending + time.Second)
		if n, err := client.Read(make([]byte, 1)); err == nil {
			t.Errorf("%d bytes were sent", n)
		}
		cancel()
		iferr.Error(t, <-done)
	})
}

// TestFewPerAddress: of more than maxConns connections from one address, the oldest is closed.
func TestFewPerAddress(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	l := &fewPerAddress{Listener: inner}
	defer l.Close()
	var clients, accepted []net.Conn
	for range maxConns + 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		iferr.Fatal(t, err)
		defer c.Close()
		a, err := l.Accept()
		iferr.Fatal(t, err)
		clients, accepted = append(clients, c), append(accepted, a)
	}
	for i, c := range clients[:2] {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("connection %d is open", i)
		}
	}
	for _, a := range accepted {
		_, err := a.Write([]byte{1})
		if open := err == nil; open != (a != accepted[0] && a != accepted[1]) {
			t.Errorf("open: %v, %v", open, err)
		}
		a.Close()
	}
	if len(l.conns) != 0 {
		t.Errorf("%d addresses are counted although all connections are closed", len(l.conns))
	}
}
