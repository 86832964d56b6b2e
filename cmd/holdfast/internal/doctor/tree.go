package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// root checks the node above all locks.
func (e *exam) root(ctx context.Context) error {
	root := e.tree.Root()
	data, stat, err := e.tree.Get(ctx, root)
	e.fine("root-missing", "root-foreign", "acl-denied")
	switch {
	case errors.Is(err, zk.ErrNoNode):
		e.add("root-missing", "there is no node %s", root)
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		e.add("acl-denied", "%s may not be read", root)
		return nil
	case err != nil:
		return err
	}
	if node := znode.ReadNode(data, znode.Stat(*stat)); node.Err != nil {
		e.add("root-foreign", "%s holds data that is not Holdfast's: %v", root, node.Err)
	}
	e.fine("quota-exceeded")
	if _, err := e.tree.Now(ctx); overQuota(err) {
		e.add("quota-exceeded", "a quota refuses new nodes below %s: %s", root, oneLine(err))
	} else if errors.Is(err, lock.ErrDenied) {
		e.add("acl-denied", "an ACL forbids to create and delete nodes below %s: %s", root, oneLine(err))
	} else if err != nil {
		return err
	}
	return nil
}

// overQuota reports whether a server has refused a request because of a quota. go-zookeeper has no error
// for that, so its text tells.
func overQuota(err error) bool { return err != nil && strings.Contains(err.Error(), "quota") }

// sweep checks the whole tree, by a sweep of the reaper that deletes nothing.
func (e *exam) sweep(ctx context.Context) error {
	options := app.ReaperOptions(e.Config)
	options.Log, options.DryRun = &e.Log, true
	r, err := reaper.New(e.locks, options)
	if err != nil {
		return err
	}
	report, err := r.Sweep(ctx)
	if err != nil && !report.Complete && report.Skipped == "" {
		return err
	}
	if report.Skipped != "" {
		return fmt.Errorf("the tree was not looked at: %s", report.Skipped)
	}
	t := report.Total
	e.fine("left-behind", "undecodable", "foreign-nodes", "unreadable", "counter-worn", "entries-copied")
	if t.Expired+t.Orphans+t.Ancestors+t.Stale > 0 {
		planned := paths(report.Planned, func(p reaper.Planned) string { return p.Path })
		denied, err := e.undeletable(ctx, planned)
		if err != nil {
			return err
		}
		if len(denied) > 0 {
			e.addNodes("acl-delete", denied, "an ACL does not let this user delete %s past their time", text.Count(len(denied), "node", "nodes"))
		}
		if len(denied) < len(planned) {
			e.addNodes("left-behind", planned, "%s, %s, %s and %s past their time",
				text.Count(t.Expired, "expired entry", "expired entries"), text.Count(t.Orphans, "empty parent", "empty parents"),
				text.Count(t.Ancestors, "empty ancestor", "empty ancestors"), text.Count(t.Stale, "stale release request", "stale release requests"))
		}
	}
	e.fine("acl-delete")
	if t.Undecodable > 0 {
		e.addNodes("undecodable", report.Undecodable, "%s cannot be read", text.Count(t.Undecodable, "entry", "entries"))
	}
	if t.Worn > 0 {
		e.addNodes("counter-worn", report.Worn, "%s used up more than half of the counter of its entries", text.Count(t.Worn, "lock has", "locks have"))
	}
	if t.Copied > 0 {
		e.addNodes("entries-copied", report.Copied, "%s copied with a lock's node", text.Count(t.Copied, "entry was", "entries were"))
	}
	if t.Foreign > 0 {
		e.add("foreign-nodes", "%s of other programs below %s", text.Count(t.Foreign, "node", "nodes"), e.tree.Root())
	}
	if t.Denied > 0 {
		e.addNodes("unreadable", paths(report.Denied, func(d reaper.Denial) string { return d.Path }), "an ACL forbids %s", text.Count(t.Denied, "node", "nodes"))
	}
	e.tell("%s with %s below %s, read in %v", text.Count(t.Locks, "lock", "locks"), text.Count(t.Live, "live entry", "live entries"), e.tree.Root(), report.Duration.Round(time.Millisecond))
	return nil
}

// paths returns the paths of all.
func paths[T any](all []T, path func(T) string) (found []string) {
	for _, one := range all {
		found = append(found, path(one))
	}
	return found
}

// addNodes adds a finding about nodes. What ends with the first paths, and Nodes has all of them.
func (e *exam) addNodes(id string, nodes []string, what string, args ...any) {
	text := fmt.Sprintf(what, args...)
	if len(nodes) > 0 {
		text += ": " + strings.Join(nodes[:min(len(nodes), named)], ", ")
	}
	if more := len(nodes) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	f := find(id, "%s", text)
	f.Nodes = nodes
	e.Findings = append(e.Findings, f)
}

// access looks for nodes that any client may change although there are credentials: the nodes above the
// root, and the root, the locks and their entries; of more than mostACLs, that many.
func (e *exam) access(ctx context.Context, l list.Listing) error {
	if e.Config.ZooKeeper.Auth == nil && e.Config.ZooKeeper.SASL == nil {
		e.tell("ACLs were not looked at: without zookeeper.auth or zookeeper.sasl, any client may change the nodes that this user makes")
		return nil
	}
	e.fine("acl-open", "acl-open-above")
	var above []string
	for node := l.Root; node != "/"; {
		node = path.Dir(node)
		above = append(above, node)
	}
	open, _, err := e.open(ctx, above)
	if err != nil {
		return err
	}
	if len(open) > 0 {
		e.addNodes("acl-open-above", open, "zookeeper.auth or zookeeper.sasl names a user, and any client may change %s above the root", text.Count(len(open), "node", "nodes"))
	}
	nodes := []string{l.Root}
	if _, _, err := e.tree.Get(ctx, e.tree.Path(znode.Inbox)); err == nil {
		nodes = append(nodes, e.tree.Path(znode.Inbox))
	}
	for _, s := range l.Nodes {
		nodes = append(nodes, e.tree.Path(s.Name))
		for _, c := range s.Contenders {
			nodes = append(nodes, c.Path)
		}
	}
	for _, u := range l.Unread { // perhaps only an entry below it
		nodes = append(nodes, u.Path)
	}
	chosen := ""
	if len(nodes) > mostACLs {
		chosen = fmt.Sprintf(", the root and others chosen at random from %d", len(nodes))
		rest := nodes[1:]
		rand.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
		nodes = nodes[:mostACLs]
		slices.Sort(nodes)
	}
	open, read, err := e.open(ctx, nodes)
	if err != nil {
		return err
	}
	looked := fmt.Sprintf("of %s looked at%s", text.Count(read, "node", "nodes"), chosen)
	if len(open) > 0 {
		e.addNodes("acl-open", open, "zookeeper.auth or zookeeper.sasl names a user, and any client may change %d %s", len(open), looked)
	} else if read > 0 {
		e.tell("no client without credentials may change any %s", looked)
	}
	return nil
}

// open returns those of the nodes that any client may change, and the number of ACLs that it has read: not
// of nodes that are gone, nor of those whose ACL this user may not read.
func (e *exam) open(ctx context.Context, nodes []string) (open []string, read int, err error) {
	acls := make([][]zk.ACL, len(nodes))
	errs := each(nodes, func(i int) (err error) {
		acls[i], err = e.tree.ACL(ctx, nodes[i])
		return err
	})
	for i, node := range nodes {
		switch err := errs[i]; {
		case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return nil, 0, err
		case slices.ContainsFunc(acls[i], letsAllChange):
			open = append(open, node)
		}
		read++
	}
	return open, read, nil
}

// each calls do with the index of each node, several concurrently, and returns the errors.
func each(nodes []string, do func(i int) error) []error {
	errs := make([]error, len(nodes))
	slots := make(chan struct{}, reaper.DefaultConcurrency)
	var doing sync.WaitGroup
	for i := range nodes {
		slots <- struct{}{}
		doing.Go(func() {
			errs[i] = do(i)
			<-slots
		})
	}
	doing.Wait()
	return errs
}

// letsAllChange reports whether a lets any client change a node, whatever its user.
func letsAllChange(a zk.ACL) bool {
	return a.Scheme == "world" && a.Perms&(zk.PermWrite|zk.PermCreate|zk.PermDelete|zk.PermAdmin) != 0
}

// undeletable returns the nodes that an ACL does not let this user delete. It deletes nothing: it asks
// for a version that no node has, and the server looks at the ACL first. That is the ACL of the node
// above, so undeletable asks once for all nodes below the same one.
func (e *exam) undeletable(ctx context.Context, nodes []string) ([]string, error) {
	samples := map[string]string{}
	for _, node := range nodes {
		samples[path.Dir(node)] = node
	}
	asked := slices.Collect(maps.Values(samples))
	errs := each(asked, func(i int) error {
		return e.tree.Delete(ctx, []admin.Deletion{{Path: asked[i], Version: math.MaxInt32}})
	})
	denied := map[string]bool{}
	for i, node := range asked {
		switch err := errs[i]; {
		case errors.Is(err, zk.ErrNoAuth):
			denied[path.Dir(node)] = true
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNotEmpty):
		case err != nil:
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return !denied[path.Dir(node)] }), nil
}

// reaper checks whether a process holds the reaper's lock. A reaper that has crashed leaves an expired
// entry, which does not count.
func (e *exam) reaper(ctx context.Context) error {
	name := cmp.Or(e.Config.Reaper.Lock, reaper.DefaultLock)
	s, err := e.tree.Inspect(ctx, name)
	if errors.Is(err, zk.ErrNoAuth) {
		return nil
	}
	e.fine("reaper-absent")
	grace := e.Config.Policies.For(name).Grace
	lives := func(c admin.Contender) bool {
		return !c.Ours || c.Read.Zxid == 0 || c.Read.Earliest().Before(c.Expires.Add(grace))
	}
	if err == nil && !slices.ContainsFunc(s.Contenders, lives) {
		e.add("reaper-absent", "no process holds %s, the lock of the reaper", name)
	}
	return err
}

// holders looks for entries with a longer TTL than their policies permit, for entries that never go, and
// for nodes that any client may change.
func (e *exam) holders(ctx context.Context) error {
	l, err := list.Read(ctx, e.tree, "", new(list.Progress))
	if err != nil {
		return err
	}
	if err := e.access(ctx, l); err != nil {
		return err
	}
	e.fine("ttl-over-max", "foreign-stuck")
	var stuck []string
	over, firstOf := map[string]int{}, map[string]string{}
	for _, s := range l.Nodes {
		p := e.Config.Policies.For(s.Name)
		for _, c := range s.Contenders {
			if !c.Ours && c.Err == nil && c.Session == 0 {
				stuck = append(stuck, c.Path)
			}
			if !c.Ours || c.TTL <= p.MaxTTL {
				continue
			}
			if over[p.Name]++; over[p.Name] == 1 {
				firstOf[p.Name] = fmt.Sprintf("%v at %s", c.TTL, c.Path)
			}
		}
	}
	if len(stuck) > 0 {
		e.addNodes("foreign-stuck", stuck, "%s of other libraries without a session", text.Count(len(stuck), "entry", "entries"))
	}
	for _, name := range slices.Sorted(maps.Keys(over)) {
		e.add("ttl-over-max", "%s with a longer TTL than max_ttl of policy %q, the first %s", text.Count(over[name], "entry", "entries"), name, firstOf[name])
	}
	return nil
}
