package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Limits of the reads for viewers. If a pass has left out nodes, the answer is marked as truncated.
const (
	maxNodes   = 20_000 // nodes that a pass visits
	maxEntries = 3      // entries of each lock that a pass reads: the first ones
	maxQueue   = 200    // entries that are read for a single lock
	walkers    = 8      // reads in flight, half of a sweep's default
)

// The states of an entry. A lock has the state of its first entry.
const (
	Free     = "free"     // of a lock: it has no entry
	Held     = "held"     // the entry holds the lock, and its lease has not ended
	Waiting  = "waiting"  // an entry ahead excludes this entry
	Entering = "entering" // no entry ahead excludes this entry; its grant is not recorded yet
	Expired  = "expired"  // the lease of the entry has ended; the entry is deleted after the grace
	Foreign  = "foreign"  // the entry is of another library, or ephemeral
	Damaged  = "damaged"  // the entry or the lock's node is damaged or of a newer version
	Denied   = "denied"   // an ACL forbids to read the entry or the lock's node
)

// Lock is a lock, from a recent read.
type Lock struct {
	Root    string  `json:"root"` // name of the lock's root, or the root's path
	Name    string  `json:"name"`
	Policy  string  `json:"policy"`
	Kind    string  `json:"kind,omitempty"`    // kind of the lock, such as "mutex" or "rw"; "" if it is unknown
	Permits int     `json:"permits,omitempty"` // number of permits of a semaphore, otherwise 0
	State   string  `json:"state"`             // state of the first entry; Free, Damaged or Denied without one
	Held    int     `json:"held"`              // number of entries that hold the lock
	Expired int     `json:"expired"`           // number of entries that are in, but whose lease has ended, of those that were read
	Waiting int     `json:"waiting"`           // number of entries that wait
	Age     int64   `json:"age_ms"`            // time since the read, in milliseconds
	Entries []Entry `json:"entries"`           // the first entries, in the order of the queue

	read time.Time // just before the read
}

// Entry is an entry of a lock. Of a foreign or damaged entry only State, In, Token and Session are set; of a
// denied entry only State and In.
type Entry struct {
	State string `json:"state"` // one of the states above
	In    bool   `json:"in"`    // no entry ahead excludes this entry
	Token string `json:"token"`
	Role  string `json:"role,omitempty"`
	Owner string `json:"owner,omitempty"`
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	TTL   int64  `json:"ttl_ms,omitempty"`
	// Left is the rest of the lease at the read, in milliseconds; negative after the lease's end. It
	// is nil if the leader's clock is unknown.
	Left     *int64            `json:"left_ms,omitempty"`
	Acquired string            `json:"acquired_at,omitempty"` // ensemble time of the recorded grant; "" if there is none
	Detached bool              `json:"detached,omitempty"`
	Asked    *Asked            `json:"asked,omitempty"`    // pending request to release it; only in /api/v1/lock
	Session  string            `json:"session,omitempty"`  // session of a foreign entry's node; "": none, so that it stays
	Metadata map[string]string `json:"metadata,omitempty"` // nil without the option Metadata

	node string // name of the node; "" of one that is not Holdfast's
}

// Asked is a request to release a lock.
type Asked struct {
	Owner  string    `json:"owner"`
	Host   string    `json:"host,omitempty"`
	PID    int       `json:"pid,omitempty"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// requests reads the pending requests to release the entries of a lock that are in.
func (r reader) requests(ctx context.Context, l *Lock) error {
	for i := range l.Entries {
		e := &l.Entries[i]
		if !e.In || e.node == "" {
			continue
		}
		asked, err := r.tree.Revocation(ctx, e.node)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		case err != nil:
			return err
		case asked.Err == nil && !asked.Stale:
			e.Asked = &Asked{asked.Owner, asked.Host, asked.PID, time.UnixMilli(asked.Stat.Mtime).UTC(), asked.Reason}
		}
	}
	return nil
}

// roles are the names of the roles of a read/write lock's entries. Other entries have none.
var roles = map[znode.Role]string{znode.Shared: "read", znode.Writer: "write"}

// reader has the settings for reading locks.
type reader struct {
	label    string // label of the root
	tree     admin.Tree
	policies *policy.Set
	metadata bool
}

// lock reads a lock with up to most of its first entries. It also returns the names of the children
// that are neither entries nor anchors. If the node is no lock or does not exist, the lock is nil.
func (r reader) lock(ctx context.Context, name string, most int) (*Lock, []string, error) {
	path := r.tree.Path(name)
	l := &Lock{Root: r.label, Name: name, Policy: r.policies.For(name).Name, Entries: []Entry{}, read: time.Now()}
	data, stat, err := r.tree.Get(ctx, path)
	if err != nil {
		return l.unread(err)
	}
	node := znode.ReadNode(data, znode.Stat(*stat))
	var children []string
	if stat.NumChildren > 0 {
		if children, _, err = r.tree.Children(ctx, path); err != nil {
			return l.unread(err)
		}
	}
	names := znode.Contenders(children)
	nested := slices.DeleteFunc(children, func(child string) bool {
		_, entry := znode.Parse(child)
		_, anchor := znode.AnchorOf(child)
		return entry || anchor || name == "" && znode.Reserved(child)
	})
	if len(names) == 0 && (!node.Ours() || node.Kind == znode.Dir) && !errors.Is(node.Err, znode.ErrNewer) {
		return nil, nested, nil // the node is an ancestor, or foreign
	}
	var rules znode.Rules
	if node.Err == nil {
		rules, err = r.tree.Rules(ctx, path, node.Parent)
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			return l.unread(err)
		case err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, znode.ErrForeign) && !errors.Is(err, znode.ErrNewer):
			return nil, nil, err
		}
		l.Kind, l.Permits = string(node.Kind), int(rules.Capacity)
	}
	shares := map[string]bool{}
	for _, n := range names[:min(most, len(names))] {
		e, shared, err := r.entry(ctx, path+"/"+n.Node, n)
		switch {
		case errors.Is(err, zk.ErrNoNode): // deleted since the list
			continue
		case err != nil && !errors.Is(err, zk.ErrNoAuth):
			return l, nil, err
		}
		shares[n.Node] = shared
		l.Entries = append(l.Entries, e)
	}
	in := len(znode.Holders(names, rules, func(n znode.Name) bool { return shares[n.Node] }))
	l.Held, l.Waiting = in, len(names)-in
	for i := range l.Entries {
		e := &l.Entries[i]
		e.In = i < in
		switch {
		case e.In && e.State == Expired:
			l.Held, l.Expired = l.Held-1, l.Expired+1
		case !e.In && e.State == Entering:
			e.State = Waiting
		}
	}
	l.State = Free
	switch {
	case errors.Is(node.Err, znode.ErrNewer):
		l.State = Damaged
	case len(l.Entries) > 0:
		l.State = l.Entries[0].State
	}
	return l, nested, nil
}

// unread handles the error of reading a lock's node. If an ACL denies the read, it returns the lock
// with the state Denied. If the node does not exist, it returns neither a lock nor an error. It returns
// any other error.
func (l *Lock) unread(err error) (*Lock, []string, error) {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil, nil
	case errors.Is(err, zk.ErrNoAuth):
		l.State = Denied
		return l, nil, nil
	}
	return nil, nil, err
}

// entry reads an entry. shares means that a writer has downgraded the entry to reading. If the read
// fails, the state is Denied, and err is the error.
func (r reader) entry(ctx context.Context, path string, name znode.Name) (e Entry, shares bool, err error) {
	data, stat, err := r.tree.Get(ctx, path)
	if err != nil {
		return Entry{State: Denied}, false, err
	}
	read := znode.ReadEntry(name, data, znode.Stat(*stat))
	e.Token = admin.TokenOf(&read).String()
	switch {
	case !name.Ours() || stat.EphemeralOwner != 0:
		e.State = Foreign
		if stat.EphemeralOwner != 0 {
			e.Session = fmt.Sprintf("0x%x", uint64(stat.EphemeralOwner))
		}
		return e, false, nil
	case read.Err != nil:
		e.State = Damaged
		return e, false, nil
	}
	e.node = name.Node
	rec := &read.Record
	e.Role, e.Owner, e.Host, e.PID, e.Detached = roles[name.Role], rec.Owner, rec.Host, rec.PID, rec.Detached
	e.TTL = rec.TTL
	if r.metadata {
		e.Metadata = rec.Metadata
	}
	e.State = Entering
	if rec.Granted() {
		e.State, e.Acquired = Held, time.UnixMilli(rec.AcquiredAt).UTC().Format(time.RFC3339Nano)
	}
	if left, known := left(&read, r.tree.Estimate()); known {
		ms := left.Milliseconds()
		e.Left = &ms
		if left < 0 {
			e.State = Expired
		}
	}
	return e, read.Shares(), nil
}

// left returns the rest of an entry's lease, only for display. known is false if the leader's clock is
// unknown.
func left(e *znode.Entry, now admin.Time) (left time.Duration, known bool) {
	if now.Zxid == 0 || znode.Epoch(e.Stat.Mzxid) > znode.Epoch(now.Zxid) {
		return 0, false
	}
	return min(e.TTL(), e.Expires(now).Sub(now.Earliest())), true
}

// reading is one pass over all locks below a root.
type reading struct {
	reader
	most    int64        // largest number of nodes to read
	visited atomic.Int64 // nodes read, and nodes left out because of most

	begun   time.Time
	session <-chan struct{} // closed when the session may have been lost since begun; nil: unknown
	done    chan struct{}   // closed when the pass has ended

	mu    sync.Mutex
	locks []*Lock
	ended time.Time
	err   error
}

// run walks the tree, with up to walkers reads in flight.
func (r *reading) run(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	more := make(chan struct{}, walkers-1)
	var others sync.WaitGroup
	var visit func(name string)
	visit = func(name string) {
		if ctx.Err() != nil || r.visited.Add(1) > r.most {
			return
		}
		l, nested, err := r.lock(ctx, name, maxEntries)
		if err != nil {
			cancel(err)
			return
		}
		if l != nil {
			r.mu.Lock()
			r.locks = append(r.locks, l)
			r.mu.Unlock()
		}
		slices.Sort(nested)
		for _, child := range nested {
			if name != "" {
				child = name + "/" + child
			}
			if znode.CheckName(child) != nil {
				continue // no lock can have this name
			}
			select {
			case more <- struct{}{}:
				others.Go(func() {
					defer func() { <-more }()
					visit(child)
				})
			default:
				visit(child)
			}
		}
	}
	visit("")
	others.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.locks, func(a, b *Lock) int { return strings.Compare(a.Name, b.Name) })
	r.ended, r.err = time.Now(), context.Cause(ctx)
	close(r.done)
}

// view returns the locks that have been read so far, whether the pass has ended without an error, and
// whether nodes were left out because of most.
func (r *reading) view() (locks []*Lock, complete, truncated bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.locks), !r.ended.IsZero() && r.err == nil, r.visited.Load() > r.most
}
