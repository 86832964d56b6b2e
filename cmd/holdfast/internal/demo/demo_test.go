package demo

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/lock/locktest/wire"
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
	s := newStory(&out, false)
	s.begin("a", "Title")
	s.judge("kept", "1", "1", true)
	s.judge("a broken one", "0", "2 äöü", false)
	s.begin("b", "Title")
	s.judge("kept", "0", "0", true)
	out.Reset()
	if err := s.table.Print(&out); err != nil || s.broken != 1 {
		t.Errorf("%d broken, want 1; %v", s.broken, err)
	}
	want := `   promise       expected  seen
a  kept          1         1      ok
a  a broken one  0         2 äöü  FAILED
b  kept          0         0      ok
`
	if out.String() != want {
		t.Errorf("got %s\nwant %s", &out, want)
	}
	s.table.Colour = true
	if got := strings.Join(s.table.Lines(), "\n"); !strings.Contains(got, "\x1b[32mok\x1b[0m") || !strings.Contains(got, "\x1b[31mFAILED\x1b[0m") {
		t.Errorf("%q", got)
	}
}

// handshake returns a server's answer to a handshake, with the id and the password of the session.
func handshake(id uint64, secret []byte) []byte {
	body := make([]byte, 4+4)
	body = binary.BigEndian.AppendUint64(body, id)
	body = binary.BigEndian.AppendUint32(body, uint32(len(secret)))
	return wire.Frame(append(append(body, secret...), 0))
}

// trickle is a connection that returns its text in pieces of n bytes.
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
	text := append(handshake(0x1000060a74a0024, secret), handshake(7, secret)...) // the second frame is ordinary data
	for _, n := range []int{1, 3, 16, 44, 1000} {
		w := new(worker)
		got, err := io.ReadAll(&listener{Conn: &trickle{text: text, n: n}, server: "host:1", worker: w})
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("in pieces of %d: read %x, %v", n, got, err)
		}
		if s := w.session.Load(); s == nil || s.id != 0x1000060a74a0024 || !bytes.Equal(s.secret, secret) || s.server != "host:1" {
			t.Errorf("in pieces of %d: the session is %+v", n, s)
		}
	}
}
