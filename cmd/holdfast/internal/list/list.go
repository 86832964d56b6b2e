// Package list reads what locks there are, and prints it for people and for tools.
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

// concurrency is how many locks are read at a time: enough to keep one connection
// busy.
const concurrency = 64

// Listing is what was read. Locks change meanwhile, so those that were read first
// can be older than the rest: each lease is judged by the time at which it was read.
type Listing struct {
	Root  string
	Path  string        // at and below which
	Time  admin.Time    // ensemble time after the last read; the zero Zxid: it could not be had
	Nodes []admin.State // sorted by name
	// Unread are the nodes that could not be read, sorted by path.
	Unread []Unread
	NoRoot bool // there is no root: no lock has been taken yet, or it is another one
}

// Unread is a node that could not be read.
type Unread struct {
	Path string
	Err  error
}

// Progress is how far a [Read] is, in nodes. It is safe for concurrent use.
type Progress struct{ Found, Done atomic.Int64 }

// Read reads the named lock and all locks below it; all there are if the name is
// "". It writes nothing, but takes a sample of ensemble time. Progress tells how far it is.
func Read(ctx context.Context, tree admin.Tree, name string, progress *Progress) (Listing, error) {
	if name != "" {
		if err := znode.CheckName(name); err != nil {
			return Listing{}, fmt.Errorf("%w: %w", lock.ErrInvalid, err)
		}
	}
	_, err := tree.Now(ctx) // by which each lease is judged as it is read
	l := Listing{Root: tree.Root(), Path: tree.Path(name), NoRoot: errors.Is(err, zk.ErrNoNode)}
	if err != nil && !errors.Is(err, lock.ErrDenied) && !l.NoRoot {
		return Listing{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &walk{tree: tree, start: name, progress: progress, fail: cancel, more: make(chan struct{}, concurrency-1)}
	progress.Found.Add(1)
	w.visit(ctx, name)
	w.workers.Wait()
	if ctx.Err() != nil {
		return Listing{}, context.Cause(ctx)
	}
	l.Nodes, l.Unread, l.Time = w.nodes, w.unread, tree.Estimate()
	slices.SortFunc(l.Nodes, func(a, b admin.State) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Unread, func(a, b Unread) int { return strings.Compare(a.Path, b.Path) })
	return l, nil
}

// InUse returns the listing without the nodes that have no contender.
func (l Listing) InUse() Listing {
	l.Nodes = slices.DeleteFunc(slices.Clone(l.Nodes), func(s admin.State) bool { return len(s.Contenders) == 0 })
	return l
}

// Only returns the listing of the locks whose names match. What could not be read stays:
// it may hide some.
func (l Listing) Only(match func(name string) bool) Listing {
	l.Nodes = slices.DeleteFunc(slices.Clone(l.Nodes), func(s admin.State) bool { return !match(s.Name) })
	return l
}

// walk reads a tree, several nodes at a time.
type walk struct {
	tree     admin.Tree
	start    string
	progress *Progress
	fail     context.CancelCauseFunc
	more     chan struct{} // a token for each worker beside the first
	workers  sync.WaitGroup

	mu     sync.Mutex
	nodes  []admin.State
	unread []Unread
}

// visit reads a node and all below it.
func (w *walk) visit(ctx context.Context, name string) {
	defer w.progress.Done.Add(1)
	if ctx.Err() != nil {
		return
	}
	state, err := w.tree.Inspect(ctx, name)
	switch {
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, lock.ErrInvalid): // no lock can have this name, or one below it
		w.mu.Lock()
		w.unread = append(w.unread, Unread{w.tree.Path(name), err})
		w.mu.Unlock()
		return
	case err != nil:
		w.fail(fmt.Errorf("list locks: %w", err))
		return
	}
	// The root is no lock unless another program makes it one; nor is what was asked
	// for if it is not there.
	if name != w.start || state.Kind != "" && name != "" || len(state.Contenders) > 0 {
		w.mu.Lock()
		w.nodes = append(w.nodes, state)
		w.mu.Unlock()
	}
	w.progress.Found.Add(int64(len(state.Children)))
	for _, child := range state.Children {
		if name != "" {
			child = name + "/" + child
		}
		select {
		case w.more <- struct{}{}:
			w.workers.Go(func() {
				defer func() { <-w.more }()
				w.visit(ctx, child)
			})
		default:
			w.visit(ctx, child)
		}
	}
}
