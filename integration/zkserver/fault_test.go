package zkserver

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// setting sets a node and returns where the outcome will come.
func setting(conn *zk.Conn, path, data string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := conn.Set(path, []byte(data), -1)
		done <- err
	}()
	return done
}

func expectData(t *testing.T, conn *zk.Conn, path, want string) {
	t.Helper()
	if data, _, err := conn.Get(path); err != nil || string(data) != want {
		t.Errorf("%s holds %q, %v; want %q", path, data, err, want)
	}
}

// TestTapFaults has each fault happen to the second of three writes, and looks
// through another connection at what the server has made of it.
func TestTapFaults(t *testing.T) {
	for _, test := range []struct {
		fault Fault
		data  string // at the server when the fault has happened
		err   error
	}{
		{CutBefore, "one", zk.ErrConnectionClosed},
		{CutAfter, "two", zk.ErrConnectionClosed},
		{HoldReply, "two", nil},
	} {
		for _, expires := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, expires=%v", test.fault, expires), func(t *testing.T) {
				tap, conn, events := tapped(t, 10*time.Second)
				other := connect(t, 10*time.Second, new(Tap), External()...)
				const p = "/zkserver-fault"
				create(t, other, p, "", 0)
				defer other.Delete(p, -1)
				id, passwd := session(t, tap)

				hit := tap.Inject(test.fault, 2)
				if err := conn.AddAuth("digest", []byte("a:b")); err != nil { // is no request
					t.Fatal(err)
				}
				if err := <-setting(conn, p, "one"); err != nil {
					t.Fatal(err)
				}
				select {
				case <-hit:
					t.Fatal("the fault happened to the first request")
				default:
				}
				second := setting(conn, p, "two")
				<-hit
				expectData(t, other, p, test.data)
				if expires {
					if err := Expire(t.Context(), External()[0], id, passwd); err != nil {
						t.Fatal(err)
					}
				}
				if test.fault == HoldReply {
					if !expires { // requests pass while replies are held
						third := setting(conn, p, "three")
						for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
							if data, _, err := other.Get(p); err != nil || time.Now().After(deadline) {
								t.Fatalf("the third write did not pass: %q, %v", data, err)
							} else if string(data) == "three" {
								break
							}
						}
						defer func() {
							if err := <-third; err != nil {
								t.Errorf("the third write: %v", err)
							}
						}()
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
				if expires {
					awaitState(t, events, zk.StateExpired)
				}
				if expires || test.fault != HoldReply {
					awaitState(t, events, zk.StateHasSession)
				}
				if again, _ := session(t, tap); (again == id) == expires {
					t.Errorf("session %#x became %#x", id, again)
				}
				if err := <-setting(conn, p, "last"); err != nil { // a fault happens once
					t.Error(err)
				}
			})
		}
	}
}

func TestTapDisarm(t *testing.T) {
	tap, conn, _ := tapped(t, 10*time.Second)
	hit := tap.Inject(CutBefore, 1)
	if !tap.Disarm() || tap.Disarm() {
		t.Error("Disarm tells that it was too late, or a second one that it was not")
	}
	if _, _, err := conn.Exists("/"); err != nil {
		t.Error(err)
	}
	select {
	case <-hit:
		t.Error("the fault happened")
	default:
	}
}
