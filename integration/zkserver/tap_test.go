package zkserver

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
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

func TestTapKnowsTheSession(t *testing.T) {
	var none Tap
	if id, passwd, ok := none.Session(); ok {
		t.Errorf("session %#x %x before any", id, passwd)
	}
	tap, conn, _ := tapped(t, lasting)
	id, passwd := session(t, tap)
	if id != conn.SessionID() || len(passwd) != 16 {
		t.Errorf("session %#x with %d bytes of password: the client has %#x", id, len(passwd), conn.SessionID())
	}
}

func TestTapCountsRequests(t *testing.T) {
	tap, conn, _ := tapped(t, lasting)
	p := path(t, conn)
	if got := tap.Counts(); got.Requests != 0 || got.BytesOut < 44 || got.BytesIn < 40 {
		t.Errorf("after the handshake: %+v", got)
	}
	if err := conn.AddAuth("digest", []byte("user:secret")); err != nil {
		t.Fatal(err)
	}
	before := tap.Counts()
	if before.Requests != 0 {
		t.Errorf("after AddAuth: %+v", before)
	}
	create(t, conn, p, "0123456789", 0)
	after := tap.Counts()
	if after.Requests != 1 {
		t.Errorf("after Create: %+v", after)
	}
	if out, in := after.BytesOut-before.BytesOut, after.BytesIn-before.BytesIn; out <= int64(len(p)+10) || in <= int64(len(p)) {
		t.Errorf("Create of %q took %d bytes out and %d in", p, out, in)
	}
	if _, err := conn.Multi(
		&zk.SetDataRequest{Path: p, Version: 0},
		&zk.SetDataRequest{Path: p, Version: 1},
	); err != nil {
		t.Fatal(err)
	}
	if got := tap.Counts(); got.Requests != 2 {
		t.Errorf("after Multi: %+v", got)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := conn.Delete(p, -1); err != nil {
		t.Fatal(err)
	}
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
		if _, err := other.Sync(p); err != nil {
			t.Fatal(err)
		}
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

func TestTapStallOutlastsTheSession(t *testing.T) {
	tap, conn, events := tapped(t, 10*time.Second)
	p := path(t, conn)
	create(t, conn, p, "", zk.FlagEphemeral)
	id, _ := session(t, tap)
	other := connect(t, lasting, new(Tap), External()...)
	exists, _, gone, err := other.ExistsW(p)
	if err != nil || !exists {
		t.Fatal(exists, err)
	}

	tap.Stall()
	if e := <-gone; e.Type != zk.EventNodeDeleted {
		t.Errorf("the ephemeral node: %+v", e)
	}
	tap.Resume()
	awaitState(t, events, zk.StateExpired)
	awaitState(t, events, zk.StateHasSession)
	if again, _ := session(t, tap); again == id {
		t.Errorf("session %#x lives on", id)
	}
}

func TestTapCutWhileStalled(t *testing.T) {
	tap, _, events := tapped(t, lasting)
	id, _ := session(t, tap)
	tap.Stall()
	tap.Cut()
	awaitState(t, events, zk.StateDisconnected)
	tap.Resume()
	awaitState(t, events, zk.StateHasSession)
	if again, _ := session(t, tap); again != id {
		t.Errorf("session %#x became %#x", id, again)
	}
}

func TestTapUsesItsDialer(t *testing.T) {
	refused := errors.New("refused")
	tap := Tap{Dialer: func(string, string, time.Duration) (net.Conn, error) { return nil, refused }}
	if _, err := tap.Dial("tcp", "127.0.0.1:1", time.Second); err != refused {
		t.Errorf("Dial: %v", err)
	}
}
