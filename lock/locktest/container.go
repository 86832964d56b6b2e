package locktest

import "time"

// containerInterval is the time after which an empty container is deleted. By default servers look
// for empty containers once a minute.
const containerInterval = time.Minute

// tendContainers deletes the containers that a transaction leaves empty, if they are still empty
// after the interval. A container that never had a child is not deleted.
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
