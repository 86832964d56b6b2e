package integration_test

import (
	"net"
	"sync"
	"testing"
)

// silent is a server that accepts connections and never answers.
type silent struct {
	addr string
	mu   sync.Mutex
	open []net.Conn
}

func listenSilently(t *testing.T) *silent {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silent{addr: l.Addr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open = append(s.open, c)
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range s.open {
			c.Close()
		}
	})
	return s
}

// called reports whether a client has connected.
func (s *silent) called() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > 0
}
