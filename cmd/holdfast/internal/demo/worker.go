package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/wire"
	"github.com/holdfast-io/holdfast/lock"
)

// workerName is what a worker's process is called. It is the first of its
// arguments, which ps shows.
const workerName = "holdfast-demo-worker"

// Helper makes this process a worker if it was started as one by [Run]; then it
// does not return. A program that uses Run calls it first thing in main.
//
// A worker takes orders, one in each line of its standard input, and tells what
// happened to it on its standard output. It ends when its input does, so that
// none outlives the demo.
func Helper() {
	if len(os.Args) < 4 || os.Args[0] != workerName {
		return
	}
	w := &worker{servers: strings.Split(os.Args[1], ","), base: Base(os.Args[2]), orders: make(chan string)}
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

// parts are what a worker can play.
var parts = map[string]func(w *worker, args []string){
	"draw":     (*worker).draw,
	"zk.Lock":  (*worker).zkLock,
	"holdfast": (*worker).holdfast,
}

// sessionTimeout is what workers ask for: the least that a server grants which is
// configured as it comes.
const sessionTimeout = 4 * time.Second

type worker struct {
	servers []string
	base    Base
	orders  chan string
	session atomic.Pointer[session] // the present one, or the last one
}

// say tells the demo something.
func (w *worker) say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// dial opens connections and notes the sessions on them.
func (w *worker) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return listen(conn, address, func(s session) {
		if s.id != 0 { // not the news that an old one is gone
			w.session.Store(&s)
		}
	}), nil
}

// connect connects with go-zookeeper alone.
func connect(servers []string, dialer zk.Dialer) (*zk.Conn, error) {
	conn, events, err := zk.Connect(servers, sessionTimeout,
		zk.WithDialer(dialer), zk.WithLogInfo(false), zk.WithLogger(silence{}))
	if err != nil {
		return nil, err
	}
	patience := time.After(patience)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-patience:
			conn.Close()
			return nil, errors.New("no session with ZooKeeper")
		}
	}
}

// silence is a logger for zk.Lock's part: what it logs tells its users nothing.
type silence struct{}

func (silence) Printf(string, ...any) {}

// client connects with Holdfast.
func (w *worker) client(opts ...lock.Option) *lock.Client {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	locks, err := lock.Dial(ctx, w.servers, append([]lock.Option{
		lock.WithRoot(w.base.Root()), lock.WithOwner("demo"), lock.WithSessionTimeout(sessionTimeout),
	}, opts...)...)
	check(err)
	return locks
}

// zkLock takes and frees go-zookeeper's own lock, on orders.
func (w *worker) zkLock([]string) {
	conn, err := connect(w.servers, w.dial)
	check(err)
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

// holdfast takes and frees a lock of ours, on orders: args are its name, TTL and
// grace.
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
			return fmt.Sprintf("valid %s, after %d renewals", answer, locks.Stats().Renewals)
		},
		"unlock": func() string { return "out " + result(hold.Unlock()) },
	})
}

// obey does as it is ordered and says what came of it. It can have the server end its own
// session, of which its client hears no more than of any other end, and wait for a new one.
func (w *worker) obey(orders map[string]func() string) {
	var old *session
	orders["expire"] = func() string {
		old = w.session.Load()
		check(wire.Expire(context.Background(), old.server, old.id, old.secret))
		return fmt.Sprintf("expired %#x", old.id)
	}
	orders["renew"] = func() string {
		check(await(context.Background(), "there is a new session", func() bool { return w.session.Load().id != old.id }))
		return fmt.Sprintf("session %#x", w.session.Load().id)
	}
	for order := range w.orders {
		w.say("%s", orders[order]())
	}
}

// result is an error in words.
func result(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}
