package locktest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// Serve connects the TCP clients of a listener to a member: other processes, and clients in other
// languages. After [Ensemble.Close] it closes the listener, waits until the connections have ended,
// and returns nil. It fails if there is no such member, or if the listener fails.
//
// The label of a TCP client, for faults and counters, is the host that it connects from, such as
// "127.0.0.1". The member answers the four-letter words ruok, srvr, mntr, conf and envi.
func (e *Ensemble) Serve(l net.Listener, member string) error {
	if l == nil {
		return errors.New("locktest: Serve: the listener is nil")
	}
	defer l.Close()
	m, err := e.find("Serve", member)
	if err != nil {
		return err
	}
	if !e.register(l) {
		return nil
	}
	var relays sync.WaitGroup
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			relays.Go(func() { e.relay(conn, m) })
		case e.isClosed():
			relays.Wait()
			return nil
		case isTransient(err):
			time.Sleep(acceptAgain)
		default:
			return fmt.Errorf("locktest: Serve: %w", err)
		}
	}
}

// acceptAgain is the pause after a connection could not be accepted.
const acceptAgain = 10 * time.Millisecond

// isTransient reports whether the listener can continue: the process has no free file descriptor
// at the moment, or the client has already closed its connection.
func isTransient(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
}

// register records the listener, so that Close closes it. It returns false if the ensemble is already closed.
func (e *Ensemble) register(l net.Listener) bool {
	e.lock()
	defer e.unlock()
	e.listeners = append(e.listeners, l)
	return !e.closed
}

func (e *Ensemble) isClosed() bool {
	e.lock()
	defer e.unlock()
	return e.closed
}

// relay copies bytes between a TCP client and a member until either end closes. It answers a
// four-letter word itself.
func (e *Ensemble) relay(conn net.Conn, m *member) {
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		host = conn.RemoteAddr().String()
	}
	server, err := e.dial(host, m.addr, 0)
	if err != nil {
		return // the member is stopped or the ensemble closed
	}
	var requests sync.WaitGroup
	defer requests.Wait()
	requests.Go(func() {
		defer server.Close()
		begin := make([]byte, 4)
		if _, err := io.ReadFull(conn, begin); err != nil {
			return
		}
		if answer := e.word(m, string(begin), conn.LocalAddr()); answer != "" {
			_, _ = io.WriteString(conn, answer)
			return
		}
		if _, err := server.Write(begin); err == nil {
			_, _ = io.Copy(server, conn)
		}
	})
	_, _ = io.Copy(conn, server)
	_ = conn.Close()
}
