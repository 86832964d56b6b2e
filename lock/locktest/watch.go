package locktest

import "slices"

// A watchKey names a watch: on a node's data and existence, or on its children.
type watchKey struct {
	path     string
	children bool
}

// A watchTable holds the watches of one member's connections. A connection has at most one watch
// for a key, and each watch fires once.
type watchTable map[watchKey][]*serverConn

func (w watchTable) add(s *serverConn, k watchKey) {
	if s.watching[k] {
		return
	}
	s.watching[k] = true
	w[k] = append(w[k], s)
}

// remove drops all watches of a connection.
func (w watchTable) remove(s *serverConn) {
	for k := range s.watching {
		w.drop(s, k)
	}
}

// drop removes one watch of a connection.
func (w watchTable) drop(s *serverConn, k watchKey) {
	delete(s.watching, k)
	w[k] = slices.DeleteFunc(w[k], func(o *serverConn) bool { return o == s })
	if len(w[k]) == 0 {
		delete(w, k)
	}
}

// fire sends a change of a node to the connections that watch for it, and removes their watches.
// A connection that watches both data and children of a deleted node gets one event.
func (w watchTable) fire(kind int32, path string) {
	k := watchKey{path: path, children: kind == nodeChildrenChanged}
	notified := w.take(k)
	for _, s := range notified {
		s.sendEvent(kind, path)
	}
	if kind != nodeDeleted {
		return
	}
	k.children = true
	for _, s := range w.take(k) {
		if !slices.Contains(notified, s) {
			s.sendEvent(kind, path)
		}
	}
}

func (w watchTable) take(k watchKey) []*serverConn {
	watchers, ok := w[k]
	if !ok {
		return nil
	}
	delete(w, k)
	for _, s := range watchers {
		delete(s.watching, k)
	}
	return watchers
}

// reset handles a setWatches: a client that has reconnected sets its watches again. A watch whose
// change has already happened fires at once.
func (s *serverConn) reset(r *setWatchesRequest) {
	t, w := s.member.tree, s.member.watches
	for _, path := range r.data {
		switch n := t.get(path); {
		case n == nil:
			s.sendEvent(nodeDeleted, path)
		case n.mzxid > r.relativeZxid:
			s.sendEvent(nodeDataChanged, path)
		default:
			w.add(s, watchKey{path: path})
		}
	}
	for _, path := range r.exists {
		if t.get(path) != nil {
			s.sendEvent(nodeCreated, path)
		} else {
			w.add(s, watchKey{path: path})
		}
	}
	for _, path := range r.childs {
		switch n := t.get(path); {
		case n == nil:
			s.sendEvent(nodeDeleted, path)
		case n.pzxid > r.relativeZxid:
			s.sendEvent(nodeChildrenChanged, path)
		default:
			w.add(s, watchKey{path: path, children: true})
		}
	}
}

// watchers answers a checkWatches or removeWatches. It returns codeNoWatcher if the connection has
// no watch of the kind on the path. For a removeWatches it removes the watches.
func (s *serverConn) watchers(r *request) int32 {
	code := codeNoWatcher
	for _, k := range []watchKey{{path: r.path}, {path: r.path, children: true}} {
		kind := int32(watchersOfData)
		if k.children {
			kind = watchersOfChildren
		}
		if !s.watching[k] || r.which != kind && r.which != watchersOfAny {
			continue
		}
		code = codeOK
		if r.code == opRemoveWatches {
			s.member.watches.drop(s, k)
		}
	}
	return code
}
