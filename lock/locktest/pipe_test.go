package locktest_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// connected returns an ensemble and a connection with a session.
func connected(t *testing.T) (*locktest.Ensemble, *rawConn) {
	t.Helper()
	ens := locktest.Start(t, locktest.Options{})
	c := dialRaw(t, ens.Servers(), ens.Dialer("client"))
	iferr.Fatal(t, c.handshake(time.Hour))
	return ens, c
}

func wantTimeout(t *testing.T, op string, err error) {
	t.Helper()
	var netErr net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &netErr) || !netErr.Timeout() {
		t.Errorf("%s: %v, want a net.Error that is a timeout and os.ErrDeadlineExceeded", op, err)
	}
}

func TestReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := connected(t)
		b := make([]byte, 64)
		start := time.Now()
		elapsed := func(want time.Duration) {
			t.Helper()
			if d := time.Since(start); d != want {
				t.Errorf("%v have passed, want %v", d, want)
			}
			start = time.Now()
		}

		c.SetReadDeadline(start.Add(3 * time.Second))
		_, err := c.Read(b)
		wantTimeout(t, "Read", err)
		elapsed(3 * time.Second)
		_, err = c.Read(b)
		wantTimeout(t, "Read, after the deadline", err)
		elapsed(0)

		// The deadline moves while a Read waits: earlier, and later.
		c.SetReadDeadline(start.Add(time.Minute))
		time.AfterFunc(time.Second, func() { c.SetReadDeadline(time.Now().Add(time.Second)) })
		_, err = c.Read(b)
		wantTimeout(t, "Read, deadline moved nearer", err)
		elapsed(2 * time.Second)
		c.SetReadDeadline(start.Add(time.Second))
		time.AfterFunc(time.Second/2, func() { c.SetReadDeadline(time.Now().Add(time.Minute)) })
		_, err = c.Read(b)
		wantTimeout(t, "Read, deadline moved away", err)
		elapsed(time.Minute + time.Second/2)

		// The deadline is removed, and data arrives.
		c.SetReadDeadline(start.Add(time.Second))
		time.AfterFunc(time.Second/2, func() { c.SetReadDeadline(time.Time{}) })
		time.AfterFunc(time.Minute, func() { c.send(-2, 11) })
		if n, err := c.Read(b); n != 20 || err != nil {
			t.Errorf("Read: %d, %v; want the 20 bytes of a ping's reply", n, err)
		}
		elapsed(time.Minute)

		c.SetDeadline(start)
		_, err = c.Write([]byte{0})
		wantTimeout(t, "Write", err)
		c.SetDeadline(time.Time{})
	})
}

func TestReadInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := connected(t)
		if n, err := c.Read(nil); n != 0 || err != nil {
			t.Errorf("Read of nothing: %d, %v", n, err)
		}
		var got []byte
		for i := range int32(100) {
			c.send(i, 3, "/", false)
			b := make([]byte, i) // at first shorter than a reply, in the end longer
			n, err := c.Read(b)
			iferr.Fatal(t, err)
			got = append(got, b[:n]...)
		}
		rest := make([]byte, 100*88-len(got))
		iferr.Fatal(t, iferr.Of(io.ReadFull(c, rest)))
		xid := int32(0)
		for reply := range slices.Chunk(append(got, rest...), 88) {
			if got, want := reply[:8], pack(int32(84), xid); !bytes.Equal(got, want) {
				t.Errorf("reply %d begins with % x, want % x", xid, got, want)
			}
			xid++
		}
	})
}

// TestWriteBlocks: a client in a partition can write until its buffer is full.
func TestWriteBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		iferr.Fatal(t, ens.Partition("client"))
		ping := frame(int32(-2), int32(11))
		start := time.Now()
		c.SetWriteDeadline(start.Add(time.Second))
		sent := 0
		for ; ; sent++ {
			if _, err := c.Write(ping); err != nil {
				wantTimeout(t, "Write", err)
				break
			}
		}
		if time.Since(start) != time.Second {
			t.Errorf("Write gave up after %v, want 1s", time.Since(start))
		}
		if sent < 1000 {
			t.Errorf("only %d frames were taken", sent)
		}

		c.SetWriteDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { ens.Heal("client") })
		iferr.Error(t, iferr.Of(c.Write(ping)))
		if time.Since(start) != time.Minute+time.Second {
			t.Errorf("Write went on after %v, want 1m1s", time.Since(start))
		}
		for range sent + 1 {
			if r := c.reply(); r.xid != -2 {
				t.Fatalf("%v, want a ping's reply", r)
			}
		}
	})
}

func TestCloseWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		ens.Partition("client")
		errs := make(chan error, 2)
		go func() {
			_, err := c.Read(make([]byte, 1))
			errs <- err
		}()
		go func() {
			for {
				if _, err := c.Write(make([]byte, 1<<20)); err != nil {
					errs <- err
					return
				}
			}
		}()
		synctest.Wait()
		iferr.Error(t, c.Close())
		for range 2 {
			if err := <-errs; !errors.Is(err, net.ErrClosed) {
				t.Errorf("%v, want net.ErrClosed", err)
			}
		}
		if err := c.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second Close: %v, want net.ErrClosed", err)
		}
		if err := c.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("SetDeadline after Close: %v, want net.ErrClosed", err)
		}
	})
}

func TestAfterTheServerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		c.send(-2, 11)
		ens.ExpireLabel("client")
		if r := c.reply(); r.xid != -2 {
			t.Errorf("%v, want the reply that was sent before the end", r)
		}
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read: %v, want io.EOF", err)
		}
		if _, err := c.Write([]byte{0}); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write: %v, want EPIPE", err)
		}
	})
}

func TestAddresses(t *testing.T) {
	ens, c := connected(t)
	if got := c.RemoteAddr(); got.String() != ens.Servers()[0] || got.Network() != "tcp" {
		t.Errorf("RemoteAddr: %s %s", got.Network(), got)
	}
	if got := c.LocalAddr(); got.String() != "client" {
		t.Errorf("LocalAddr: %s", got)
	}
}

func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens := locktest.Start(t, locktest.Options{Members: 3})
		server := ens.Servers()[0]
		if _, err := ens.Dial("tcp", "192.0.2.9:2181", time.Second); err == nil {
			t.Error("dialled a member that there is not")
		}
		start := time.Now()
		ens.SetLatency(func(label, member string) time.Duration { return time.Second })
		if _, err := ens.Dial("tcp", server, time.Minute); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("Dial: %v after %v, want to connect after a round trip of 2s", err, time.Since(start))
		}
		_, err := ens.Dial("tcp", server, time.Second)
		wantTimeout(t, "Dial, slower than its timeout", err)
		ens.SetLatency(nil)

		ens.Stop(server)
		if _, err := ens.Dial("tcp", server, time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Dial of a stopped member: %v, want ECONNREFUSED", err)
		}
		ens.Start(server)

		start = time.Now()
		ens.Partition("")
		_, err = ens.Dial("tcp", server, time.Second)
		wantTimeout(t, "Dial over a partition", err)
		if time.Since(start) != time.Second {
			t.Errorf("Dial gave up after %v, want 1s", time.Since(start))
		}
		time.AfterFunc(time.Hour, func() { ens.Heal("") })
		if _, err := ens.Dial("tcp", server, 0); err != nil {
			t.Errorf("Dial without a timeout: %v", err)
		}
		ens.Partition("")
		time.AfterFunc(time.Second, ens.Close)
		if _, err := ens.Dial("tcp", server, 0); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Dial while the ensemble closes: %v, want net.ErrClosed", err)
		}
	})
}
