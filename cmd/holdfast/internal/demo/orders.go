package demo

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	drawers = 10                   // workers that draw order numbers
	each    = 10                   // numbers that each worker draws
	think   = 2 * time.Millisecond // pause between reading the counter and writing it
)

// drawn is an order number, with the fencing token under which it was drawn.
type drawn struct {
	number int
	token  string // as text; it sorts in the order of the tokens
}

// drawOrders is chapter a: workers draw numbers from a counter, first without a lock and then with one.
func (d *demo) drawOrders(ctx context.Context) {
	d.begin("a", "Ten processes draw order numbers from one counter")
	d.say("Each reads the counter, thinks for %v, and writes it back one higher; %d times.", think, each)
	d.create(d.base.counter())
	orders := d.draw(ctx, "")
	twice := duplicates(orders)
	d.say("Without a lock: %d numbers, of which %d had been drawn before.", len(orders), twice)
	d.judge("without a lock numbers are drawn twice", "more than 0", strconv.Itoa(twice), twice > 0)

	orders = d.draw(ctx, "orders/number")
	slices.SortFunc(orders, func(a, b drawn) int { return strings.Compare(a.token, b.token) })
	inOrder := true
	for i, o := range orders {
		inOrder = inOrder && o.number == i+1
	}
	seen := fmt.Sprintf("%d numbers, %d duplicates", len(orders), duplicates(orders))
	if inOrder {
		seen = fmt.Sprintf("1 to %d in order", len(orders))
	}
	d.say("With Holdfast: %s, as the fencing tokens tell.", seen)
	d.judge("with Holdfast they are unique, in order, complete", fmt.Sprintf("1 to %d in order", drawers*each), seen, inOrder)
}

// draw sets the counter to 0, and starts workers that draw numbers under the named lock, or without a
// lock if the name is "". It returns all numbers.
func (d *demo) draw(ctx context.Context, lock string) (all []drawn) {
	_, err := d.conn.Set(d.base.counter(), []byte("0"), -1)
	check(err)
	var workers []*process
	for i := range drawers {
		workers = append(workers, d.worker(fmt.Sprintf("worker %d", i+1), "draw", lock, strconv.Itoa(each)))
	}
	for _, w := range workers {
		w.hear(ctx, "ready")
	}
	for _, w := range workers {
		w.order("go")
	}
	for _, w := range workers {
		for range each {
			var one drawn
			_, err := fmt.Sscan(w.hear(ctx, "drew"), &one.number, &one.token)
			check(err)
			all = append(all, one)
		}
	}
	return all
}

// draw waits for an order from the demo, and then draws order numbers from the counter. args are the
// name of the lock, "" for none, and the number of draws.
func (w *worker) draw(args []string) {
	n, err := strconv.Atoi(args[1])
	check(err)
	conn := connect(w.servers, net.DialTimeout)
	defer conn.Close()
	_, _, err = conn.Get(w.base.counter()) // waits for the session, so that all begin together
	check(err)
	one := func() { w.say("drew %d 0", next(conn, w.base.counter())) }
	if args[0] != "" {
		locks := w.client()
		defer locks.Close()
		one = func() {
			hold, err := locks.Mutex(args[0]).Lock(context.Background())
			check(err)
			w.say("drew %d %v", next(conn, w.base.counter()), hold.Token())
			check(hold.Unlock())
		}
	}
	w.say("ready")
	<-w.orders
	for range n {
		one()
	}
}

// next reads the counter, pauses, writes it back one higher, and returns the new number. That is only
// correct under a lock.
func next(conn *zk.Conn, path string) int {
	data, _, err := conn.Get(path)
	check(err)
	n, err := strconv.Atoi(string(data))
	check(err)
	time.Sleep(think)
	_, err = conn.Set(path, []byte(strconv.Itoa(n+1)), -1)
	check(err)
	return n + 1
}

// duplicates returns how many draws gave a number that an earlier draw gave, too.
func duplicates(all []drawn) int {
	distinct := map[int]bool{}
	for _, o := range all {
		distinct[o.number] = true
	}
	return len(all) - len(distinct)
}
