// Package demo tells what Holdfast promises as a story on a real ZooKeeper: with
// real processes that are killed and sessions that are expired, and the same with
// go-zookeeper's own lock where that differs. At the end a table says which
// promises were kept.
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

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Base is the node that a demo makes and removes, everything else being below it.
type Base string

// NewBase returns a path that no other demo has.
func NewBase() Base { return Base("/holdfast-demo-" + znode.NewID()) }

// Root is the root of Holdfast's locks.
func (b Base) Root() string { return string(b) + "/locks" }

func (b Base) counter() string { return string(b) + "/counter" } // the order numbers
func (b Base) zkLock() string  { return string(b) + "/zk.Lock" } // go-zookeeper's lock

// Options say how the demo runs.
type Options struct {
	Base    Base
	Servers []string // of ZooKeeper, which must let any client create a node at the top
	Reaper  string   // path of the reaper's program
	Out     io.Writer
	Colour  bool
}

// ErrBroken says that a promise was not kept.
var ErrBroken = errors.New("a promise was not kept")

// demo is one run.
type demo struct {
	Options
	*story
	tree      admin.Tree
	conn      *zk.Conn
	processes []*process
}

// Run tells the whole story; the root of locks is that of the base. It fails with
// [ErrBroken] if a promise was not kept. It leaves neither a process nor a node
// behind, also when ctx ends it.
func Run(ctx context.Context, locks *lock.Client, o Options) (err error) {
	conn, err := connect(o.Servers, net.DialTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	d := &demo{
		Options: o, tree: admin.New(locks), conn: conn,
		story: &story{w: o.Out, colour: o.Colour, begun: time.Now()},
	}
	defer func() { err = errors.Join(err, d.cleanUp()) }()
	for _, node := range []string{string(d.Base), d.Base.Root()} {
		if _, err := conn.Create(node, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			return fmt.Errorf("create %s: %w", node, err)
		}
	}
	fmt.Fprintf(o.Out, "Holdfast on ZooKeeper at %s, below %s, which is removed at the end.\n", strings.Join(o.Servers, ", "), o.Base)
	for _, chapter := range []func(context.Context) error{d.drawOrders, d.expireSessions, d.killHolder, d.killEverybody, d.lookAround} {
		if err := chapter(ctx); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return err
		}
	}
	if broken := d.table(); broken > 0 {
		return fmt.Errorf("%w: %d of %d lines FAILED", ErrBroken, broken, len(d.verdicts))
	}
	return nil
}

// lookAround is the last chapter: what is left?
func (d *demo) lookAround(ctx context.Context) error {
	d.begin("e", "What is left in the end?")
	left, err := d.left(ctx)
	if err != nil {
		return err
	}
	d.say("Nodes below %s, the root of all these locks: %d.", d.Base.Root(), len(left))
	for _, node := range left {
		d.say("  %s", node)
	}
	d.judge("nothing is left behind", "0 nodes", fmt.Sprintf("%d nodes", len(left)), len(left) == 0)
	if err := d.remove(ctx); err != nil {
		return err
	}
	d.say("%s is removed, with the counter that was ours and what zk.Lock left.", d.Base)
	return nil
}

// left returns all nodes below the root of the locks, but for those that are there to
// stay.
func (d *demo) left(ctx context.Context) ([]string, error) {
	root := d.Base.Root()
	nodes, err := d.list(ctx, root)
	return slices.DeleteFunc(nodes, func(node string) bool {
		return node == root || node == root+"/"+znode.EpochMark || node == root+"/"+znode.Inbox
	}), err
}

// list returns a node and all below it, a parent before its children.
func (d *demo) list(ctx context.Context, path string) ([]string, error) {
	children, _, err := d.tree.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	nodes := []string{path}
	for _, child := range children {
		below, err := d.list(ctx, path+"/"+child)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, below...)
	}
	return nodes, nil
}

// remove removes all nodes of the demo's.
func (d *demo) remove(ctx context.Context) error {
	nodes, err := d.list(ctx, string(d.Base))
	if err != nil {
		return err
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		err := d.tree.Delete(ctx, []admin.Deletion{{Path: nodes[i], Version: -1}})
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("remove %s: %w", d.Base, err)
		}
	}
	return nil
}

// cleanUp kills all processes that are left, and then removes the nodes.
func (d *demo) cleanUp() error {
	for _, p := range d.processes {
		p.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.remove(ctx); err != nil {
		return fmt.Errorf("%w; remove it with: zkCli.sh -server %s deleteall %s", err, d.Servers[0], d.Base)
	}
	return nil
}

// contenders waits until a lock has that many, and returns them.
func (d *demo) contenders(ctx context.Context, name string, n int) ([]admin.Contender, error) {
	var state admin.State
	err := await(ctx, fmt.Sprintf("lock %s has %d contenders", name, n), func() (bool, error) {
		var err error
		state, err = d.tree.Inspect(ctx, name)
		return len(state.Contenders) == n, err
	})
	return state.Contenders, err
}
