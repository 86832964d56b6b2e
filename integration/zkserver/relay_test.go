package zkserver

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// relayed returns a relay, and both ends of a connection through it.
func relayed(t *testing.T, opts RelayOptions) (r *Relay, client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	t.Cleanup(func() { l.Close() })
	if r, err = NewRelay(l.Addr().String(), opts); err != nil {
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
	iferr.Fatal(t, iferr.Of(io.WriteString(to, line+"\n")))
}

func hear(t *testing.T, from net.Conn, want string) {
	t.Helper()
	iferr.Fatal(t, from.SetReadDeadline(time.Now().Add(patience)))
	if line, err := bufio.NewReader(from).ReadString('\n'); err != nil || line != want+"\n" {
		t.Fatalf("read %q, %v: want %q", line, err, want)
	}
}

func TestRelayStallsAndResumes(t *testing.T) {
	r, client, server := relayed(t, RelayOptions{})
	say(t, client, "to")
	hear(t, server, "to")
	say(t, server, "back")
	hear(t, client, "back")

	r.Stall()
	r.Stall() // does nothing
	say(t, client, "held")
	client.(*net.TCPConn).CloseWrite()
	// wall clock: that nothing arrives is no event
	iferr.Fatal(t, server.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
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
	r, client, server := relayed(t, RelayOptions{})
	r.Stall()
	r.Cut()
	for _, end := range []net.Conn{client, server} {
		iferr.Fatal(t, end.SetReadDeadline(time.Now().Add(patience)))
		if n, err := end.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d bytes after the cut, %v", n, err)
		}
	}
}

// TestRelayDelaysReplies: each round trip takes at least the delay.
func TestRelayDelaysReplies(t *testing.T) {
	const delay, rounds = 30 * time.Millisecond, 5
	_, client, server := relayed(t, RelayOptions{Delay: delay})
	go io.Copy(server, server)
	start := time.Now()
	for i := range rounds {
		say(t, client, "round")
		hear(t, client, "round")
		if took, least := time.Since(start), time.Duration(i+1)*delay; took < least {
			t.Errorf("%d round trips took %v, want at least %v", i+1, took, least)
		}
	}
}
