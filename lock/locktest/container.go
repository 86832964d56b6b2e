package locktest

import "time"

// containerInterval is how long an empty container stays. Servers look for those once a
// minute, by default.
const containerInterval = time.Minute

// tendContainers deletes the containers that a transaction leaves empty, if they are still
// empty after the interval. One that has never had a child stays.
func (e *Ensemble) tendContainers(x *txn) {
	for _, c := range x.changes {
		if c.code == opDelete && e.isEmptyContainer(parentOf(c.path)) {
			e.deleteContainerLater(parentOf(c.path))
		}
	}
}

func (e *Ensemble) isEmptyContainer(path string) bool {
	n := e.leader.tree.get(path)
	return n != nil && n.container && len(n.children.names) == 0 && n.cversion > 0
}

func (e *Ensemble) deleteContainerLater(path string) {
	e.after(containerInterval, func() {
		switch {
		case e.leader == nil:
			e.deleteContainerLater(path)
		case e.isEmptyContainer(path):
			x := e.begin(0, nil)
			x.changes = []change{{code: opDelete, path: path}}
			e.commit(x)
		}
	})
}
