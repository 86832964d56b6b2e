package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

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
	w := &worker{servers: strings.Split(os.Args[2], ","), base: Base(os.Args[3]), orders: make(chan string)}
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			w.orders <- in.Text()
		}
		os.Exit(0)
	}()
	if err := parts[os.Args[1]](w, os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// parts are what a worker can play.
var parts = map[string]func(w *worker, args []string) error{
	"draw":     (*worker).draw,
	"zk.Lock":  (*worker).zkLock,
	"holdfast": (*worker).holdfast,
}

// sessionTimeout is what workers ask for: the least that a server grants which is
// configured as it comes.
const sessionTimeout = 4 * time.Second

// sessionFormat is how a worker tells of a session.
const sessionFormat = "session %s %x %x"

type worker struct {
	servers []string
	base    Base
	orders  chan string
}

// say tells the demo something.
func (w *worker) say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// obey waits for an order.
func (w *worker) obey(order string) error {
	if got := <-w.orders; got != order {
		return fmt.Errorf("order %q, want %q", got, order)
	}
	return nil
}

// dial opens connections and tells of the sessions on them.
func (w *worker) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return listen(conn, address, func(s session) {
		if s.id != 0 { // not the news that an old one is gone
			w.say(sessionFormat, s.server, s.id, s.secret)
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
func (w *worker) client(opts ...lock.Option) (*lock.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return lock.Dial(ctx, w.servers, append([]lock.Option{
		lock.WithRoot(w.base.Root()), lock.WithOwner("demo"), lock.WithSessionTimeout(sessionTimeout),
	}, opts...)...)
}

// draw draws order numbers from the counter, without a lock or with one: args are
// the name of the lock, "" for none, and how many to draw.
func (w *worker) draw(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	conn, err := connect(w.servers, net.DialTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	one := func() error {
		number, err := next(conn, w.base.counter())
		if err == nil {
			w.say("drew %d 0", number)
		}
		return err
	}
	if args[0] != "" {
		locks, err := w.client()
		if err != nil {
			return err
		}
		defer locks.Close()
		one = func() (err error) {
			hold, err := locks.Mutex(args[0]).Lock(context.Background())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, hold.Unlock()) }()
			number, err := next(conn, w.base.counter())
			if err == nil {
				w.say("drew %d %v", number, hold.Token())
			}
			return err
		}
	}
	w.say("ready")
	if err := w.obey("go"); err != nil {
		return err
	}
	for range n {
		if err := one(); err != nil {
			return err
		}
	}
	return nil
}

// next reads the counter, thinks, and writes it back one higher: what a lock is
// needed for.
func next(conn *zk.Conn, path string) (int, error) {
	data, _, err := conn.Get(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		return 0, err
	}
	time.Sleep(think)
	n++
	_, err = conn.Set(path, []byte(strconv.Itoa(n)), -1)
	return n, err
}

// zkLock takes and frees go-zookeeper's own lock, on orders.
func (w *worker) zkLock([]string) error {
	conn, err := connect(w.servers, w.dial)
	if err != nil {
		return err
	}
	defer conn.Close()
	l := zk.NewLock(conn, w.base.zkLock(), zk.WorldACL(zk.PermAll))
	if err := w.obey("lock"); err != nil {
		return err
	}
	if err := l.Lock(); err != nil {
		return err
	}
	w.say("in")
	if err := w.obey("unlock"); err != nil {
		return err
	}
	w.say("out %v", result(l.Unlock()))
	return w.obey("leave")
}

// holdfast takes and frees a lock of ours, on orders: args are its name, TTL and
// grace.
func (w *worker) holdfast(args []string) error {
	ttl, err1 := time.ParseDuration(args[1])
	grace, err2 := time.ParseDuration(args[2])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	locks, err := w.client(lock.WithDialer(w.dial), lock.WithTTL(ttl), lock.WithGrace(grace))
	if err != nil {
		return err
	}
	defer locks.Close()
	if err := w.obey("lock"); err != nil {
		return err
	}
	hold, err := locks.Mutex(args[0]).Lock(context.Background())
	if err != nil {
		return err
	}
	w.say("in %v %d", hold.Token(), locks.Stats().Purged)
	for order := range w.orders {
		switch order {
		case "check":
			answer := map[bool]string{true: "yes", false: "no"}[hold.Remaining() > 0]
			w.say("valid %s, after %d renewals", answer, locks.Stats().Renewals)
		case "unlock":
			w.say("out %v", result(hold.Unlock()))
		case "leave":
			return nil
		}
	}
	return nil
}

// result is an error in words.
func result(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}
