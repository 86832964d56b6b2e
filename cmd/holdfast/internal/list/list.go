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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &walk{tree: tree, start: name, progress: progress, fail: cancel}
	w.read(ctx)
	if ctx.Err() != nil {
		return Listing{}, context.Cause(ctx)
	}
	l.Nodes, l.Unread, l.Time = w.nodes, w.unread, tree.Estimate()
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

// walk reads a tree, several nodes concurrently.
type walk struct {
	tree     admin.Tree
	start    string
	progress *Progress
	fail     context.CancelCauseFunc

	mu     sync.Mutex
	found  *sync.Cond // signals new names to read, or the end
	names  []string   // names to read
	open   int        // number of names to read or being read
	nodes  []admin.State
	unread []Unread
}

func (w *walk) read(ctx context.Context) {
	w.found = sync.NewCond(&w.mu)
	w.add(w.start)
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for name, ok := w.next(); ok; name, ok = w.next() {
				w.visit(ctx, name)
				w.done()
			}
		})
	}
	workers.Wait()
}

// add adds names to read, and wakes the waiting workers.
func (w *walk) add(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names = append(w.names, names...)
	w.open += len(names)
	w.progress.Found.Add(int64(len(names)))
	w.found.Broadcast()
}

// next waits for a name to read, and returns it. It returns false when all names have been read.
func (w *walk) next() (name string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.names) == 0 && w.open > 0 {
		w.found.Wait()
	}
	if len(w.names) == 0 {
		return "", false
	}
	last := len(w.names) - 1
	name, w.names = w.names[last], w.names[:last]
	return name, true
}

// done records that a name was read, and wakes the waiting workers after the last name.
func (w *walk) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress.Done.Add(1)
	if w.open--; w.open == 0 {
		w.found.Broadcast()
	}
}

// visit reads a node, and adds its children to the names to read.
func (w *walk) visit(ctx context.Context, name string) {
	if ctx.Err() != nil {
		return
	}
	state, err := w.tree.Inspect(ctx, name)
	switch {
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, lock.ErrInvalid): // ErrInvalid: not a lock's name
		w.mu.Lock()
		w.unread = append(w.unread, Unread{w.tree.Path(name), err})
		w.mu.Unlock()
		return
	case err != nil:
		w.fail(fmt.Errorf("list locks: %w", err))
		return
	}
	// The root is a lock only if another program uses it as one. A start node that does not exist
	// is not a lock.
	if name != w.start || state.Kind != "" && name != "" || len(state.Contenders) > 0 {
		w.mu.Lock()
		w.nodes = append(w.nodes, state)
		w.mu.Unlock()
	}
	below := slices.Clone(state.Children)
	for i, child := range below {
		below[i] = strings.TrimPrefix(name+"/"+child, "/")
	}
	w.add(below...)
}
