package locktest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// OpCodes returns the codes of operations, by their names.
func OpCodes() map[string]int32 {
	codes := make(map[string]int32)
	for code, name := range opNames {
		codes[name] = code
	}
	return codes
}

// Check returns an error if the ensemble is inconsistent. The ensemble must be at rest: all members
// run, and no client is connected.
func (e *Ensemble) Check() error {
	e.lock()
	defer e.unlock()
	var errs []error
	if len(e.sessions) != 0 || len(e.conns) != 0 || len(e.alarms.list) != 0 || len(e.ready) != 0 {
		errs = append(errs, fmt.Errorf("left over: %d sessions, %d connections, %d alarms, %d connections to serve",
			len(e.sessions), len(e.conns), len(e.alarms.list), len(e.ready)))
	}
	for _, m := range e.members {
		if err := checkTree(m.tree); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.addr, err))
		}
		if e.leader == nil || !reflect.DeepEqual(m.tree, e.leader.tree) {
			errs = append(errs, fmt.Errorf("%s has other data than the leader", m.addr))
		}
		if len(m.tree.ephemerals) != 0 {
			errs = append(errs, fmt.Errorf("%s has ephemeral nodes of sessions that ended: %v", m.addr, m.tree.ephemerals))
		}
		if len(m.watches) != 0 || len(m.conns) != 0 || len(m.waiting) != 0 || len(m.queue) != 0 {
			errs = append(errs, fmt.Errorf("%s: left over: %d watches, %d sessions' connections, %d that wait, %d transactions",
				m.addr, len(m.watches), len(m.conns), len(m.waiting), len(m.queue)))
		}
	}
	return errors.Join(errs...)
}

// checkTree returns an error if a tree is inconsistent.
func checkTree(t *tree) error {
	for path, n := range t.nodes {
		for i, name := range n.children.names {
			if t.nodes[path+"/"+name] == nil {
				return fmt.Errorf("%q lists a child %q that is none", path, name)
			}
			if n.children.at[name] != i {
				return fmt.Errorf("%q: child %q is %d in the index, %d in the list", path, name, n.children.at[name], i)
			}
		}
		if len(n.children.at) != len(n.children.names) {
			return fmt.Errorf("%q has %d children in the index, %d in the list", path, len(n.children.at), len(n.children.names))
		}
		if path == "" {
			continue
		}
		parent, name := split(path)
		if p := t.nodes[parent]; p == nil || !slices.Contains(p.children.names, name) {
			return fmt.Errorf("%q is no child of its parent", path)
		}
		if n.ephemeralOwner != 0 && !t.ephemerals[n.ephemeralOwner][path] {
			return fmt.Errorf("%q is not listed with its session", path)
		}
	}
	for session, paths := range t.ephemerals {
		for path := range paths {
			if n := t.nodes[path]; n == nil || n.ephemeralOwner != session {
				return fmt.Errorf("%q is listed with session %#x, in vain", path, session)
			}
		}
		if len(paths) == 0 {
			return fmt.Errorf("session %#x is kept without a node", session)
		}
	}
	return nil
}
