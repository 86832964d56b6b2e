package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// root checks the node above all locks, and its ACL.
func (e *exam) root(ctx context.Context) error {
	root := e.tree.Root()
	data, stat, err := e.tree.Get(ctx, root)
	e.fine("root-missing", "root-foreign", "acl-denied", "acl-open")
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
	if _, err := e.tree.Now(ctx); errors.Is(err, lock.ErrDenied) {
		e.add("acl-denied", "an ACL forbids to create and delete nodes below %s: %s", root, oneLine(err))
	} else if err != nil {
		return err
	}
	acl, err := e.tree.ACL(ctx, root)
	if errors.Is(err, zk.ErrNoAuth) {
		return nil // this user may not read the ACL
	}
	for _, a := range acl {
		if a.Scheme == "world" && a.Perms&(zk.PermWrite|zk.PermCreate|zk.PermDelete|zk.PermAdmin) != 0 && (e.Config.ZooKeeper.Auth != nil || e.Config.ZooKeeper.SASL != nil) {
			e.add("acl-open", "zookeeper.auth or zookeeper.sasl names a user, and any client may change %s", root)
		}
	}
	return err
}

// sweep checks the whole tree, by a sweep of the reaper that deletes nothing.
func (e *exam) sweep(ctx context.Context) error {
	c := e.Config
	r, err := reaper.New(e.locks, reaper.Options{
		Policies: c.Policies, Schedule: c.Reaper.Schedule, Concurrency: c.Reaper.Concurrency, Batch: c.Reaper.Batch,
		Lock: c.Reaper.Lock, Log: &e.Log, DryRun: true,
	})
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
	e.fine("left-behind", "undecodable", "foreign-nodes", "unreadable")
	if t.Expired+t.Orphans+t.Ancestors+t.Stale > 0 {
		e.add("left-behind", "%s, %s, %s and %s past their time%s",
			text.Count(t.Expired, "expired entry", "expired entries"), text.Count(t.Orphans, "empty parent", "empty parents"),
			text.Count(t.Ancestors, "empty ancestor", "empty ancestors"), text.Count(t.Stale, "stale release request", "stale release requests"), first(report.Planned, func(p reaper.Planned) string { return p.Path }))
	}
	if t.Undecodable > 0 {
		e.add("undecodable", "%s cannot be read%s", text.Count(t.Undecodable, "entry", "entries"), first(report.Undecodable, func(path string) string { return path }))
	}
	if t.Foreign > 0 {
		e.add("foreign-nodes", "%s of other programs below %s", text.Count(t.Foreign, "node", "nodes"), e.tree.Root())
	}
	if t.Denied > 0 {
		e.add("unreadable", "an ACL forbids %s%s", text.Count(t.Denied, "node", "nodes"), first(report.Denied, func(d reaper.Denial) string { return d.Path }))
	}
	e.tell("%s with %s below %s, read in %v", text.Count(t.Locks, "lock", "locks"), text.Count(t.Live, "live entry", "live entries"), e.tree.Root(), report.Duration.Round(time.Millisecond))
	return nil
}

// first returns a colon and the first names, as an end of a sentence; "" if there are none.
func first[T any](all []T, name func(T) string) string {
	if len(all) == 0 {
		return ""
	}
	var names []string
	for _, one := range all[:min(len(all), named)] {
		names = append(names, name(one))
	}
	more := ""
	if len(all) > named {
		more = ", ..."
	}
	return ": " + strings.Join(names, ", ") + more
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

// holders looks for entries with a longer TTL than their policies permit.
func (e *exam) holders(ctx context.Context) error {
	l, err := list.Read(ctx, e.tree, "", new(list.Progress))
	if err != nil {
		return err
	}
	e.fine("ttl-over-max")
	over, firstOf := map[string]int{}, map[string]string{}
	for _, s := range l.Nodes {
		p := e.Config.Policies.For(s.Name)
		for _, c := range s.Contenders {
			if !c.Ours || c.TTL <= p.MaxTTL {
				continue
			}
			if over[p.Name]++; over[p.Name] == 1 {
				firstOf[p.Name] = fmt.Sprintf("%v at %s", c.TTL, c.Path)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(over)) {
		e.add("ttl-over-max", "%s with a longer TTL than max_ttl of policy %q, the first %s", text.Count(over[name], "entry", "entries"), name, firstOf[name])
	}
	return nil
}
