package zkconn

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// script is a connection that returns its bytes in pieces of step bytes, and records its deadlines.
type script struct {
	net.Conn
	bytes []byte
	step  int
	set   time.Time
	then  func() // at each read
}

func (s *script) Read(p []byte) (int, error) {
	s.then()
	if len(s.bytes) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.bytes[:min(s.step, len(s.bytes))])
	s.bytes = s.bytes[n:]
	return n, nil
}

func (s *script) SetReadDeadline(t time.Time) error {
	s.set = t
	return nil
}

// asked has the callbacks of a handshake. granted may be nil.
type asked struct {
	granted func(time.Duration)
	failure func(error)
}

func (a asked) answered(timeout time.Duration) {
	if a.granted != nil {
		a.granted(timeout)
	}
}
func (a asked) failed(err error)                       { a.failure(err) }
func (a asked) authenticated(err error)                { a.failure(err) }
func (a asked) unanswered(_ handshake, err error) bool { a.failure(err); return false }

func noWatches() []watchKey { return nil }

// TestHandshakeDeadline: until the first frame is complete, no deadline exceeds the limit, however
// the bytes arrive. Afterwards all deadlines are passed on. The frame's session timeout is reported
// once.
func TestHandshakeDeadline(t *testing.T) {
	for timeout, want := range map[time.Duration][]time.Duration{
		6 * time.Second: {6 * time.Second},
		0:               {0}, // the session has expired
	} {
		for step := 1; step <= 50; step++ {
			testHandshake(t, step, timeout, want)
		}
	}
}

func testHandshake(t *testing.T, step int, timeout time.Duration, want []time.Duration) {
	frame := hello(int32(timeout.Milliseconds()), 0, 0)
	limit := time.Now().Add(time.Minute)
	s := &script{bytes: append(frame[:len(frame):len(frame)], make([]byte, 10)...), step: step}
	var told []time.Duration
	c, err := newServerConn(s, limit, asked{
		func(timeout time.Duration) { told = append(told, timeout) },
		func(err error) { t.Error(err) }}, noWatches, nil)
	if err != nil || s.set != limit {
		t.Fatalf("deadline %v, %v", s.set, err)
	}
	s.then = func() {
		for asked, want := range map[time.Time]time.Time{{}: limit, limit.Add(time.Hour): limit, limit.Add(-1): limit.Add(-1)} {
			c.SetReadDeadline(asked)
			if s.set != want {
				t.Errorf("step %d: asked for %v within the frame, set %v", step, asked, s.set)
			}
		}
	}
	var got []byte
	for len(got) < len(frame) {
		p := make([]byte, min(7, len(frame)-len(got)))
		n, err := c.Read(p)
		iferr.Fatal(t, err)
		got = append(got, p[:n]...)
		if len(s.bytes) <= 10 { // the whole frame was sent
			s.then = func() {}
		}
	}
	if !slices.Equal(got, frame) {
		t.Errorf("step %d: read %x, want %x", step, got, frame)
	}
	for _, asked := range []time.Time{{}, limit.Add(time.Hour)} {
		if c.SetReadDeadline(asked); s.set != asked {
			t.Errorf("step %d: asked for %v, set %v", step, asked, s.set)
		}
	}
	if !slices.Equal(told, want) {
		t.Errorf("step %d: the session timeout was told as %v, want %v", step, told, want)
	}
}

// TestInvalidGreeting: of an invalid first frame, not even the length is passed on, because
// go-zookeeper would believe it, panic, or allocate too much memory. The deadline stays.
func TestInvalidGreeting(t *testing.T) {
	limit := time.Now().Add(time.Minute)
	greetings := map[string][]byte{
		"a session that ends at once":       hello(0, 7, 16),
		"a session that has ended before":   hello(-6000, 7, 16),
		"a password longer than the frame":  hello(6000, 7, 17),
		"a password longer than all memory": hello(6000, 7, 1<<31-1),
	}
	for _, head := range []string{"\x80\x00\x00\x00", "\xff\xff\xff\xff", "\x00\x01\x00\x01", "\x7f\xff\xff\xff", "HTTP", "\x00\x00\x00\x00", "\x00\x00\x00\x13"} {
		greetings[head] = append([]byte(head), make([]byte, 1<<10)...)
	}
	for name, greeting := range greetings {
		for step := 1; step <= 5; step++ {
			var told error
			s := &script{bytes: greeting, step: step, then: func() {}}
			c, err := newServerConn(s, limit, asked{nil, func(err error) { told = err }}, noWatches, nil)
			iferr.Fatal(t, err)
			for range 2 {
				n, err := c.Read(make([]byte, 256))
				if n != 0 {
					t.Errorf("%q: %d bytes are read", name, n)
				}
				mustBe(t, err, errNotZooKeeper)
				mustBe(t, told, errNotZooKeeper)
			}
			if c.SetReadDeadline(time.Time{}); s.set != limit {
				t.Errorf("%q: the deadline is %v", name, s.set)
			}
		}
	}
}

// hello returns the first frame of a server: the reply to the handshake.
func hello(timeout int32, session int64, password uint32) []byte {
	content := binary.BigEndian.AppendUint64(int32s(0, timeout), uint64(session))
	return frame(append(binary.BigEndian.AppendUint32(content, password), make([]byte, 16)...))
}

// TestInvalidFrameLength: a frame length on which go-zookeeper would panic or allocate too much
// memory is not passed on. All earlier frames are passed on, however they arrive and are read.
func TestInvalidFrameLength(t *testing.T) {
	good := slices.Concat(hello(6000, 7, 16), []byte{0, 0, 0, 16}, make([]byte, 16), []byte{0, 0, 0, 40}, make([]byte, 40))
	for _, head := range []string{"\x00\x00\x00\x00", "\x00\x00\x00\x04", "\x00\x00\x00\x0f", "\x20\x00\x00\x01", "\xff\xff\xff\xff"} {
		for step := 1; step <= 60; step += 7 {
			s := &script{bytes: append(slices.Clone(good), head+"\xff\xff\xff\xff"...), step: step, then: func() {}}
			c, err := newServerConn(s, time.Now().Add(time.Minute), asked{nil, func(err error) { t.Error(err) }}, noWatches, nil)
			iferr.Fatal(t, err)
			var got []byte
			for p := make([]byte, 13); err == nil; {
				var n int
				n, err = c.Read(p)
				got = append(got, p[:n]...)
			}
			mustBe(t, err, errNotZooKeeper)
			if !slices.Equal(got, good) {
				t.Errorf("%q, step %d: read %x, want %x", head, step, got, good)
			}
		}
	}
}

// brokenWrite is a connection on which the writes of the operation fail while fails is set.
type brokenWrite struct {
	net.Conn
	op    int32
	fails *atomic.Bool
}

func (c brokenWrite) Write(p []byte) (int, error) {
	if operation(p) == c.op && c.fails.Swap(false) {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

// TestFailedWrite: a client connects again after the write of any request has failed, also of one that
// go-zookeeper sends by itself.
func TestFailedWrite(t *testing.T) {
	const opExists = 3
	for _, op := range []int32{opExists, opPing, opAuth} {
		simulate(t, locktest.Options{}, func(w *world) {
			cfg, fails := w.config("a"), new(atomic.Bool)
			cfg.Digests = []string{"svc:secret"}
			dial := cfg.Dialer
			cfg.Dialer = func(network, address string, timeout time.Duration) (net.Conn, error) {
				nc, err := dial(network, address, timeout)
				return brokenWrite{nc, op, fails}, err
			}
			c := w.dial(cfg)
			fails.Store(true)
			switch op {
			case opExists:
				iferr.Error(t, iferr.Of(c.Exists(w.ctx, "/"))) // it is repeated
			case opPing:
				time.Sleep(sessionTimeout)
			case opAuth:
				w.Cut("a")
				time.Sleep(sessionTimeout)
			}
			ctx, cancel := context.WithTimeout(w.ctx, sessionTimeout)
			defer cancel()
			if _, err := c.Get(ctx, "/"); err != nil || fails.Load() {
				t.Errorf("operation %d: %v; the write failed: %v", op, err, !fails.Load())
			}
		})
	}
}
