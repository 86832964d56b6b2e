package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/revoke"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Contender is an entry of a lock, from a single read.
type Contender struct {
	Path  string     // path of the entry
	Token lock.Token // its fencing token, if it is granted
	Read  Time       // ensemble time just before the read; Zxid 0: unknown, see [Tree.Now]
	// Ours is false for an entry of another library or of a newer version, and for a
	// damaged one. Then the fields below are unset, except Err.
	Ours bool
	// Session is the session that owns the entry's node; 0: none does, so the node stays until it is
	// deleted. Entries of Holdfast have none.
	Session int64
	// Err says why an entry with a Holdfast name cannot be decoded: [znode.ErrNewer], or
	// [znode.ErrForeign] for a damaged one. An entry with an Err blocks the
	// lock while it exists.
	Err error
	// The entry's record has Owner, Host, PID and Metadata.
	Owner    string
	Host     string
	PID      int
	Metadata map[string]string
	Shares   bool          // a writer's entry that was downgraded: it only reads
	TTL      time.Duration // length of the lease after each write
	Acquired time.Time     // ensemble time of the grant; zero until the client has recorded it
	Detached bool          // no process has it: a client may attach to it
	// Broken names the client that force-released the hold, and its reason, see [Tree.Break]. It is
	// "" if no client did.
	Broken string
	// Expires is the end of the lease unless the owner renews it, in ensemble time: by the clock of the
	// leader at the read.
	Expires time.Time
}

// State is the state of a lock, read node by node: if the lock is in use, its parts may be from
// slightly different times.
type State struct {
	Name       string      // "" for the root
	Kind       znode.Kind  // "" if the node is missing, or foreign
	Permits    int         // present number of permits; 0: no semaphore
	Contenders []Contender // entries in the order of their turn
	Children   []string    // names of nested locks and of other programs' nodes
	Foreign    error       // why clients refuse the node: it is another program's, damaged or newer; else nil
}

// Inspect reads a lock. A missing lock has no contenders. Names are as for [lock.Client.Mutex]; ""
// inspects the root. Inspect takes no sample of ensemble time. Call [Tree.Now] before, so that
// [Contender.Read] is known.
func (t Tree) Inspect(ctx context.Context, name string) (State, error) {
	s := State{Name: name}
	if err := t.check(ctx); err != nil {
		return s, err
	}
	if name != "" {
		if err := znode.CheckName(name); err != nil {
			return s, fmt.Errorf("%w: %w", lock.ErrInvalid, err)
		}
	}
	err := t.inspect(ctx, &s)
	return s, err
}

// inspect reads the lock of that name into s.
func (t Tree) inspect(ctx context.Context, s *State) error {
	path := t.Path(s.Name)
	n, err := t.c.Conn.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	parent, err := znode.DecodeParent(n.Data)
	switch {
	case n.Stat.EphemeralOwner != 0:
		s.Foreign = fmt.Errorf("%s is an ephemeral node", path)
	case err != nil:
		s.Foreign = fmt.Errorf("%s: %w", path, err)
	default:
		rules, err := revoke.Rules(ctx, t.c.Conn, path, parent)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("read the anchor below %s: %w", path, err)
		}
		s.Kind, s.Permits = parent.Kind, int(rules.Capacity)
	}
	if n.Stat.NumChildren == 0 {
		return nil
	}
	children, _, err := t.c.Conn.Children(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("list %s: %w", path, err)
	}
	for _, n := range children {
		kept := znode.Reserved(n) && s.Name == ""
		_, entry := znode.Parse(n)
		_, anchor := znode.AnchorOf(n)
		if !entry && !anchor && !kept {
			s.Children = append(s.Children, n)
		}
	}
	for _, n := range znode.Contenders(children) {
		c, err := t.contender(ctx, path+"/"+n.Node, n)
		if errors.Is(err, zk.ErrNoNode) {
			continue // it was deleted after the list
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path+"/"+n.Node, err)
		}
		s.Contenders = append(s.Contenders, c)
	}
	return nil
}

func (t Tree) contender(ctx context.Context, path string, name znode.Name) (Contender, error) {
	read := t.Estimate() // before the read: if the lease has ended at that time, it was not renewed in time
	n, err := t.c.Conn.Get(ctx, path)
	if err != nil {
		return Contender{}, err
	}
	e := znode.ReadEntry(name, n.Data, znode.Stat(*n.Stat))
	c := Contender{Path: path, Read: read, Session: n.Stat.EphemeralOwner, Token: TokenOf(&e)}
	if !e.Leased() {
		if e.Ours() {
			c.Err = e.Err
		}
		return c, nil
	}
	r := &e.Record
	c.Ours, c.Owner, c.Host, c.PID, c.Metadata = true, r.Owner, r.Host, r.PID, r.Metadata
	c.TTL, c.Expires, c.Shares, c.Detached = e.TTL(), e.Expires(read), e.Shares(), r.Detached
	if r.Broken != nil {
		c.Broken = r.Broken.String()
	}
	if r.Granted() {
		c.Acquired = time.UnixMilli(r.AcquiredAt)
	}
	return c, nil
}
