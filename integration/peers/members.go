package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
)

// Holdfast and zk.Lock run in copies of the program that imports this package: see [Peer]
// for what they are told and say.

// selfEnv makes a copy of a program a peer: of which library, with which terms.
const selfEnv = "HOLDFAST_PEER"

// ServeIfPeer makes this process a peer, and ends it, if it was started as one. A program
// that runs Holdfast or zk.Lock by this package calls it before it does anything else.
func ServeIfPeer() {
	words := strings.Fields(os.Getenv(selfEnv))
	if len(words) == 0 {
		return
	}
	err := fmt.Errorf("%s=%q: want a lock, a session timeout and a TTL", selfEnv, words)
	if len(words) == 3 {
		var terms Terms
		if terms, err = parseTerms(words[1:]); err == nil {
			connect := connector(connectZKLock)
			if words[0] == holdfastName {
				connect = connectHoldfast
			}
			serve(terms, connect)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// member is a client of a lock in such a copy. No two of lock and unlock run at
// once.
type member interface {
	lock() error
	unlock() error
	held() string
}

// readers are members of a lock that can be taken to read.
type readers interface {
	rlock() error
	downgrade() error
}

// connector makes a member that is connected to a server. What its library says of
// its own accord it passes on with tell, "warned" or "told" first.
type connector func(terms Terms, open opening, tell func(word, text string)) (member, error)

// opening is what a client is opened with.
type opening struct {
	addr, path, kind string
	options          []string
}

var errUnknown = errors.New("cannot do that")

// serve is the copy's main: it does what the lines on standard input say.
func serve(terms Terms, connect connector) {
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
			m, err = connect(terms, opening{args[0], args[1], args[2], args[3:]}, func(word, text string) { say(name, word, text) })
			output.Lock()
			members[name] = m
			output.Unlock()
		case "lock":
			err = m.lock()
		case "rlock", "downgrade":
			r, can := m.(readers)
			switch {
			case !can:
				err = errUnknown
			case command == "rlock":
				err = r.rlock()
			default:
				err = r.downgrade()
			}
		case "unlock":
			err = m.unlock()
		case "held":
			return m.held()
		}
		if err != nil {
			return err.Error()
		}
		return OK
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		go func() { say(words[0], words[1], obey(words[0], words[1], words[2:])) }()
	}
}

// holdfast is a client of Holdfast.
type holdfast struct {
	write, read func(context.Context) (*lock.Hold, error)
	tell        func(word, text string)

	mu   sync.Mutex
	hold *lock.Hold
}

// policies are the same for all locks.
type policies lock.Policy

func (p policies) Policy(string) lock.Policy { return lock.Policy(p) }

func connectHoldfast(terms Terms, o opening, tell func(word, text string)) (member, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	root, name := path.Split(o.path)
	policy := policies{TTL: terms.TTL, KeepParent: slices.Contains(o.options, KeepParent)}
	locks, err := lock.Dial(ctx, []string{o.addr}, lock.WithRoot(path.Clean(root)), lock.WithPolicies(policy),
		lock.WithSessionTimeout(terms.SessionTimeout))
	if err != nil {
		return nil, err
	}
	if o.kind == RW {
		rw := locks.RWMutex(name)
		return &holdfast{write: rw.Lock, read: rw.RLock, tell: tell}, nil
	}
	return &holdfast{write: locks.Mutex(name).Lock, tell: tell}, nil
}

func (h *holdfast) lock() error { return h.take(h.write) }

func (h *holdfast) rlock() error { return h.take(h.read) }

func (h *holdfast) downgrade() error {
	hold := h.current()
	if hold == nil {
		return errNoHold
	}
	return hold.Downgrade(context.Background())
}

func (h *holdfast) take(take func(context.Context) (*lock.Hold, error)) error {
	hold, err := take(context.Background())
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.hold = hold
	h.mu.Unlock()
	go func() {
		<-hold.Context().Done()
		if err := hold.Err(); !errors.Is(err, lock.ErrUnlocked) {
			h.tell("told", err.Error())
		}
	}()
	return nil
}

// errNoHold is the error of a member that is asked to give back what it never had.
var errNoHold = errors.New("the lock was not taken")

// current is the last hold; nil before the first one.
func (h *holdfast) current() *lock.Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hold
}

func (h *holdfast) unlock() error {
	hold := h.current()
	if hold == nil {
		return errNoHold
	}
	return hold.Unlock()
}

func (h *holdfast) held() string {
	if hold := h.current(); hold != nil && hold.Remaining() > 0 {
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

func connectZKLock(terms Terms, o opening, tell func(word, text string)) (member, error) {
	conn, events, err := zk.Connect([]string{o.addr}, terms.SessionTimeout, zk.WithLogInfo(false), zk.WithLogger(silence{}))
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
		return &zkLock{conn: conn, path: o.path}, nil
	case <-time.After(patience):
		conn.Close()
		return nil, errors.New("no session with ZooKeeper")
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
