package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
)

// Holdfast and zk.Lock run in copies of this program: see [peer] for what they
// are told and say.

// member is a client of a lock in such a copy. No two of lock and unlock run at
// once.
type member interface {
	lock() error
	unlock() error
	held() string
}

// connector makes a member that is connected to a server. What its library says of
// its own accord it passes on with tell, "warned" or "told" first.
type connector func(addr string, tell func(word, text string)) (member, error)

// serve is the copy's main: it does what the lines on standard input say.
func serve(connect connector) {
	var output sync.Mutex
	members := make(map[string]member) // guarded by output
	say := func(name, word, text string) {
		output.Lock()
		defer output.Unlock()
		fmt.Println(name, word, strings.Join(strings.Fields(text), " "))
	}
	obey := func(name, command string, args []string) string {
		output.Lock()
		m := members[name]
		output.Unlock()
		var err error
		switch command {
		case "open":
			m, err = connect(args[0], func(word, text string) { say(name, word, text) })
			output.Lock()
			members[name] = m
			output.Unlock()
		case "lock":
			err = m.lock()
		case "unlock":
			err = m.unlock()
		case "held":
			return m.held()
		}
		if err != nil {
			return err.Error()
		}
		return ok
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		go func() { say(words[0], words[1], obey(words[0], words[1], words[2:])) }()
	}
}

// holdfast is a client of Holdfast.
type holdfast struct {
	mutex *lock.Mutex
	tell  func(word, text string)

	mu   sync.Mutex
	hold *lock.Hold
}

// connectHoldfast makes clients of the lock with that path.
func connectHoldfast(lockPath string, ttl time.Duration) connector {
	root, name := path.Split(lockPath)
	return func(addr string, tell func(word, text string)) (member, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		locks, err := lock.Dial(ctx, []string{addr}, lock.WithRoot(path.Clean(root)), lock.WithTTL(ttl),
			lock.WithSessionTimeout(sessionTimeout))
		if err != nil {
			return nil, err
		}
		return &holdfast{mutex: locks.Mutex(name), tell: tell}, nil
	}
}

func (h *holdfast) lock() error {
	hold, err := h.mutex.Lock(context.Background())
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.hold = hold
	h.mu.Unlock()
	go func() {
		<-hold.Done()
		if err := hold.Err(); !errors.Is(err, lock.ErrUnlocked) {
			h.tell("told", err.Error())
		}
	}()
	return nil
}

func (h *holdfast) current() *lock.Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hold
}

func (h *holdfast) unlock() error { return h.current().Unlock() }

func (h *holdfast) held() string {
	if h.current().Valid() {
		return "yes"
	}
	return "no"
}

// zkLock is a client of go-zookeeper's own lock.
type zkLock struct {
	conn    *zk.Conn
	path    string
	current *zk.Lock
}

func connectZKLock(lockPath string) connector {
	return func(addr string, tell func(word, text string)) (member, error) {
		conn, events, err := zk.Connect([]string{addr}, sessionTimeout, zk.WithLogInfo(false), zk.WithLogger(silence{}))
		if err != nil {
			return nil, err
		}
		connected := make(chan struct{})
		go func() {
			first := true
			for e := range events {
				switch {
				case e.State == zk.StateHasSession && first:
					first = false
					close(connected)
				case e.State == zk.StateDisconnected:
					tell("warned", e.State.String())
				case e.State == zk.StateExpired:
					tell("told", e.State.String())
				}
			}
		}()
		select {
		case <-connected:
			return &zkLock{conn: conn, path: lockPath}, nil
		case <-time.After(patience):
			conn.Close()
			return nil, errors.New("no session with ZooKeeper")
		}
	}
}

// lock uses a new zk.Lock each time: one whose Unlock fails cannot be used again.
func (z *zkLock) lock() error {
	z.current = zk.NewLock(z.conn, z.path, zk.WorldACL(zk.PermAll))
	return z.current.Lock()
}

func (z *zkLock) unlock() error { return z.current.Unlock() }

// held is unknown: a zk.Lock cannot be asked.
func (*zkLock) held() string { return "unknown" }

// silence is a logger for go-zookeeper.
type silence struct{}

func (silence) Printf(string, ...any) {}
