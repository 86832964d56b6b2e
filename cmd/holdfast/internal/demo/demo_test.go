package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDuplicates(t *testing.T) {
	for want, numbers := range [][]int{{1, 2, 3}, {1, 2, 2}, {1, 1, 1}, {2, 2, 1, 1, 1}} {
		var all []drawn
		for _, n := range numbers {
			all = append(all, drawn{number: n})
		}
		if got := duplicates(all); got != want {
			t.Errorf("duplicates(%v) = %d, want %d", numbers, got, want)
		}
	}
	if got := duplicates(nil); got != 0 {
		t.Errorf("duplicates of nothing: %d", got)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	s := &story{w: &out, begun: time.Now()}
	s.begin("a", "Title")
	s.judge("kept", "1", "1", true)
	s.judge("a broken one", "0", "2 äöü", false)
	s.begin("b", "Title")
	s.judge("kept", "0", "0", true)
	out.Reset()
	if broken := s.table(); broken != 1 {
		t.Errorf("%d broken, want 1", broken)
	}
	want := `
   promise       expected  seen
a  kept          1         1      ok
a  a broken one  0         2 äöü  FAILED
b  kept          0         0      ok
`
	if out.String() != want {
		t.Errorf("got %s\nwant %s", &out, want)
	}
	s.colour = true
	out.Reset()
	s.table()
	if got := out.String(); !strings.Contains(got, "\x1b[32mok\x1b[0m") || !strings.Contains(got, "\x1b[31;1mFAILED\x1b[0m") {
		t.Errorf("%q", got)
	}
}

// handshake is a server's answer to one.
func handshake(id uint64, secret []byte) []byte {
	body := make([]byte, 4+4)
	body = binary.BigEndian.AppendUint64(body, id)
	body = binary.BigEndian.AppendUint32(body, uint32(len(secret)))
	return frame(append(append(body, secret...), 0))
}

// trickle is a connection that gives its text in pieces of n bytes.
type trickle struct {
	net.Conn
	text []byte
	n    int
}

func (c *trickle) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.n)], c.text)
	c.text = c.text[n:]
	return n, nil
}

func TestListener(t *testing.T) {
	secret := []byte("0123456789abcdef")
	text := append(handshake(0x1000060a74a0024, secret), handshake(7, secret)...) // the second is no handshake
	for _, n := range []int{1, 3, 16, 44, 1000} {
		var told []session
		conn := listen(&trickle{text: text, n: n}, "host:1", func(s session) { told = append(told, s) })
		got, err := io.ReadAll(conn)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("in pieces of %d: read %x, %v", n, got, err)
		}
		if len(told) != 1 || told[0].id != 0x1000060a74a0024 || !bytes.Equal(told[0].secret, secret) || told[0].server != "host:1" {
			t.Errorf("in pieces of %d: told of %+v", n, told)
		}
	}
}

// server answers connections, one after the other, with what answer returns; the
// client's requests are read before.
func server(t *testing.T, answer func(try int) []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for try := 1; ; try++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for range 2 {
				if _, err := readFrame(conn); err != nil {
					t.Error(err)
				}
			}
			if _, err := conn.Write(answer(try)); err != nil {
				t.Error(err)
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestExpire(t *testing.T) {
	secret := []byte("0123456789abcdef")
	closed := append(handshake(7, secret), frame(make([]byte, 16))...)
	refused := handshake(0, make([]byte, 16))
	for name, test := range map[string]struct {
		answers [][]byte
		err     string
	}{
		"at once":                     {[][]byte{closed, refused}, ""},
		"when its client was quicker": {[][]byte{handshake(7, secret), nil, closed, closed, refused}, ""},
		"that is not there":           {[][]byte{refused}, "does not know the session"},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			s := session{id: 7, secret: secret, server: server(t, func(try int) []byte {
				tries = try
				return test.answers[try-1]
			})}
			err := s.expire(t.Context())
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%v, want %q", err, test.err)
			}
			if tries != len(test.answers) {
				t.Errorf("%d tries, want %d", tries, len(test.answers))
			}
		})
	}
}

func TestExpireEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more")
	s := session{id: 7, server: server(t, func(try int) []byte {
		if try == 3 {
			cancel(why)
		}
		return nil
	})}
	if err := s.expire(ctx); !errors.Is(err, why) {
		t.Error(err)
	}
}

func TestReadFrameIsBounded(t *testing.T) {
	if _, err := readFrame(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff, 0})); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Error(err)
	}
}
