package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	drawers = 10                   // workers that draw order numbers
	each    = 10                   // numbers that each of them draws
	think   = 2 * time.Millisecond // between reading the counter and writing it
)

// drawn is an order number, and the fencing token under which it was drawn.
type drawn struct {
	number int
	token  string // sorts as tokens do
}

// drawOrders lets workers draw numbers from a counter, without a lock and with one.
func (d *demo) drawOrders(ctx context.Context) error {
	d.begin("a", "Ten processes draw order numbers from one counter")
	d.say("Each reads the counter, thinks for %v, and writes it back one higher; %d times.", think, each)
	orders, err := d.draw(ctx, "")
	if err != nil {
		return err
	}
	twice := duplicates(orders)
	d.say("Without a lock: %d numbers, of which %d had been drawn before.", len(orders), twice)
	d.judge("without a lock numbers are drawn twice", "more than 0", strconv.Itoa(twice), twice > 0)

	orders, err = d.draw(ctx, "orders/number")
	if err != nil {
		return err
	}
	twice = duplicates(orders)
	slices.SortFunc(orders, func(a, b drawn) int { return strings.Compare(a.token, b.token) })
	inOrder := len(orders) == drawers*each
	for i, o := range orders {
		inOrder = inOrder && o.number == i+1
	}
	seen := fmt.Sprintf("%d numbers, %d duplicates", len(orders), twice)
	if inOrder {
		seen = fmt.Sprintf("1 to %d in order", len(orders))
	}
	d.say("With Holdfast: %s, as the fencing tokens tell.", seen)
	d.judge("with Holdfast they are unique, in order, complete", fmt.Sprintf("1 to %d in order", drawers*each), seen, inOrder)
	return nil
}

// draw has the workers draw, under the named lock or under none.
func (d *demo) draw(ctx context.Context, lock string) ([]drawn, error) {
	counter := d.Base.counter()
	if _, err := d.conn.Create(counter, []byte("0"), 0, zk.WorldACL(zk.PermAll)); errors.Is(err, zk.ErrNodeExists) {
		if _, err := d.conn.Set(counter, []byte("0"), -1); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	var workers []*process
	for i := range drawers {
		w, err := d.worker(fmt.Sprintf("worker %d", i+1), "draw", lock, strconv.Itoa(each))
		if err != nil {
			return nil, err
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		if _, err := w.hear(ctx, "ready"); err != nil {
			return nil, err
		}
	}
	for _, w := range workers {
		if err := w.order("go"); err != nil {
			return nil, err
		}
	}
	var all []drawn
	for _, w := range workers {
		for range each {
			text, err := w.hear(ctx, "drew")
			if err != nil {
				return nil, err
			}
			var one drawn
			if _, err := fmt.Sscan(text, &one.number, &one.token); err != nil {
				return nil, fmt.Errorf("%s drew %q: %w", w.name, text, err)
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// duplicates returns how many of the numbers had been drawn before.
func duplicates(all []drawn) int {
	distinct := map[int]bool{}
	for _, o := range all {
		distinct[o.number] = true
	}
	return len(all) - len(distinct)
}
