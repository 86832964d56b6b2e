package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// These are on real sockets and in real time, on machines that may be busy: what is to
// take a tenth of a second gets this.
const busyMachine = time.Second

// serve runs a server that treats each connection so. It returns its address.
func serve(t *testing.T, treat func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				treat(nc)
			}()
		}
	}()
	return l.Addr().String()
}

// says is a server that sends this, whatever it is told, and nothing more.
func says(b []byte) func(net.Conn) {
	return func(nc net.Conn) {
		nc.Write(b)
		io.Copy(io.Discard, nc) // until the client gives up
	}
}

// nobody is the address of a port that is shut.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// greeting is what a server answers a handshake with.
func greeting() []byte {
	frame := append(binary.BigEndian.AppendUint32(nil, 36), make([]byte, 36)...)
	binary.BigEndian.PutUint32(frame[8:], uint32(sessionTimeout.Milliseconds()))
	frame[19], frame[23] = 1, 16 // session id, length of the password
	return frame
}

// TestDialEndsWithItsContext, whatever the servers do, says which and why, and leaves
// nothing running.
func TestDialEndsWithItsContext(t *testing.T) {
	noSuchHost := &net.DNSError{Err: "no such host", Name: "zk", IsNotFound: true}
	for name, tt := range map[string]struct {
		server string
		lookup lookup
		digest bool
		says   string
	}{
		"silent":                 {server: serve(t, says(nil))},
		"silent in mid-frame":    {server: serve(t, says(greeting()[:20]))},
		"silent after handshake": {server: serve(t, says(greeting())), digest: true},
		"negative length":        {server: serve(t, says([]byte{0x80, 0, 0, 0})), says: "not ZooKeeper"},
		"huge length":            {server: serve(t, says([]byte{0x7f, 0, 0, 0})), says: "not ZooKeeper"},
		"no length":              {server: serve(t, says(make([]byte, 100))), says: "not ZooKeeper"},
		"HTTP":                   {server: serve(t, says([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))), says: "not ZooKeeper"},
		"closes":                 {server: serve(t, func(net.Conn) {}), says: "connect"},
		"refuses":                {server: nobody(t), says: "refused"},
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

// dialInVain checks that Dial ends with its context and says so.
func dialInVain(t *testing.T, server string, cfg Config, says string) {
	running := goleak.IgnoreCurrent()
	const patience = 500 * time.Millisecond
	cause := errors.New("no patience")
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, cause)
	defer cancel()
	began := time.Now()
	c, err := Dial(ctx, []string{server}, cfg)
	if err == nil {
		c.Close(0)
		t.Fatal("connected")
	}
	if took := time.Since(began); took < patience || took > patience+busyMachine {
		t.Errorf("took %v", took)
	}
	mustBe(t, err, ErrUnavailable, context.DeadlineExceeded, cause)
	mustSay(t, err, server, says)
	goleak.VerifyNone(t, running)
}

// TestFrameThatIsNone ends its connection at once, later than the first one, too.
func TestFrameThatIsNone(t *testing.T) {
	connections := make(chan struct{}, 100)
	c, err := Dial(t.Context(), []string{serve(t, func(nc net.Conn) {
		select {
		case connections <- struct{}{}:
		default:
		}
		says(append(greeting(), 0x80, 0, 0, 0))(nc)
	})}, testConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), busyMachine)
	defer cancel()
	if _, err := c.Get(ctx, "/"); err == nil {
		t.Error("there was an answer")
	}
	if n := len(connections); n < 2 {
		t.Errorf("there were %d connections", n)
	}
	began := time.Now()
	if err := c.Close(0); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > busyMachine {
		t.Errorf("took %v", took)
	}
}
