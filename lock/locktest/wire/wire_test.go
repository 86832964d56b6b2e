package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handshake returns a server's answer to a handshake, as a frame.
func handshake(id uint64, secret []byte) []byte {
	body := make([]byte, 4+4)
	body = binary.BigEndian.AppendUint64(body, id)
	body = binary.BigEndian.AppendUint32(body, uint32(len(secret)))
	return Frame(append(append(body, secret...), 0))
}

// server starts a server, and returns its address. On each connection it reads two frames, sends
// what answer returns, and closes the connection.
func server(t *testing.T, answer func(try int) []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for try := 1; ; try++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for range 2 {
				iferr.Error(t, iferr.Of(ReadFrame(conn)))
			}
			iferr.Error(t, iferr.Of(conn.Write(answer(try))))
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
	closed := append(handshake(7, secret), Frame(make([]byte, 16))...)
	refused := handshake(0, make([]byte, 16))
	for name, test := range map[string]struct {
		answers [][]byte
		err     string
	}{
		"at once":                     {[][]byte{closed, refused}, ""},
		"when its client was quicker": {[][]byte{handshake(7, secret), nil, closed, closed, refused}, ""},
		"that is not there":           {[][]byte{refused}, ErrSessionGone.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			err := Expire(t.Context(), server(t, func(try int) []byte {
				tries = try
				return test.answers[try-1]
			}), 7, secret)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%v, want %q", err, test.err)
			}
			if tries != len(test.answers) {
				t.Errorf("%d tries, want %d", tries, len(test.answers))
			}
		})
	}
}

// TestExpireOfASilentServer: if a connection gets no answer, Expire opens another one.
func TestExpireOfASilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	defer l.Close()
	second := make(chan struct{})
	go func() {
		for try := 0; ; try++ { // each connection stays open without an answer
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			if try == 1 {
				close(second)
			}
		}
	}()
	why := errors.New("no more")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- expire(ctx, l.Addr().String(), 7, nil, 10*time.Millisecond) }()
	<-second
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Error(err)
	}
}

func TestExpireEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more")
	addr := server(t, func(try int) []byte {
		if try == 3 {
			cancel(why)
		}
		return nil
	})
	if err := Expire(ctx, addr, 7, nil); !errors.Is(err, why) {
		t.Error(err)
	}
}

func TestExpireTellsWhatIsWrong(t *testing.T) {
	for want, answer := range map[string][]byte{
		"connect response is 7 bytes long: must be 24": Frame([]byte("abc")),
		"has a password of 17 bytes: there are 16":     Frame(append(append(make([]byte, 16), 0, 0, 0, 17), make([]byte, 16)...)),
		"frame of 4294967295 bytes: must be":           {0xff, 0xff, 0xff, 0xff},
		"closeSession failed with code -4":             append(handshake(7, nil), Frame(binary.BigEndian.AppendUint32(make([]byte, 12), 0xfffffffc))...),
	} {
		addr := server(t, func(int) []byte { return answer })
		if err := Expire(t.Context(), addr, 7, make([]byte, 16)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Expire: %v: want %q", err, want)
		}
	}
}

func TestExpireOfAServerThatHasGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	go func() {
		if conn, err := l.Accept(); err == nil {
			l.Close()
			conn.Close()
		}
	}()
	const want = "connection refused (try 2, after "
	if err := Expire(t.Context(), l.Addr().String(), 7, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Expire: %v: want %q", err, want)
	}
}
