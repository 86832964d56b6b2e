package locktest_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

const patience = time.Minute // the longest wait for a frame or an event of a server

type silent struct{}

func (silent) Printf(string, ...any) {}

// sessionTimeout is long, because a real server may be slow on a busy machine.
const sessionTimeout = 30 * time.Second

// client is a connection of the client library. states has the states that it has gone through.
type client struct {
	*zk.Conn
	t      testing.TB
	states chan zk.State
	tap    *tap
}

func connect(t testing.TB, servers []string, dial zk.Dialer, timeout time.Duration) *client {
	t.Helper()
	states, tap := make(chan zk.State, 1000), new(tap)
	conn, events, err := zk.Connect(servers, timeout, zk.WithDialer(tap.on(dial)), zk.WithLogger(silent{}),
		zk.WithEventCallback(func(ev zk.Event) {
			if ev.Type == zk.EventSession {
				states <- ev.State
			}
		}))
	iferr.Fatal(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until all its goroutines have ended
		}
	})
	c := &client{conn, t, states, tap}
	c.await(zk.StateHasSession)
	return c
}

// await waits until the connection has gone through states, in this order.
func (c *client) await(states ...zk.State) {
	c.t.Helper()
	limit := time.After(patience)
	for _, want := range states {
		for state := zk.StateUnknown; state != want; {
			select {
			case state = <-c.states:
			case <-limit:
				c.t.Fatalf("no %v after %v; the state is %v", want, patience, c.State())
			}
		}
		if want == zk.StateHasSession {
			// After this state go-zookeeper sets its watches, in a race with replies. No event shows
			// when the watches are set.
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// rawConn speaks ZooKeeper's protocol frame by frame. It shows what client libraries hide: the
// order of frames, the ends of connections, session passwords.
type rawConn struct {
	t testing.TB
	net.Conn
	session  int64
	password []byte
	timeout  time.Duration
	lastZxid int64
	patience time.Duration // for each frame

	ops  map[int32]int32 // operations of a script's requests, by xid
	held []byte          // requests of a script to send at once; nil: send each one alone
}

func dialRaw(t testing.TB, servers []string, dial zk.Dialer) *rawConn {
	t.Helper()
	conn, err := dial("tcp", servers[0], 10*time.Second)
	iferr.Fatal(t, err)
	t.Cleanup(func() { conn.Close() })
	return &rawConn{t: t, Conn: conn, patience: patience}
}

// pack serializes values as in the protocol.
func pack(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case bool:
			if v {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		case int32:
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		case string:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
		case []byte:
			n := len(v)
			if v == nil {
				n = -1
			}
			b = append(binary.BigEndian.AppendUint32(b, uint32(int32(n))), v...)
		case []string:
			b = append(b, pack(int32(len(v)))...)
			for _, s := range v {
				b = append(b, pack(s)...)
			}
		case []zk.ACL:
			b = append(b, pack(int32(len(v)))...)
			for _, a := range v {
				b = append(b, pack(a.Perms, a.Scheme, a.ID)...)
			}
		default:
			panic(fmt.Sprintf("pack: %T", v))
		}
	}
	return b
}

func frame(values ...any) []byte {
	body := pack(values...)
	return append(pack(int32(len(body))), body...)
}

// send sends a request. It may fail if the other end has closed.
func (c *rawConn) send(xid, op int32, fields ...any) error {
	_, err := c.Write(frame(append([]any{xid, op}, fields...)...))
	return err
}

// recv returns the next frame.
func (c *rawConn) recv() ([]byte, error) {
	c.SetReadDeadline(time.Now().Add(c.patience)) // wall clock: a limit that the caller gives
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(c, body)
	return body, err
}

// reply is a frame from a server: the reply to a request, or an event.
type reply struct {
	xid  int32
	zxid int64
	code int32
	body []byte
	err  error // no frame came
}

func (c *rawConn) reply() reply {
	b, err := c.recv()
	if err != nil {
		return reply{err: err}
	}
	if len(b) < 16 {
		return reply{err: fmt.Errorf("frame of %d bytes", len(b))}
	}
	r := reply{
		xid:  int32(binary.BigEndian.Uint32(b)),
		zxid: int64(binary.BigEndian.Uint64(b[4:])),
		code: int32(binary.BigEndian.Uint32(b[12:])),
		body: b[16:],
	}
	if r.zxid > 0 {
		c.lastZxid = r.zxid
	}
	return r
}

// must sends a request that must succeed, and returns the reply.
func (c *rawConn) must(op int32, fields ...any) reply {
	c.t.Helper()
	iferr.Fatal(c.t, c.send(1000, op, fields...))
	r := c.reply()
	if r.err != nil || r.xid != 1000 || r.code != 0 {
		c.t.Fatalf("operation %d: %v", op, r)
	}
	return r
}

func (r reply) String() string {
	switch {
	case isClosed(r.err):
		return "closed"
	case r.err != nil:
		return r.err.Error()
	case r.xid == -1 && r.code == 0 && len(r.body) > 12:
		kind := zk.EventType(binary.BigEndian.Uint32(r.body))
		return fmt.Sprintf("event %s %s", eventNames[kind], r.body[12:])
	case r.code != 0:
		return fmt.Sprintf("reply %d: code %d", r.xid, r.code)
	}
	return fmt.Sprintf("reply %d", r.xid)
}

// isClosed reports whether the other end closed the connection. A real connection is reset if data
// is lost.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// handshake creates a session, or attaches to the one that c names.
func (c *rawConn) handshake(timeout time.Duration) error {
	password := c.password
	if password == nil {
		password = make([]byte, 16)
	}
	if _, err := c.Write(frame(int32(0), c.lastZxid, int32(timeout/time.Millisecond), c.session, password)); err != nil {
		return err
	}
	b, err := c.recv()
	if err != nil {
		return err
	}
	if len(b) < 20 {
		return fmt.Errorf("handshake of %d bytes", len(b))
	}
	c.timeout = time.Duration(binary.BigEndian.Uint32(b[4:])) * time.Millisecond
	c.session = int64(binary.BigEndian.Uint64(b[8:]))
	c.password = b[20:]
	return nil
}

// again opens another connection for the session of c.
func (c *rawConn) again(dial zk.Dialer, servers ...string) (*rawConn, error) {
	c.t.Helper()
	next := dialRaw(c.t, servers, dial)
	next.session, next.password, next.lastZxid = c.session, c.password, c.lastZxid
	return next, next.handshake(c.timeout)
}

// tap has the latest connection of a client, and the first bytes that it has received: the reply to
// its handshake.
type tap struct {
	mu    sync.Mutex
	conn  net.Conn
	bytes []byte
}

// on returns a dialer whose connections are tapped.
func (t *tap) on(dial zk.Dialer) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := dial(network, address, timeout)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.conn, t.bytes = conn, nil
		return &tappedConn{conn, t}, nil
	}
}

type tappedConn struct {
	net.Conn
	tap *tap
}

func (c *tappedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	if room := 40 - len(c.tap.bytes); room > 0 && c.tap.conn == c.Conn {
		c.tap.bytes = append(c.tap.bytes, p[:min(n, room)]...)
	}
	return n, err
}

// password returns the session's password. The handshake must be complete.
func (t *tap) password() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.bytes[24:])
}

func (t *tap) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conn.Close()
}
