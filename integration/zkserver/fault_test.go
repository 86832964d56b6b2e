package zkserver

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// connect returns a client that dials through the tap. The client is closed at the end of the test.
func connect(t *testing.T, tap *Tap, servers ...string) *zk.Conn {
	t.Helper()
	// A client sends a ping only after a third of its session timeout.
	conn, _, err := zk.Connect(servers, time.Minute, zk.WithDialer(tap.Dial), zk.WithLogInfo(false), zk.WithLogger(silent{}))
	iferr.Fatal(t, err)
	t.Cleanup(conn.Close)
	return conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// setting sets a node in the background, and returns the channel of the result.
func setting(conn *zk.Conn, path, data string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := conn.Set(path, []byte(data), -1)
		done <- err
	}()
	return done
}

// eventually waits until the condition holds, and fails the test after patience.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	iferr.Fatal(t, wait.Until(context.Background(), patience, what, func() (bool, error) { return cond(), nil }))
}

func expectData(t *testing.T, conn *zk.Conn, path, want string) {
	t.Helper()
	if data, _, err := conn.Get(path); err != nil || string(data) != want {
		t.Errorf("%s holds %q, %v; want %q", path, data, err, want)
	}
}

// TestTapFaults: a fault at the second of three writes decides whether the server has applied that
// write, and happens once. After Resume the client has its session again, or a new one if the
// session expired.
func TestTapFaults(t *testing.T) {
	for _, test := range []struct {
		fault Fault
		data  string // data at the server after the fault
		err   error
	}{
		{CutBefore, "one", zk.ErrConnectionClosed},
		{CutAfter, "two", zk.ErrConnectionClosed},
		{HoldReply, "two", nil},
	} {
		for _, expires := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, expires=%v", test.fault, expires), func(t *testing.T) {
				// List each server several times: a client with only one pauses for a second before
				// it reconnects.
				tap := new(Tap)
				conn := connect(t, tap, slices.Repeat(External(), 4)...)
				t.Cleanup(tap.Resume)
				eventually(t, "the client has a session", func() bool { return conn.State() == zk.StateHasSession })
				other := connect(t, new(Tap), External()...)
				const p = "/zkserver-fault"
				iferr.Fatal(t, iferr.Of(other.Create(p, nil, 0, zk.WorldACL(zk.PermAll))))
				defer other.Delete(p, -1)
				id, _, _ := tap.Session()

				hit := tap.Inject(test.fault, 2)
				if err := conn.AddAuth("digest", []byte("a:b")); err != nil { // adds no request to the count
					t.Fatal(err)
				}
				iferr.Fatal(t, <-setting(conn, p, "one"))
				select {
				case <-hit:
					t.Fatal("the fault happened to the first request")
				default:
				}
				second := setting(conn, p, "two")
				<-hit
				expectData(t, other, p, test.data)
				if expires {
					iferr.Fatal(t, tap.Expire(t.Context(), External()[0]))
				}
				var later []<-chan error
				if test.fault == HoldReply {
					// Requests still pass, even if the server has closed the connection. The client
					// learns of the close only after the replies.
					sent := tap.Counts().Requests
					for n := sent + 1; n <= sent+2; n++ {
						later = append(later, setting(conn, p, "later"))
						eventually(t, "a later write passes", func() bool { return tap.Counts().Requests == n })
					}
					if !expires {
						eventually(t, "the later writes are applied", func() bool {
							_, stat, err := other.Get(p)
							return err == nil && stat.Version == 4
						})
					}
					select {
					case err := <-second:
						t.Fatalf("the reply was not held: %v", err)
					default:
					}
				}
				tap.Resume()
				if err := <-second; err != test.err {
					t.Errorf("the second write: %v, want %v", err, test.err)
				}
				for i, done := range later {
					if err := <-done; (err == nil) == expires {
						t.Errorf("later write %d: %v", i, err)
					}
				}
				eventually(t, "the client has its session, or a new one", func() bool {
					return conn.State() == zk.StateHasSession && (conn.SessionID() != id) == expires
				})
				if err := <-setting(conn, p, "last"); err != nil { // a fault happens once
					t.Error(err)
				}
			})
		}
	}
}
