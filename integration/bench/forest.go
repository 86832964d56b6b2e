package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// forest has many locks below a root of its own, each with one entry. No client renews the entries:
// they expire after the TTL.
type forest struct {
	at      string // path of the root
	trees   int
	nested  bool // trees are in directories, whose number is about the square root of trees
	ttl     time.Duration
	planted bool
}

// perDir returns the number of trees in a full directory; without directories, the number of all
// trees.
func (f *forest) perDir() int {
	if !f.nested {
		return f.trees
	}
	return int(math.Ceil(math.Sqrt(float64(f.trees))))
}

// dirs returns the number of directories below the root.
func (f *forest) dirs() int {
	if !f.nested {
		return 0
	}
	return (f.trees + f.perDir() - 1) / f.perDir()
}

// dir returns the path of a tree's directory; without directories, the path of the root.
func (f *forest) dir(tree int) string {
	if !f.nested {
		return f.at
	}
	return fmt.Sprintf("%s/d%05d", f.at, tree/f.perDir())
}

// nodes returns the number of nodes that a sweep deletes below the root, without anchors.
func (f *forest) nodes() int { return 2*f.trees + f.dirs() }

// tree has the generation of a lock's parent, and the paths of the parent, its anchor and one
// entry. prefix is the path with which the entry is created.
type tree struct{ generation, at, anchor, prefix, entry string }

// tree returns tree i. It is computed, so that a million trees need no memory.
func (f *forest) tree(i int) tree {
	t := tree{generation: znode.FormatID(uint64(i)), at: fmt.Sprintf("%s/job%07d", f.dir(i), i)}
	t.anchor = t.at + "/" + znode.Anchor(t.generation)
	t.prefix = t.at + "/" + znode.Prefix(t.generation, znode.Exclusive)
	t.entry = znode.Predict(t.prefix, 1) // the anchor has sequence 0, so the entry has 1
	return t
}

// nodes returns the paths of a tree's nodes, in an order in which they can be deleted.
func (t tree) nodes() []string { return []string{t.entry, t.anchor, t.at} }

// garden runs the operations that ops returns for each tree. Each transaction has the operations of
// many trees, and several transactions are in flight.
func (f *forest) garden(ctx context.Context, conn *zk.Conn, ops func(tree int) []any) error {
	const treesAtOnce, gardeners = 250, 4
	return spread(gardeners, f.trees, treesAtOnce, func(first, end int) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var all []any
		for i := first; i < end; i++ {
			all = append(all, ops(i)...)
		}
		_, err := conn.Multi(all...)
		return err
	})
}

// plant creates the trees, unless they exist. If the TTL is at most a second, it waits until the
// trees and the directories are old enough for a sweep to delete them.
func (f *forest) plant(ctx context.Context, b *bench) error {
	if f.planted {
		return nil
	}
	conn := b.zookeeper.look.Conn
	if _, err := conn.Create(f.at, nil, 0, acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	dir := znode.Parent{Kind: znode.Dir}.Encode()
	for i := range f.dirs() {
		if _, err := conn.Create(f.dir(i*f.perDir()), dir, 0, acl); err != nil {
			return err
		}
	}
	record := znode.Record{Owner: "bench", Host: "bench.example.com", PID: 12345, TTL: f.ttl.Milliseconds(), ExpiresAt: 1, AcquiredAt: 1}
	data, anchor := record.Encode(), znode.AnchorData{}.Encode()
	err := f.garden(ctx, conn, func(i int) []any {
		t := f.tree(i)
		return []any{
			&zk.CreateRequest{Path: t.at, Data: znode.Parent{Kind: znode.Mutex, Generation: t.generation}.Encode(), Acl: acl},
			&zk.CreateRequest{Path: t.anchor, Data: anchor, Acl: acl},
			&zk.CreateRequest{Path: t.prefix, Data: data, Acl: acl, Flags: zk.FlagSequence},
		}
	})
	if err != nil {
		return fmt.Errorf("plant trees: %w", err)
	}
	f.planted = true
	if f.ttl > time.Second {
		return nil
	}
	return wait.Sleep(ctx, f.ttl+lock.MinGrace+policy.MinOrphanAfter+time.Second)
}

// read lists every tree and reads its entry, with many requests in flight.
func (f *forest) read(conn *zk.Conn) error {
	listed := make([][]string, max(1, f.dirs()))
	err := spread(inFlight, len(listed), 1, func(i, _ int) error {
		dir := f.dir(i * f.perDir())
		names, _, err := conn.Children(dir)
		for _, name := range names {
			listed[i] = append(listed[i], dir+"/"+name)
		}
		return err
	})
	if err != nil {
		return err
	}
	trees := slices.Concat(listed...)
	if len(trees) != f.trees {
		return fmt.Errorf("listed %d trees of %d", len(trees), f.trees)
	}
	return spread(inFlight, len(trees), 1, func(i, _ int) error {
		entries, _, err := conn.Children(trees[i])
		entries = slices.DeleteFunc(entries, func(name string) bool { _, anchor := znode.AnchorOf(name); return anchor })
		if err == nil && len(entries) != 1 {
			err = fmt.Errorf("%s has %d entries, not one", trees[i], len(entries))
		}
		if err == nil {
			_, _, err = conn.Get(trees[i] + "/" + entries[0])
		}
		return err
	})
}

// fell deletes the root, and if the trees are planted also everything below the root.
func (f *forest) fell(conn *zk.Conn) error {
	if !f.planted {
		return conn.Delete(f.at, -1)
	}
	err := f.garden(context.Background(), conn, func(i int) (ops []any) {
		for _, node := range f.tree(i).nodes() {
			ops = append(ops, &zk.DeleteRequest{Path: node, Version: -1})
		}
		return ops
	})
	return errors.Join(err, f.fellDirs(conn))
}

// fellDirs deletes the directories, which must be empty, and the root.
func (f *forest) fellDirs(conn *zk.Conn) error {
	var errs []error
	for i := range f.dirs() {
		errs = append(errs, conn.Delete(f.dir(i*f.perDir()), -1))
	}
	return errors.Join(append(errs, conn.Delete(f.at, -1))...)
}
