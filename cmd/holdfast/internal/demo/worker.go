package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest/wire"
)

// workerName is the name of a worker's process: its first argument, which ps shows.
const workerName = "holdfast-demo-worker"

// Helper turns this process into a worker if [Run] started it as one; then it does not return. A
// program that uses Run must call Helper first in main.
//
// A worker reads orders from its standard input, one a line, and prints the results on its standard
// output. It ends at the end of its input, so it does not outlive the demo.
func Helper() {
	if len(os.Args) < 4 || os.Args[0] != workerName {
		return
	}
	w := &worker{servers: strings.Split(os.Args[1], ","), base: base(os.Args[2]), orders: make(chan string)}
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			w.orders <- in.Text()
		}
		os.Exit(0)
	}()
	if err := attempt(func() { parts[os.Args[3]](w, os.Args[4:]) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// parts maps the name of a worker's part to the function that plays it.
var parts = map[string]func(w *worker, args []string){
	"draw":     (*worker).draw,
	"zk.Lock":  (*worker).zkLock,
	"holdfast": (*worker).holdfast,
}

// sessionTimeout is the workers' session timeout, the least that a server with default settings
// grants.
const sessionTimeout = 4 * time.Second

type worker struct {
	servers []string
	base    base
	orders  chan string
	session atomic.Pointer[session] // the current session, or the last one
}

// say sends a line to the demo.
func (w *worker) say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// connect opens a session of go-zookeeper, without Holdfast. Requests wait until the session is
// established. go-zookeeper's log is dropped.
func connect(servers []string, dialer zk.Dialer) *zk.Conn {
	conn, _, err := zk.Connect(servers, sessionTimeout, zk.WithDialer(dialer), zk.WithLogger(log.New(io.Discard, "", 0)))
	check(err)
	return conn
}

// client returns a connected client of Holdfast.
func (w *worker) client(opts ...lock.Option) *lock.Client {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	locks, err := lock.Dial(ctx, w.servers, append([]lock.Option{
		lock.WithRoot(w.base.locks()), lock.WithOwner("demo"), lock.WithSessionTimeout(sessionTimeout),
	}, opts...)...)
	check(err)
	return locks
}

// zkLock locks and unlocks go-zookeeper's own lock, as ordered.
func (w *worker) zkLock([]string) {
	conn := connect(w.servers, w.dial)
	defer conn.Close()
	l := zk.NewLock(conn, w.base.zkLock(), zk.WorldACL(zk.PermAll))
	w.obey(map[string]func() string{
		"lock": func() string {
			check(l.Lock())
			return "in"
		},
		"unlock": func() string { return "out " + result(l.Unlock()) },
	})
}

// holdfast locks and unlocks a lock of Holdfast, as ordered. args are its name, TTL and grace.
func (w *worker) holdfast(args []string) {
	ttl, err1 := time.ParseDuration(args[1])
	grace, err2 := time.ParseDuration(args[2])
	check(errors.Join(err1, err2))
	locks := w.client(lock.WithDialer(w.dial), lock.WithTTL(ttl), lock.WithGrace(grace))
	defer locks.Close()
	var hold *lock.Hold
	w.obey(map[string]func() string{
		"lock": func() string {
			var err error
			hold, err = locks.Mutex(args[0]).Lock(context.Background())
			check(err)
			return fmt.Sprintf("in %v %d", hold.Token(), locks.Stats().Purged)
		},
		"check": func() string {
			answer := map[bool]string{true: "yes", false: "no"}[hold.Remaining() > 0]
			return fmt.Sprintf("valid %s, renewed %d times", answer, locks.Stats().Renewals)
		},
		"unlock": func() string { return "out " + result(hold.Unlock()) },
	})
}

// obey executes the orders that the demo sends, and prints the results. It adds two orders: expire
// makes the server end the worker's session, and renew waits for a new session.
func (w *worker) obey(orders map[string]func() string) {
	var old *session
	orders["expire"] = func() string {
		old = w.session.Load()
		check(wire.Expire(context.Background(), old.server, old.id, old.secret))
		return fmt.Sprintf("expired %#x", old.id)
	}
	orders["renew"] = func() string {
		check(until(context.Background(), "there is a new session", func() bool { return w.session.Load().id != old.id }))
		return fmt.Sprintf("session %#x", w.session.Load().id)
	}
	for order := range w.orders {
		w.say("%s", orders[order]())
	}
}

// result returns the text of an error; "ok" if it is nil.
func result(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}
