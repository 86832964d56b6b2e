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
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// Holdfast and zk.Lock run in copies of the program that imports this package. [Peer] documents
// commands and answers.

// selfEnv makes a copy of this program a peer. Its value has the library and the terms, in JSON.
const selfEnv = "HOLDFAST_PEER"

type selfConfig struct {
	Lock  string // holdfastName or zkLockName
	Terms Terms
}

// ServeIfPeer turns this process into a peer and never returns, if the process was started as a
// peer. A program that calls [Holdfast] or [ZKLock] must call it first.
func ServeIfPeer() {
	served := crew.Serve(selfEnv, func(config selfConfig) error {
		connect := connector(connectZKLock)
		if config.Lock == holdfastName {
			connect = connectHoldfast
		}
		serve(config.Terms, connect)
		return nil
	})
	if served {
		os.Exit(0)
	}
}

// member is a lock's client in a copy of this program: a function for each command, which returns
// the answer. Lock and unlock never run concurrently.
type member map[string]func() string

// connector connects a member to a server. It passes the library's spontaneous messages to tell,
// with the word "warned" or "told".
type connector func(terms Terms, open opening, tell func(word, text string)) (member, error)

// opening has the arguments of a client's open command.
type opening struct {
	addr, path, kind string
	options          []string
}

// result returns the answer of a command that returned err: OK if err is nil, otherwise the error's
// text.
func result(err error) string {
	if err != nil {
		return err.Error()
	}
	return OK
}

// serve is the main function of a peer: it executes the lines on standard input, each in a
// goroutine.
func serve(terms Terms, connect connector) {
	var mu sync.Mutex
	members := make(map[string]member)
	say := func(name, word, text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(name, word, strings.Join(strings.Fields(text), " "))
	}
	obey := func(name, command string, args []string) string {
		if command == "open" {
			m, err := connect(terms, opening{args[0], args[1], args[2], args[3:]}, func(word, text string) { say(name, word, text) })
			mu.Lock()
			defer mu.Unlock()
			members[name] = m
			return result(err)
		}
		mu.Lock()
		do := members[name][command]
		mu.Unlock()
		if do == nil {
			return "cannot do that"
		}
		return do()
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		go func() { say(words[0], words[1], obey(words[0], words[1], words[2:])) }()
	}
}

// policies is the same policy for all locks.
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
	var last atomic.Pointer[lock.Hold]
	take := func(take func(context.Context) (*lock.Hold, error)) func() string {
		return func() string {
			hold, err := take(context.Background())
			if err != nil {
				return err.Error()
			}
			last.Store(hold)
			go func() {
				<-hold.Context().Done()
				if err := hold.Err(); !errors.Is(err, lock.ErrUnlocked) {
					tell("told", err.Error())
				}
			}()
			return OK
		}
	}
	with := func(do func(*lock.Hold) error) func() string {
		return func() string {
			if hold := last.Load(); hold != nil {
				return result(do(hold))
			}
			return "the lock was not taken"
		}
	}
	m := member{
		"lock":   take(locks.Mutex(name).Lock),
		"unlock": with((*lock.Hold).Unlock),
		"held": func() string {
			if hold := last.Load(); hold != nil && hold.Remaining() > 0 {
				return "yes"
			}
			return "no"
		},
	}
	if o.kind == RW {
		rw := locks.RWMutex(name)
		m["lock"], m["rlock"] = take(rw.Lock), take(rw.RLock)
		m["downgrade"] = with(func(h *lock.Hold) error { return rw.Downgrade(context.Background(), h) })
	}
	return m, nil
}

func connectZKLock(terms Terms, o opening, tell func(word, text string)) (member, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("no session with ZooKeeper"))
	defer cancel()
	conn, events, err := zkserver.Connect(ctx, []string{o.addr}, terms.SessionTimeout, nil)
	if err != nil {
		return nil, err
	}
	go func() {
		for e := range events {
			switch e.State {
			case zk.StateDisconnected:
				tell("warned", e.State.String())
			case zk.StateExpired:
				tell("told", e.State.String())
			}
		}
	}()
	var current *zk.Lock
	return member{
		"lock": func() string { // a new zk.Lock each time, because one whose Unlock has failed cannot be used again
			current = zk.NewLock(conn, o.path, zk.WorldACL(zk.PermAll))
			return result(current.Lock())
		},
		"unlock": func() string { return result(current.Unlock()) },
		"held":   func() string { return "unknown" }, // a zk.Lock cannot be asked
	}, nil
}
