package zkserver

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// relayed returns a relay, and both ends of a connection through it.
func relayed(t *testing.T) (r *Relay, client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if r, err = NewRelay(l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if client, err = net.Dial("tcp", r.Addr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return r, client, server
}

func say(t *testing.T, to net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(to, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, from net.Conn, want string) {
	t.Helper()
	if err := from.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(from).ReadString('\n'); err != nil || line != want+"\n" {
		t.Fatalf("read %q, %v: want %q", line, err, want)
	}
}

func TestRelayStallsAndResumes(t *testing.T) {
	r, client, server := relayed(t)
	say(t, client, "to")
	hear(t, server, "to")
	say(t, server, "back")
	hear(t, client, "back")

	r.Stall()
	r.Stall() // does nothing
	say(t, client, "held")
	client.(*net.TCPConn).CloseWrite()
	if err := server.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes while stalled, %v", n, err)
	}
	r.Resume()
	r.Resume() // does nothing
	hear(t, server, "held")
	if n, err := server.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read %d bytes after the client closed, %v", n, err)
	}
}

func TestRelayCutsWhileStalled(t *testing.T) {
	r, client, server := relayed(t)
	r.Stall()
	r.Cut()
	for _, end := range []net.Conn{client, server} {
		if err := end.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if n, err := end.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d bytes after the cut, %v", n, err)
		}
	}
}
