package main

import (
	"errors"
	"net"
	"net/rpc"
	"sync"
)

// Store is what the locks protect: a set of numbers, which clients read and write as a whole. It is
// in the controller's process, and no fault hits it. Clients call its methods by net/rpc.
type Store struct {
	fenced bool // the store refuses a token that is lower than one that it has seen

	mu      sync.Mutex
	highest string
	set     []int64
	writes  []Write // accepted writes, in order, without Set
}

// Write has the arguments of [Store.Write]: the set, and the element that was not there before.
type Write struct {
	Token string
	Set   []int64
	Added int64
}

// errStale: a fenced store refused a token, because it has seen a higher token.
var errStale = errors.New("stale token")

// admit remembers the highest token. If the store is fenced, admit refuses lower tokens.
func (s *Store) admit(token string) error {
	if s.fenced && token < s.highest {
		return errStale
	}
	s.highest = max(s.highest, token)
	return nil
}

// Read answers with the set, if the store admits the token.
func (s *Store) Read(token string, set *[]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*set = s.set
	return s.admit(token)
}

// Write replaces the set by w.Set and w.Added, if the store admits the token.
func (s *Store) Write(w Write, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(w.Token); err != nil {
		return err
	}
	s.set = append(w.Set[:len(w.Set):len(w.Set)], w.Added)
	s.writes = append(s.writes, Write{Token: w.Token, Added: w.Added})
	return nil
}

// newStores returns the stores of one system, by workload.
func newStores() map[string]*Store {
	return map[string]*Store{lockSetWorkload: {}, fencedWorkload: {fenced: true}}
}

// serveStores answers at a Unix socket until the listener is closed. Connections end with the
// clients' processes.
func serveStores(path string, stores map[string]*Store) (net.Listener, error) {
	server := rpc.NewServer()
	for workload, s := range stores {
		if err := server.RegisterName(workload, s); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go server.ServeConn(conn)
		}
	}()
	return l, nil
}
