package zkserver

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// tapped returns a client through a tap, and its events.
func tapped(t *testing.T, timeout time.Duration) (*Tap, *zk.Conn, <-chan zk.Event) {
	t.Helper()
	tap := new(Tap)
	conn, events := dial(t, timeout, tap.Dial, External()...)
	t.Cleanup(tap.Resume) // before the client is closed
	awaitState(t, events, zk.StateHasSession)
	return tap, conn, events
}

func session(t *testing.T, tap *Tap) (id int64, passwd []byte) {
	t.Helper()
	id, passwd, ok := tap.Session()
	if !ok {
		t.Fatal("the tap knows no session")
	}
	return id, passwd
}

// path returns a path that only this test uses, because tests of several packages may share the
// server. At the end of the test it deletes the node.
func path(t *testing.T, conn *zk.Conn) string {
	p := "/zkserver-" + t.Name()
	t.Cleanup(func() {
		if err := conn.Delete(p, -1); err != nil && err != zk.ErrNoNode {
			t.Error(err)
		}
	})
	return p
}

func TestTapCountsNoPings(t *testing.T) {
	tap, conn, _ := tapped(t, 10*time.Second) // a ping after a third of it
	p := path(t, conn)
	create(t, conn, p, "", 0)
	id, _ := session(t, tap)
	before := tap.Counts()
	const ping = 4 + 8 // bytes: a length, and a header
	eventually(t, "the client pings", func() bool { return tap.Counts().BytesOut >= before.BytesOut+2*ping })
	if got := tap.Counts(); got.Requests != 1 {
		t.Errorf("after pings: %+v", got)
	}
	if again, _ := session(t, tap); again != id {
		t.Errorf("session %#x became %#x: those were no pings", id, again)
	}
}

func TestTapCut(t *testing.T) {
	tap, conn, events := tapped(t, lasting)
	p := path(t, conn)
	create(t, conn, p, "", 0)
	_, _, changed, err := conn.GetW(p)
	iferr.Fatal(t, err)
	id, _ := session(t, tap)
	requests := tap.Counts().Requests

	tap.Cut()
	awaitState(t, events, zk.StateDisconnected)
	awaitState(t, events, zk.StateHasSession)
	if again, _ := session(t, tap); again != id {
		t.Errorf("session %#x became %#x", id, again)
	}
	// A change of data may be lost if it comes while go-zookeeper sets the watch again; a deletion
	// is not.
	iferr.Fatal(t, conn.Delete(p, -1))
	if e := <-changed; e.Type != zk.EventNodeDeleted {
		t.Errorf("watch: %+v", e)
	}
	if got := tap.Counts().Requests; got != requests+1 {
		t.Errorf("%d requests became %d with one Delete: armed watches do not count", requests, got)
	}
}

func TestTapStall(t *testing.T) {
	tap, conn, _ := tapped(t, lasting)
	p := path(t, conn)
	create(t, conn, p, "", 0)
	id, _ := session(t, tap)
	before := tap.Counts()
	other := connect(t, lasting, new(Tap), External()...)

	tap.Stall()
	tap.Stall() // does nothing
	done := make(chan error, 1)
	go func() {
		_, err := conn.Set(p, []byte("x"), 0)
		done <- err
	}()
	// Another client's writes pass meanwhile; the held one does not.
	for range 20 {
		iferr.Fatal(t, iferr.Of(other.Sync(p)))
	}
	if _, stat, err := other.Get(p); err != nil || stat.Version != 0 {
		t.Errorf("while stalled: %+v, %v", stat, err)
	}
	if got := tap.Counts(); got != before {
		t.Errorf("counts while stalled: %+v, before %+v", got, before)
	}
	if _, err := tap.Dial("tcp", External()[0], 20*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Dial while stalled: %v", err)
	}

	tap.Resume()
	tap.Resume() // does nothing
	if err := <-done; err != nil {
		t.Errorf("the held Set: %v", err)
	}
	if got := tap.Counts(); got.Requests != before.Requests+1 {
		t.Errorf("counts after: %+v, before %+v", got, before)
	}
	if conn.SessionID() != id || conn.State() != zk.StateHasSession {
		t.Errorf("session %#x is in state %v: was %#x", conn.SessionID(), conn.State(), id)
	}
}

func TestTapUsesItsDialer(t *testing.T) {
	refused := errors.New("refused")
	tap := Tap{Dialer: func(string, string, time.Duration) (net.Conn, error) { return nil, refused }}
	if _, err := tap.Dial("tcp", "127.0.0.1:1", time.Second); err != refused {
		t.Errorf("Dial: %v", err)
	}
}

func TestMeterCountsAsATapDoes(t *testing.T) {
	tap := new(Tap)
	meter := &Meter{Dialer: tap.Dial}
	conn, events := dial(t, lasting, meter.Dial, External()...)
	awaitState(t, events, zk.StateHasSession)
	p := path(t, conn)
	before := meter.Counts()
	if before.Requests != 0 || before.BytesIn == 0 {
		t.Errorf("after the handshake: %+v", before)
	}
	iferr.Fatal(t, iferr.Of(conn.Create(p, make([]byte, 100_000), 0, zk.WorldACL(zk.PermAll))))
	if _, _, err := conn.Get(p); err != nil {
		t.Fatal(err)
	}
	got := meter.Counts()
	if want := tap.Counts(); got != want {
		t.Errorf("the meter counted %+v, the tap %+v", got, want)
	}
	if n := got.Requests; n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	if in, out := got.BytesIn-before.BytesIn, got.BytesOut-before.BytesOut; in < 100_000 || out < 100_000 {
		t.Errorf("%d bytes in, %d out: more went each way", in, out)
	}
}

func TestPacketsHoweverCut(t *testing.T) {
	stream := []byte{
		0, 0, 0, 3, 1, 1, 1, // the handshake
		0, 0, 0, 0, // an empty packet
		0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 4, 7,
	}
	for size := 1; size <= len(stream); size++ {
		var s packets
		var sizes []int
		var firsts int
		for rest := stream; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			s.pass(rest[:min(size, len(rest))], func(head []byte, first bool) {
				sizes = append(sizes, len(head))
				if first {
					firsts++
				}
			})
		}
		if len(sizes) != 3 || sizes[0] != 7 || sizes[1] != 4 || sizes[2] != 12 || firsts != 1 {
			t.Errorf("in pieces of %d: heads of %d bytes, %d of them first; want 7, 4, 12, and 1", size, sizes, firsts)
		}
	}
}
