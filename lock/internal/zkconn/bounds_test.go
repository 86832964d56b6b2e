package zkconn

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// These tests use real sockets in real time, on machines that may be busy. The tests in virtual
// time check when calls end with their contexts. A call that hangs here hangs the test.

// serve runs a server that passes each connection to treat. It returns its address.
func serve(t *testing.T, treat func(net.Conn)) string {
	t.Helper()
	return listen(t, nil, treat)
}

// says returns a server that sends b, whatever it receives, and nothing more.
func says(b []byte) func(net.Conn) {
	return func(nc net.Conn) {
		nc.Write(b)
		io.Copy(io.Discard, nc) // until the client gives up
	}
}

// shut returns the address of a closed port.
func shut(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	defer l.Close()
	return l.Addr().String()
}

// greeting returns a server's answer to a handshake. With a session of an hour, a wait for its end
// cannot pass for an immediate end.
func greeting(session time.Duration) []byte { return hello(int32(session.Milliseconds()), 1, 16) }

// TestDialEndsWithItsContext: Dial ends with its context, whatever the servers do. Its error names
// the server and the reason, and no goroutine is left.
func TestDialEndsWithItsContext(t *testing.T) {
	noSuchHost := &net.DNSError{Err: "no such host", Name: "zk", IsNotFound: true}
	for name, tt := range map[string]struct {
		server string
		lookup lookup
		digest bool
		says   string
	}{
		"silent":                 {server: serve(t, says(nil))},
		"silent in mid-frame":    {server: serve(t, says(greeting(time.Hour)[:20]))},
		"silent after handshake": {server: serve(t, says(greeting(time.Hour))), digest: true},
		"negative length":        {server: serve(t, says([]byte{0x80, 0, 0, 0})), says: "not ZooKeeper"},
		"huge length":            {server: serve(t, says([]byte{0x7f, 0, 0, 0})), says: "not ZooKeeper"},
		"no length":              {server: serve(t, says(make([]byte, 100))), says: "not ZooKeeper"},
		"HTTP":                   {server: serve(t, says([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))), says: "not ZooKeeper"},
		"closes":                 {server: serve(t, func(net.Conn) {}), says: "connect"},
		"refuses":                {server: shut(t), says: "refused"},
		"no such host":           {server: "zk:2181", lookup: func(context.Context, string) ([]string, error) { return nil, noSuchHost }, says: "zk:2181: lookup zk: no such host"},
		"no address":             {server: "zk:2181", lookup: func(context.Context, string) ([]string, error) { return nil, nil }, says: "zk:2181"},
		"resolver does not answer": {server: "zk:2181", lookup: func(ctx context.Context, _ string) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.lookup = tt.lookup
			if tt.digest {
				cfg.Digests = []string{"svc:secret"}
			}
			dialInVain(t, tt.server, cfg, tt.says)
		})
	}
}

// dialInVain checks that Dial ends with its context, not before, and that the error contains the reason
// says. If says is "", the server is silent, and no reason is known.
func dialInVain(t *testing.T, server string, cfg Config, says string) {
	running := goleak.IgnoreCurrent()
	cause := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if says == "" {
		time.AfterFunc(300*time.Millisecond, func() { cancel(cause) }) // wall clock: a silent server makes no event
	}
	cfg.Log = cfg.Log.Output(io.MultiWriter(zerolog.NewTestWriter(t), onLine(func(line string) {
		if says != "" && strings.Contains(line, says) {
			cancel(cause)
		}
	})))
	c, err := Dial(ctx, []string{server}, cfg)
	if err == nil {
		c.Close(0)
		t.Fatal("connected")
	}
	mustBe(t, err, ErrUnavailable, context.Canceled, cause)
	mustSay(t, err, server, says)
	iferr.Error(t, leaks(running))
}

// onLine receives each line of the log.
type onLine func(string)

func (f onLine) Write(line []byte) (int, error) {
	f(string(line))
	return len(line), nil
}

// TestInvalidFrame: an invalid frame after the first one ends its connection at once.
func TestInvalidFrame(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // far more than the test takes
	defer cancel()
	var connections atomic.Int32
	c, err := Dial(t.Context(), []string{serve(t, func(nc net.Conn) {
		if connections.Add(1) == 2 { // long before the session ends
			cancel()
		}
		says(append(greeting(time.Hour), 0x80, 0, 0, 0))(nc)
	})}, testConfig(t))
	iferr.Fatal(t, err)
	if _, err := c.Get(ctx, "/"); err == nil {
		t.Error("there was an answer")
	}
	if n := connections.Load(); n < 2 {
		t.Errorf("there were %d connections", n)
	}
	iferr.Error(t, c.Close(0))
}
