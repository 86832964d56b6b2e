package zkconn

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// saslServer is an in-memory server with SASL. It passes SASL tokens to answer, confirms pings,
// credentials and closes, and answers all other requests with "no node".
type saslServer struct {
	answer func(conn, n int, token []byte) []byte // the frame after a connection's n-th token; nil: hang up
	delay  time.Duration                          // before each reply to a read
	slow   int                                    // the connection on which each reply to credentials takes slowly
	deaf   bool                                   // it reads nothing after the handshake

	mu    sync.Mutex
	ended bool // the next handshake is told that its session has ended
	conns []*saslRecord
}

// slowly is less than the time after which go-zookeeper takes the server for dead.
const slowly = sessionTimeout * 7 / 12

// saslRecord is what a connection has received.
type saslRecord struct {
	ops    []int32
	opened time.Time
	closed time.Time // zero: open
	unread int       // requests whose replies the client has not read
}

func (s *saslServer) dial(string, string, time.Duration) (net.Conn, error) {
	client, server := net.Pipe()
	s.mu.Lock()
	r := &saslRecord{opened: time.Now()}
	s.conns = append(s.conns, r)
	conn := len(s.conns)
	s.mu.Unlock()
	go func() {
		defer server.Close()
		s.serve(conn, r, server)
		s.mu.Lock()
		r.closed = time.Now()
		s.mu.Unlock()
	}()
	return client, nil
}

func (s *saslServer) serve(conn int, r *saslRecord, nc net.Conn) {
	if _, err := readFrame(nc); err != nil {
		return
	}
	s.mu.Lock()
	hello := greeting(sessionTimeout)
	if s.ended {
		hello, s.ended = expired(), false
	}
	s.mu.Unlock()
	if _, err := nc.Write(hello); err != nil {
		return
	}
	if s.deaf {
		time.Sleep(time.Hour)
		return
	}
	for tokens := 0; ; {
		request, err := readFrame(nc)
		if err != nil {
			return
		}
		xid, op := int32(binary.BigEndian.Uint32(request)), int32(binary.BigEndian.Uint32(request[4:]))
		s.mu.Lock()
		r.ops = append(r.ops, op)
		r.unread++
		s.mu.Unlock()
		answer := frame(int32s(xid, 0, 1, -101)) // no node
		switch op {
		case opSASL:
			tokens++
			answer = s.answer(conn, tokens, request[12:])
		case opGetData:
			time.Sleep(s.delay)
		case opAuth:
			if answer = reply(xid); conn == s.slow {
				time.Sleep(slowly)
			}
		case opPing, opClose:
			answer = reply(xid)
		}
		if _, err := nc.Write(answer); err != nil || len(answer) < 4 || uint32(len(answer)-4) < binary.BigEndian.Uint32(answer) {
			return // also after an incomplete frame
		}
		s.mu.Lock()
		r.unread--
		s.mu.Unlock()
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(r, body)
	return body, err
}

// records returns what the connections have received.
func (s *saslServer) records() (all []saslRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.conns {
		copied := *r
		copied.ops = slices.Clone(r.ops)
		all = append(all, copied)
	}
	return all
}

// saslReply returns the reply with a token; nil: no token.
func saslReply(code int32, token []byte) []byte {
	size := int32(len(token))
	if token == nil {
		size = -1
	}
	return frame(append(int32s(xidSASL, 0, 0, code, size), token...))
}

// echoing is an exchange that sends an empty token, and then the server's first two tokens back.
type echoing struct {
	expires time.Time
	step    int
	advice  string
}

func (x *echoing) Next(challenge []byte) ([]byte, error) {
	x.step++
	switch {
	case (challenge == nil) != (x.step == 1):
		return nil, fmt.Errorf("token %d follows the challenge %#v", x.step, challenge)
	case x.step == 1:
		return []byte{}, nil
	case x.step > 3:
		return nil, nil
	}
	return challenge, nil
}
func (x *echoing) Expires() time.Time { return x.expires }
func (x *echoing) Advice() string     { return x.advice }

func echo(context.Context, string) (SASLExchange, error) { return &echoing{}, nil }

// confirms is a server's side of echoing. Its last reply has no token.
func confirms(_, n int, token []byte) []byte {
	switch n {
	case 1:
		return saslReply(0, []byte("one"))
	case 2:
		return saslReply(0, append(token, "two"...))
	}
	return saslReply(0, nil)
}

// saslConfig returns the configuration of connections to the server, which has the address
// 192.0.2.1.
func (w *world) saslConfig(s *saslServer) Config {
	cfg := w.config("a")
	cfg.Dialer, cfg.SASL = s.dial, echo
	cfg.lookup = func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, nil }
	return cfg
}

// TestSASLComesFirst: on each connection, SASL comes before all other requests: those of callers,
// credentials and watches.
func TestSASLComesFirst(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		s := &saslServer{answer: confirms}
		cfg := w.saslConfig(s)
		cfg.Digests = []string{"svc:secret"}
		var asked []string
		cfg.SASL = func(ctx context.Context, server string) (SASLExchange, error) {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > handshakeLimit(sessionTimeout) {
				t.Errorf("it may last until %v", deadline)
			}
			asked = append(asked, server)
			return echo(ctx, server)
		}
		c, err := Dial(w.ctx, []string{"zk.example:2181"}, cfg)
		iferr.Fatal(t, err)
		for i := range 3 {
			if _, err := c.Get(w.ctx, "/a"); !errors.Is(err, zk.ErrNoNode) {
				t.Error(err)
			}
			s.mu.Lock()
			s.ended = i == 1
			s.mu.Unlock()
			c.own.live.Load().Close()
			time.Sleep(time.Second)
		}
		iferr.Error(t, c.Close(time.Second))
		records := s.records()
		if n := len(records[2].ops); n > 0 {
			t.Errorf("%d requests without a session", n)
		}
		for i, r := range slices.Delete(records, 2, 3) {
			if want := []int32{opSASL, opSASL, opSASL, opAuth}; len(r.ops) < 4 || !slices.Equal(r.ops[:4], want) || slices.Contains(r.ops[4:], opSASL) {
				t.Errorf("connection %d has received %v, want %v first", i, r.ops, want)
			}
		}
		if n := len(s.records()); n != 5 || len(asked) != n || asked[0] != "zk.example:2181" {
			t.Errorf("%d connections, exchanges with %q", n, asked)
		}
	})
}

// TestHostileSASL: whatever a server answers to a token, the client gives up within the handshake's
// limit, with an error that says why. It sends no other request on the connection.
func TestHostileSASL(t *testing.T) {
	always := func(frame []byte) func(int, int, []byte) []byte {
		return func(int, int, []byte) []byte { return frame }
	}
	silent := func(int, int, []byte) []byte { time.Sleep(time.Hour); return nil } // wall clock: no, a bubble
	for name, test := range map[string]struct {
		answer func(conn, n int, token []byte) []byte
		denied bool // Dial fails at once
		says   string
	}{
		"silent":                       {silent, false, "i/o timeout"},
		"deaf":                         {nil, false, "i/o timeout"},
		"hangs up":                     {always(nil), false, "before 3.5 do to refuse it: EOF: the advice"},
		"hangs up within the header":   {always([]byte{0, 0, 0, 20, 0}), false, "before 3.5 do to refuse it: unexpected EOF"},
		"a huge frame":                 {always(binary.BigEndian.AppendUint32(nil, 1<<30)), false, "closed the connection"},
		"a huge frame, whole header":   {always(append(binary.BigEndian.AppendUint32(nil, 1<<30), int32s(xidSASL, 0, 0, 0)...)), false, "not ZooKeeper"},
		"an endless length":            {always(append([]byte{255, 255, 255, 255}, int32s(xidSASL, 0, 0, 0)...)), false, "not ZooKeeper"},
		"hangs up within the token":    {always(saslReply(0, bytes.Repeat([]byte("x"), 1000))[:500]), false, "closed the connection"},
		"a short frame":                {always(append([]byte{0, 0, 0, 15}, int32s(xidSASL, 0, 0, 0)...)), false, "not ZooKeeper"},
		"no token at all":              {always(reply(xidSASL)), false, "has 0 bytes"},
		"another request's answer":     {always(frame(int32s(7, 0, 0, 0, 0))), false, "for request 7"},
		"a token longer than its room": {always(frame(int32s(xidSASL, 0, 0, 0, 100))), false, "100 bytes in 0"},
		"a token of -2 bytes":          {always(frame(int32s(xidSASL, 0, 0, 0, -2))), false, "-2 bytes"},
		"no end":                       {func(_, n int, token []byte) []byte { return saslReply(0, []byte("more")) }, false, ""},
		"another error":                {always(saslReply(-127, nil)), false, "throttled"},
		"refused":                      {always(saslReply(codeAuthFailed, nil)), true, "refuses the client's token: the advice"},
		"refused, without a body":      {always(frame(int32s(xidSASL, 0, 0, codeAuthFailed))), true, "refuses the client's token"},
		"refused and required":         {always(saslReply(codeRequiresAuth, nil)), true, "refuses the client's token"},
		"without SASL":                 {always(saslReply(0, nil)), true, "has no SASL"},
		"an empty token":               {always(saslReply(0, []byte{})), true, "has no SASL"},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				s := &saslServer{answer: test.answer, deaf: test.answer == nil}
				cfg := w.saslConfig(s)
				cfg.SASL = func(context.Context, string) (SASLExchange, error) {
					if name == "no end" {
						return endless{}, nil
					}
					return &echoing{advice: "the advice"}, nil
				}
				ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
				defer cancel()
				began := time.Now()
				_, err := Dial(ctx, []string{"zk:2181"}, cfg)
				mustBe(t, err, ErrSASL)
				mustSay(t, err, "192.0.2.1:2181", test.says)
				took := time.Since(began)
				if denied := errors.Is(err, ErrDenied); denied != test.denied || denied != (took < time.Second) || denied == errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("after %v: %v", took, err)
				}
				time.Sleep(time.Hour + time.Minute)
				for _, r := range s.records() {
					if held := r.closed.Sub(r.opened); name != "silent" && name != "deaf" && held > handshakeLimit(sessionTimeout) {
						t.Errorf("the connection was kept for %v", held)
					}
					if slices.ContainsFunc(r.ops, func(op int32) bool { return op != opSASL }) {
						t.Errorf("operations %v", r.ops)
					}
				}
			})
		})
	}
}

type endless struct{}

func (endless) Next([]byte) ([]byte, error) { return []byte("more"), nil }
func (endless) Expires() time.Time          { return time.Time{} }

// TestSASLByDrips: a server that sends its answer one byte after the other gets no more time than
// the handshake's limit.
func TestSASLByDrips(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		s := &saslServer{}
		s.answer = func(int, int, []byte) []byte { return nil }
		cfg := w.saslConfig(s)
		var mu sync.Mutex
		var kept []time.Duration
		cfg.Dialer = func(string, string, time.Duration) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				began := time.Now()
				defer server.Close()
				readFrame(server)
				server.Write(greeting(sessionTimeout))
				readFrame(server)
				for _, b := range saslReply(0, bytes.Repeat([]byte("x"), 1000)) {
					time.Sleep(100 * time.Millisecond)
					if _, err := server.Write([]byte{b}); err != nil {
						break
					}
				}
				mu.Lock()
				defer mu.Unlock()
				kept = append(kept, time.Since(began))
			}()
			return client, nil
		}
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		defer cancel()
		_, err := Dial(ctx, []string{"zk:2181"}, cfg)
		mustBe(t, err, ErrUnavailable, ErrSASL)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for _, d := range kept {
			if d > handshakeLimit(sessionTimeout)+200*time.Millisecond {
				t.Errorf("the connection was kept for %v", d)
			}
		}
		if len(kept) < 2 {
			t.Errorf("%d tries", len(kept))
		}
	})
}

// TestSASLDeniedByOne: a server that refuses the credentials does not end Dial while another server
// accepts them. If all servers refuse, Dial tries as often as there are servers.
func TestSASLDeniedByOne(t *testing.T) {
	refuse := func(int, int, []byte) []byte { return saslReply(codeAuthFailed, nil) }
	for _, last := range []func(int, int, []byte) []byte{confirms, refuse} {
		simulate(t, locktest.Options{}, func(w *world) {
			s := &saslServer{answer: func(conn, n int, token []byte) []byte {
				if conn < 3 {
					return refuse(conn, n, token)
				}
				return last(conn, n, token)
			}}
			cfg := w.saslConfig(s)
			c, err := Dial(w.ctx, []string{"a:2181", "b:2182", "c:2183"}, cfg)
			if err == nil {
				err = c.Close(time.Second)
			} else {
				mustBe(t, err, ErrDenied, ErrSASL)
			}
			if n := len(s.records()); n != 3 {
				t.Errorf("%d tries: %v", n, err)
			}
		})
	}
}

// TestSASLCannotStart: if the client cannot make the first token, it connects to no server. An
// error of the credentials ends Dial.
func TestSASLCannotStart(t *testing.T) {
	for _, denied := range []bool{false, true} {
		simulate(t, locktest.Options{}, func(w *world) {
			s := &saslServer{answer: confirms}
			cfg := w.saslConfig(s)
			noKDC := errors.New("no KDC answers")
			cfg.SASL = func(context.Context, string) (SASLExchange, error) {
				if denied {
					return nil, fmt.Errorf("%w: %w", ErrDenied, noKDC)
				}
				return nil, noKDC
			}
			ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
			defer cancel()
			_, err := Dial(ctx, []string{"zk:2181"}, cfg)
			mustBe(t, err, ErrSASL, noKDC)
			if errors.Is(err, ErrDenied) != denied || errors.Is(err, ErrUnavailable) == denied || len(s.records()) > 0 {
				t.Errorf("%d connections: %v", len(s.records()), err)
			}
		})
	}
}

// TestSASLDeniedLater: if servers refuse the credentials of a running client, the client keeps
// trying. Refused returns the reason until a server accepts them.
func TestSASLDeniedLater(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var denied atomic.Bool
		s := &saslServer{answer: func(conn, n int, token []byte) []byte {
			if denied.Load() {
				return saslReply(codeAuthFailed, nil)
			}
			return confirms(conn, n, token)
		}}
		c, err := Dial(w.ctx, []string{"zk:2181"}, w.saslConfig(s))
		iferr.Fatal(t, err)
		defer c.Close(time.Second)
		denied.Store(true)
		c.own.live.Load().Close()
		time.Sleep(sessionTimeout)
		mustBe(t, c.Away(), ErrUnavailable, ErrSASL, ErrDenied)
		if n := len(s.records()); n > 20 {
			t.Errorf("%d tries in %v", n, sessionTimeout)
		}
		denied.Store(false)
		time.Sleep(sessionTimeout)
		if _, err := c.Get(w.ctx, "/a"); !errors.Is(err, zk.ErrNoNode) || c.Away() != nil {
			t.Errorf("%v, refused: %v", err, c.Away())
		}
	})
}

// TestNewerCredential: before a client's credential ends, the client reconnects with a newer
// credential, when each request in flight has its answer. Without a newer credential it keeps the
// connection.
func TestNewerCredential(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const life = time.Minute
		s := &saslServer{answer: confirms, delay: 300 * time.Millisecond}
		cfg := w.saslConfig(s)
		var log strings.Builder
		var mu sync.Mutex
		cfg.Log = zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.WarnLevel)
		until, down, stale := time.Time{}, false, false
		cfg.SASL = func(context.Context, string) (SASLExchange, error) {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return nil, errors.New("no KDC answers")
			}
			if time.Until(until) < life/2 && !stale {
				until = time.Now().Add(life)
			}
			return &echoing{expires: until}, nil
		}
		c, err := Dial(w.ctx, []string{"zk:2181"}, cfg)
		iferr.Fatal(t, err)
		var calls sync.WaitGroup
		for range 4 { // the server is never idle
			calls.Go(func() {
				for end := time.Now().Add(10 * life); time.Now().Before(end); {
					if _, err := c.Get(w.ctx, "/a"); !errors.Is(err, zk.ErrNoNode) && OutcomeOf(err) != Retryable {
						t.Errorf("a request in flight has the outcome %v: %v", OutcomeOf(err), err)
					}
				}
			})
		}
		calls.Wait()
		synctest.Wait()
		records := s.records()
		if n := len(records); n < 11 || n > 15 {
			t.Errorf("%d connections in ten lives of a credential", n)
		}
		for i, r := range records[:len(records)-1] {
			if kept := r.closed.Sub(r.opened); kept > life || kept < life/2 || r.unread > 0 {
				t.Errorf("connection %d was kept for %v; %d requests without a reply", i, kept, r.unread)
			}
		}
		if log.Len() > 0 {
			t.Errorf("logged %s", &log)
		}

		mu.Lock()
		down = true
		mu.Unlock()
		time.Sleep(10 * life)
		synctest.Wait()
		if n := len(s.records()) - len(records); n > 0 || !strings.Contains(log.String(), "no KDC answers") || strings.Count(log.String(), "\n") > 20 {
			t.Errorf("%d connections anew; logged %s", n, &log)
		}
		mu.Lock()
		down, until = false, records[len(records)-1].opened // that of before, as from a cache that is not renewed
		stale = true
		mu.Unlock()
		time.Sleep(10 * life)
		synctest.Wait()
		if n := len(s.records()) - len(records); n > 0 {
			t.Errorf("%d connections anew with the same credential", n)
		}
		mu.Lock()
		stale = false
		mu.Unlock()
		time.Sleep(life + 2*lateLogin)
		if n := len(s.records()) - len(records); n == 0 {
			t.Error("the newer credential is not used")
		}
		iferr.Error(t, c.Close(time.Second))
	})
}

// TestNewerCredentialAmidDigests: a newer SASL credential does not end a connection on which
// go-zookeeper still sends the digests again. It would answer such a request twice, and hang.
func TestNewerCredentialAmidDigests(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		s := &saslServer{answer: confirms, slow: 2}
		cfg := w.saslConfig(s)
		cfg.Digests = []string{"a:a", "b:b", "c:c", "d:d"}
		cfg.SASL = func(context.Context, string) (SASLExchange, error) {
			return &echoing{expires: time.Now().Add(leastLogin)}, nil
		}
		c, err := Dial(w.ctx, []string{"zk:2181"}, cfg)
		iferr.Fatal(t, err)
		time.Sleep(2*leastLogin + 4*slowly)
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		if _, err := c.Get(ctx, "/a"); !errors.Is(err, zk.ErrNoNode) {
			t.Error(err)
		}
		iferr.Error(t, c.Close(time.Second))
		digests := 0
		for _, op := range s.records()[1].ops {
			if op == opAuth {
				digests++
			}
		}
		if digests != len(cfg.Digests) {
			t.Errorf("the second connection has received %d digests", digests)
		}
	})
}
