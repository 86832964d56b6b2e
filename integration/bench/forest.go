package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// forest is many locks, each with the entry of one holder, below a root of their
// own. No client holds them: their entries last for the TTL that they carry.
type forest struct {
	trees  int
	nested bool // in directories, as many as each has trees
	ttl    time.Duration

	at      string // the root; "" before it is made
	planted bool
}

// root returns the path below which the trees stand.
func (f *forest) root(b *bench) string {
	if f.at == "" {
		f.at = b.newPath()
	}
	return f.at
}

// perDir is how many trees a directory has: all if they are flat.
func (f *forest) perDir() int {
	if !f.nested {
		return f.trees
	}
	return int(math.Ceil(math.Sqrt(float64(f.trees))))
}

// dirs is how many directories there are below the root.
func (f *forest) dirs() int {
	if !f.nested {
		return 0
	}
	return (f.trees + f.perDir() - 1) / f.perDir()
}

// nodes is how many nodes a sweep deletes below the root; anchors are not counted.
func (f *forest) nodes() int { return 2*f.trees + f.dirs() }

// tree returns the paths of a lock and of its one entry. They are known beforehand,
// so that the bench need not store, or read, a million of them.
func (f *forest) tree(i int) (at, entry string) {
	at = fmt.Sprintf("%s/job%07d", f.dir(i), i)
	return at, at + "/" + znode.Predict(znode.Prefix(generation(i), znode.Exclusive), entrySequence)
}

// anchor returns the path of a tree's anchor.
func (f *forest) anchor(i int) string {
	at, _ := f.tree(i)
	return at + "/" + znode.Anchor(generation(i))
}

// entrySequence is that of a tree's entry: the anchor was made before it.
const entrySequence = 1

// generation is that of a tree.
func generation(tree int) string { return znode.FormatID(uint64(tree)) }

// dir returns the path that the tree stands in.
func (f *forest) dir(tree int) string {
	if !f.nested {
		return f.at
	}
	return fmt.Sprintf("%s/d%05d", f.at, tree/f.perDir())
}

// What is planted and felled at once: trees in a transaction, and transactions.
const (
	treesAtOnce = 250
	gardeners   = 4
)

// garden has the work done on all trees, treesAtOnce at a time: from the first one
// to before the end.
func (f *forest) garden(work func(first, end int) error) error {
	return together(gardeners, func(g int) error {
		for first := g * treesAtOnce; first < f.trees; first += gardeners * treesAtOnce {
			if err := work(first, min(first+treesAtOnce, f.trees)); err != nil {
				return err
			}
		}
		return nil
	})
}

// plant makes the trees, unless they are there. If they do not live long it waits
// until they, and the directories, are old enough to be deleted.
func (f *forest) plant(ctx context.Context, b *bench) error {
	if f.planted {
		return nil
	}
	acl := zk.WorldACL(zk.PermAll)
	if _, err := b.zookeeper.look.conn.Create(f.root(b), nil, 0, acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	dir := znode.Parent{Kind: znode.Dir}.Encode()
	for i := range f.dirs() {
		if _, err := b.zookeeper.look.conn.Create(f.dir(i*f.perDir()), dir, 0, acl); err != nil {
			return err
		}
	}
	record := znode.Record{Owner: "bench", Host: "bench.example.com", PID: 12345, TTL: f.ttl.Milliseconds(), ExpiresAt: 1, AcquiredAt: 1}
	data, anchor := record.Encode(), znode.AnchorData{}.Encode()
	err := f.garden(func(first, end int) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var ops []any
		for i := first; i < end; i++ {
			at, entry := f.tree(i)
			ops = append(ops,
				&zk.CreateRequest{Path: at, Data: znode.Parent{Kind: znode.Mutex, Generation: generation(i)}.Encode(), Acl: acl},
				&zk.CreateRequest{Path: f.anchor(i), Data: anchor, Acl: acl},
				&zk.CreateRequest{Path: strings.TrimSuffix(entry, "0000000001"), Data: data, Acl: acl, Flags: zk.FlagSequence})
		}
		_, err := b.zookeeper.look.conn.Multi(ops...)
		return err
	})
	if err != nil {
		return fmt.Errorf("plant trees: %w", err)
	}
	f.planted = true
	if f.ttl > time.Second {
		return nil
	}
	return f.ripen(ctx, b)
}

// ripen waits until what was planted is expired.
func (f *forest) ripen(ctx context.Context, b *bench) (err error) {
	c, err := lock.Dial(ctx, []string{b.server.Addr()}, lock.WithRoot(f.at), lock.WithSessionTimeout(sessionTimeout))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	planted, err := admin.New(c).Now(ctx)
	if err != nil {
		return err
	}
	end := planted.Latest().Add(f.ttl + lock.MinGrace + policy.MinOrphanAfter)
	return await(ctx, "the trees are old enough", func() (bool, error) { return admin.New(c).Estimate().Earliest().After(end), nil })
}

// read lists every tree and reads its entry, with many requests in flight, and
// returns how many entries that were.
func (f *forest) read(conn *zk.Conn) (int, error) {
	trees := make(chan string, inFlight)
	failed := make(chan struct{})
	var fail sync.Once
	var read atomic.Int64
	readers := make(chan error, 1)
	go func() {
		readers <- together(inFlight, func(int) error {
			for at := range trees {
				entries, _, err := conn.Children(at)
				for i := 0; i < len(entries) && err == nil; i++ {
					if _, anchor := znode.AnchorOf(entries[i]); anchor {
						continue
					}
					_, _, err = conn.Get(at + "/" + entries[i])
					read.Add(1)
				}
				if err != nil {
					fail.Do(func() { close(failed) })
					return err
				}
			}
			return nil
		})
	}()
	err := f.list(conn, trees, failed)
	close(trees)
	err = errors.Join(err, <-readers)
	return int(read.Load()), err
}

// passes is how often a forest is read in a turn: the first time after it was planted is
// slower.
func (f *forest) passes() int {
	if f.trees > mostDeleted {
		return 1 // takes long enough
	}
	return 5
}

// medianPass has the forest read so often, and returns how many seconds that took.
func (f *forest) medianPass(read func() (float64, error)) (float64, error) {
	var took []float64
	for range f.passes() {
		one, err := read()
		if err != nil {
			return 0, err
		}
		took = append(took, one)
	}
	return median(took), nil
}

// list sends the paths of all trees.
func (f *forest) list(conn *zk.Conn, trees chan<- string, failed <-chan struct{}) error {
	dirs := []string{""}
	if f.nested {
		var err error
		if dirs, _, err = conn.Children(f.at); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		dir = path.Join(f.at, dir)
		names, _, err := conn.Children(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			select {
			case trees <- dir + "/" + name:
			case <-failed:
				return nil // the readers say why
			}
		}
	}
	return nil
}

// fell deletes the forest, if it is there, and its root.
func (f *forest) fell(conn *zk.Conn) error {
	if f.at == "" {
		return nil
	}
	if f.planted {
		err := f.garden(func(first, end int) error {
			var ops []any
			for i := first; i < end; i++ {
				at, entry := f.tree(i)
				ops = append(ops, &zk.DeleteRequest{Path: entry, Version: -1}, &zk.DeleteRequest{Path: f.anchor(i), Version: -1}, &zk.DeleteRequest{Path: at, Version: -1})
			}
			_, err := conn.Multi(ops...)
			return err
		})
		if err != nil {
			return fmt.Errorf("fell trees: %w", err)
		}
		if err := f.fellDirs(conn); err != nil {
			return err
		}
	}
	at := f.at
	f.at, f.planted = "", false
	return conn.Delete(at, -1)
}

// fellDirs deletes the directories, which must be empty.
func (f *forest) fellDirs(conn *zk.Conn) error {
	for i := range f.dirs() {
		if err := conn.Delete(f.dir(i*f.perDir()), -1); err != nil {
			return err
		}
	}
	return nil
}
