package main

import (
	"errors"
	"net"
	"net/rpc"
	"sync"
)

// store is what the locks protect: a set of numbers, which clients read and write as a whole. It is
// in the controller's process, and no fault hits it.
type store struct {
	fenced bool // the store refuses a token that is lower than one that it has seen

	mu      sync.Mutex
	highest string
	set     []int64
	writes  []write // accepted writes, in order
}

// write is an accepted write.
type write struct {
	Token string
	Added int64 // the element that was not there before
}

// errStale: a fenced store refused a token, because it has seen a higher token.
var errStale = errors.New("stale token")

// admit remembers the highest token. If the store is fenced, admit refuses lower tokens with
// errStale.
func (s *store) admit(token string) error {
	if s.fenced && token < s.highest {
		return errStale
	}
	s.highest = max(s.highest, token)
	return nil
}

func (s *store) read(token string) ([]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set, s.admit(token)
}

func (s *store) write(token string, set []int64, added int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(token); err != nil {
		return err
	}
	s.set = append(set[:len(set):len(set)], added)
	s.writes = append(s.writes, write{token, added})
	return nil
}

// Stores serves the stores of one system to its clients, by net/rpc. Stores has a store for each
// workload that uses a store.
type Stores struct{ byWorkload map[string]*store }

func newStores() *Stores {
	return &Stores{map[string]*store{lockSetWorkload: {}, fencedWorkload: {fenced: true}}}
}

// Request has the arguments of [Stores.Read] and [Stores.Write].
type Request struct {
	Workload string
	Token    string
	Set      []int64 // Set and Added are used by Write
	Added    int64
}

// Read answers with the set, if the store admits the token.
func (s *Stores) Read(r Request, set *[]int64) (err error) {
	*set, err = s.byWorkload[r.Workload].read(r.Token)
	return err
}

// Write replaces the set by r.Set and r.Added, if the store admits the token.
func (s *Stores) Write(r Request, _ *struct{}) error {
	return s.byWorkload[r.Workload].write(r.Token, r.Set, r.Added)
}

// serve answers at a Unix socket until the listener is closed. Connections end with the clients'
// processes.
func (s *Stores) serve(path string) (net.Listener, error) {
	server := rpc.NewServer()
	if err := server.Register(s); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go server.ServeConn(conn)
		}
	}()
	return l, nil
}
