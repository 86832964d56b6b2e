package zkserver

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest/wire"
)

func TestExpire(t *testing.T) {
	tap, conn, events := tapped(t, 10*time.Second)
	p := path(t, conn)
	create(t, conn, p, "", zk.FlagEphemeral)
	id, passwd := session(t, tap)

	if err := tap.Expire(t.Context(), External()[0]); err != nil {
		t.Fatal(err)
	}
	other := connect(t, lasting, new(Tap), External()...)
	if exists, _, err := other.Exists(p); err != nil || exists {
		t.Errorf("the ephemeral node is there: %v, %v", exists, err)
	}
	awaitState(t, events, zk.StateExpired)
	awaitState(t, events, zk.StateHasSession)
	again, _ := session(t, tap)
	if again == id {
		t.Errorf("session %#x lives on", id)
	}
	if err := wire.Expire(t.Context(), External()[0], id, passwd); !errors.Is(err, wire.ErrSessionGone) {
		t.Errorf("Expire a second time: %v", err)
	}
}

func TestExpireNeedsThePassword(t *testing.T) {
	tap, conn, _ := tapped(t, 10*time.Second)
	p := path(t, conn)
	create(t, conn, p, "", zk.FlagEphemeral)
	id, passwd := session(t, tap)
	wrong := bytes.Clone(passwd)
	wrong[0]++
	if err := wire.Expire(t.Context(), External()[0], id, wrong); !errors.Is(err, wire.ErrSessionGone) {
		t.Errorf("Expire: %v", err)
	}
	// The failed Expire ended the client's connection, but not its session.
	other := connect(t, lasting, new(Tap), External()...)
	if exists, _, err := other.Exists(p); err != nil || !exists {
		t.Errorf("the ephemeral node is gone: %v, %v", exists, err)
	}
}

// TestExpireAgainstAQuickClient: Expire ends a session although the client attaches it again at
// once whenever it loses the connection.
func TestExpireAgainstAQuickClient(t *testing.T) {
	// attach attaches a session, or opens a new one if id is 0, and returns when the connection
	// ends.
	attach := func(id int64, passwd []byte, attached func(id int64, passwd []byte)) error {
		return wire.WithConn(t.Context(), External()[0], func(conn net.Conn) error {
			if _, err := conn.Write(wire.ConnectRequest(id, passwd)); err != nil {
				return err
			}
			reply, err := wire.ReadFrame(conn)
			if err != nil {
				return err
			}
			now, passwd, err := wire.ParseConnectResponse(reply)
			if err != nil {
				return err
			}
			if now == 0 {
				return wire.ErrSessionGone
			}
			attached(now, passwd)
			// If two connections attach a session at the same moment, the server can forget about
			// one of them and never close it. Clients end a silent connection after a timeout, as
			// here.
			// wall clock: a connection that the server has forgotten makes no event
			if err := conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
				return err
			}
			_, err = wire.ReadFrame(conn)
			return err
		})
	}
	type session struct {
		id     int64
		passwd []byte
	}
	for range 20 {
		opened := make(chan session, 1)
		expired := make(chan error, 1)
		go func() {
			var s session
			err := attach(0, make([]byte, 16), func(id int64, passwd []byte) {
				s = session{id, passwd}
				opened <- s
			})
			for lost := new(wire.ConnectionLost); errors.As(err, &lost); {
				err = attach(s.id, s.passwd, func(int64, []byte) {})
			}
			expired <- err
		}()
		s := <-opened
		if err := wire.Expire(t.Context(), External()[0], s.id, s.passwd); err != nil {
			t.Fatal(err)
		}
		if err := <-expired; !errors.Is(err, wire.ErrSessionGone) {
			t.Fatal(err)
		}
	}
}
