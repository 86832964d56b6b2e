// Package demo demonstrates Holdfast's promises on a real ZooKeeper. It kills real processes and
// ends sessions. For comparison it shows that go-zookeeper's own lock lets a second client in when
// the holder's session ends. At the end a table lists which promises were kept.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// base is the path of the node above all nodes of a demo. The demo creates and removes it.
type base string

func (b base) locks() string   { return string(b) + "/locks" }   // the root of Holdfast's locks
func (b base) counter() string { return string(b) + "/counter" } // the last order number
func (b base) zkLock() string  { return string(b) + "/zk.Lock" } // go-zookeeper's lock

// Options are the settings of a demo.
type Options struct {
	Servers []string // ZooKeeper servers; they must let any client create a node below /
	Reaper  string   // path of the reaper's program
	Out     io.Writer
	Colour  bool
}

type demo struct {
	Options
	*story
	base      base
	tree      admin.Tree
	conn      *zk.Conn
	processes []*process
}

// Run runs the whole demo. It fails if a promise was not kept. It leaves no process and no node, even
// if ctx ends it.
func Run(ctx context.Context, o Options) (err error) {
	d := &demo{Options: o, story: newStory(o.Out, o.Colour), base: base("/holdfast-demo-" + znode.NewID())}
	cfg := config.Default()
	cfg.ZooKeeper.Servers, cfg.Root = o.Servers, d.base.locks()
	locks, err := app.Dial(ctx, cfg, zerolog.Nop())
	if err != nil {
		return err
	}
	d.tree = admin.New(locks)
	defer func() { err = errors.Join(err, d.cleanUp(), locks.Close()) }()
	err = attempt(func() {
		d.conn = connect(o.Servers, net.DialTimeout)
		defer d.conn.Close()
		d.create(string(d.base))
		d.create(d.base.locks())
		fmt.Fprintf(o.Out, "Holdfast on ZooKeeper at %s, below %s, which is removed at the end.\n", strings.Join(o.Servers, ", "), d.base)
		d.drawOrders(ctx)
		d.expireSessions(ctx)
		d.killHolder(ctx)
		d.killEverybody(ctx)
		d.lookAround(ctx)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(o.Out)
	if err := d.table.Print(o.Out); err != nil {
		return err
	}
	if d.broken > 0 {
		return fmt.Errorf("a promise was not kept: %d of %d lines FAILED", d.broken, len(d.table.Rows)-1)
	}
	return nil
}

// failure is the value with which check panics.
type failure struct{ error }

// check ends the demo, or the worker, if err is not nil: the enclosing attempt returns err.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// attempt runs tell. If [check] ended tell, attempt returns check's error.
func attempt(tell func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	tell()
	return nil
}

// lookAround is the last chapter. It lists the nodes that the locks have left, records whether there
// are none, and removes the demo's nodes.
func (d *demo) lookAround(ctx context.Context) {
	d.begin("e", "What is left in the end?")
	left := d.left(ctx)
	d.say("Nodes below %s, the root of all these locks: %d.", d.base.locks(), len(left))
	for _, node := range left {
		d.say("  %s", node)
	}
	d.judge("nothing is left behind", "0 nodes", fmt.Sprintf("%d nodes", len(left)), len(left) == 0)
	d.remove(ctx)
	d.say("%s is removed, with the counter that was ours and what zk.Lock left.", d.base)
}

// create creates an empty node that any client may change.
func (d *demo) create(path string) {
	if _, err := d.conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		check(fmt.Errorf("create %s: %w", path, err))
	}
}

// left returns all nodes below the root of the locks, except the epoch mark and the inbox, which
// stay.
func (d *demo) left(ctx context.Context) []string {
	root := d.base.locks()
	return slices.DeleteFunc(d.list(ctx, root), func(node string) bool {
		return node == root || node == root+"/"+znode.EpochMark || node == root+"/"+znode.Inbox
	})
}

// list returns the node at path and all nodes below it, a parent before its children; none if there is
// no node.
func (d *demo) list(ctx context.Context, path string) []string {
	children, _, err := d.tree.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	check(err)
	nodes := []string{path}
	for _, child := range children {
		nodes = append(nodes, d.list(ctx, path+"/"+child)...)
	}
	return nodes
}

// remove deletes all nodes of the demo in one transaction, because a lock's node and its anchor must
// be deleted together. It tries again if a client has deleted a node meanwhile.
func (d *demo) remove(ctx context.Context) {
	for nodes := d.list(ctx, string(d.base)); len(nodes) > 0; nodes = d.list(ctx, string(d.base)) {
		var all []admin.Deletion
		for _, node := range slices.Backward(nodes) {
			all = append(all, admin.Deletion{Path: node, Version: -1})
		}
		if err := d.tree.Delete(ctx, all); !errors.Is(err, zk.ErrNoNode) { // a client may have deleted a node
			check(err)
		}
	}
}

// cleanUp kills all remaining processes, and then removes the nodes.
func (d *demo) cleanUp() error {
	for _, p := range d.processes {
		p.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := attempt(func() { d.remove(ctx) }); err != nil {
		return fmt.Errorf("remove %s: %w; remove it with: zkCli.sh -server %s deleteall %s", d.base, err, d.Servers[0], d.base)
	}
	return nil
}

// queueUp starts workers that queue for the lock at path in the order of names. It returns when the
// first one has the lock. part is a key of [parts], and the arguments of its function.
func (d *demo) queueUp(ctx context.Context, path string, part []string, names ...string) (queue []*process) {
	present := func() int { // entries of zk.Lock and of Holdfast have -lock- in their names
		return len(slices.DeleteFunc(d.list(ctx, path), func(node string) bool { return !strings.Contains(node, "-lock-") }))
	}
	for i, name := range names {
		w := d.worker(name, part...)
		queue = append(queue, w)
		w.order("lock")
		check(until(ctx, name+" is at the lock", func() bool { return present() == i+1 }))
	}
	queue[0].hear(ctx, "in")
	return queue
}

// queueUpHoldfast starts workers that queue for a lock of Holdfast, as queueUp does.
func (d *demo) queueUpHoldfast(ctx context.Context, lock string, ttl, grace time.Duration, names ...string) []*process {
	return d.queueUp(ctx, d.base.locks()+"/"+lock, []string{"holdfast", lock, ttl.String(), grace.String()}, names...)
}
