// Package list reads the locks, and prints them for people and for tools.
package list

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// concurrency is the largest number of nodes that are read concurrently.
const concurrency = 64

// Listing is the result of reading many locks. Locks change meanwhile, so parts that were read
// first can be older than the rest. Each lease is judged by the time at which it was read.
type Listing struct {
	Root  string
	Path  string        // node at and below which the locks were read
	Time  admin.Time    // ensemble time after the last read; Zxid 0: unknown
	Nodes []admin.State // sorted by name
	// Unread are the nodes that could not be read, sorted by path.
	Unread []Unread
	NoRoot bool // Root does not exist: no lock was taken yet, or clients use another root
}

// Unread is a node that could not be read.
type Unread struct {
	Path string
	Err  error
}

// Progress is the progress of a [Read], in nodes. It is safe for concurrent use.
type Progress struct{ Found, Done atomic.Int64 }

// Read reads the named lock and all locks below it; all locks if the name is "". Its only write is
// one that samples ensemble time. It updates progress.
func Read(ctx context.Context, tree admin.Tree, name string, progress *Progress) (Listing, error) {
	if name != "" {
		if err := znode.CheckName(name); err != nil {
			return Listing{}, fmt.Errorf("%w: %w", lock.ErrInvalid, err)
		}
	}
	_, err := tree.Now(ctx) // the reads below judge leases by this sample of ensemble time
	l := Listing{Root: tree.Root(), Path: tree.Path(name), NoRoot: errors.Is(err, zk.ErrNoNode)}
	if err != nil && !errors.Is(err, lock.ErrDenied) && !l.NoRoot {
		return Listing{}, err
	}
	for names := []string{name}; len(names) > 0; {
		var below []string
		states, errs, err := inspect(ctx, tree, names, progress)
		if err != nil {
			return Listing{}, err
		}
		for i, s := range states {
			if errs[i] != nil {
				l.Unread = append(l.Unread, Unread{tree.Path(s.Name), errs[i]})
				continue
			}
			// The root is a lock only if another program uses it as one. A start node that does not exist
			// is not a lock.
			if s.Name != name || s.Kind != "" && name != "" || len(s.Contenders) > 0 {
				l.Nodes = append(l.Nodes, s)
			}
			for _, child := range s.Children {
				below = append(below, strings.TrimPrefix(s.Name+"/"+child, "/"))
			}
		}
		names = below
	}
	l.Time = tree.Estimate()
	slices.SortFunc(l.Nodes, func(a, b admin.State) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Unread, func(a, b Unread) int { return strings.Compare(a.Path, b.Path) })
	return l, nil
}

// InUse returns the listing without nodes that have no contender.
func (l Listing) InUse() Listing {
	l.Nodes = slices.DeleteFunc(slices.Clone(l.Nodes), func(s admin.State) bool { return len(s.Contenders) == 0 })
	return l
}

// Only returns the listing of the locks whose names match. It keeps the unread nodes, which may
// hide matching locks.
func (l Listing) Only(match func(name string) bool) Listing {
	l.Nodes = slices.DeleteFunc(slices.Clone(l.Nodes), func(s admin.State) bool { return !match(s.Name) })
	return l
}

// inspect reads the named locks, several concurrently. errs are those of nodes that cannot be read; after
// any other error it gives up.
func inspect(ctx context.Context, tree admin.Tree, names []string, progress *Progress) (states []admin.State, errs []error, err error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	progress.Found.Add(int64(len(names)))
	states, errs = make([]admin.State, len(names)), make([]error, len(names))
	var workers sync.WaitGroup
	var begun atomic.Int64
	for range min(concurrency, len(names)) {
		workers.Go(func() {
			for i := begun.Add(1) - 1; i < int64(len(names)) && ctx.Err() == nil; i = begun.Add(1) - 1 {
				states[i], errs[i] = tree.Inspect(ctx, names[i])
				if err := errs[i]; err != nil && !errors.Is(err, zk.ErrNoAuth) && !errors.Is(err, lock.ErrInvalid) { // ErrInvalid: not a lock's name
					giveUp(fmt.Errorf("list locks: %w", err))
				}
				progress.Done.Add(1)
			}
		})
	}
	workers.Wait()
	return states, errs, context.Cause(ctx)
}
