package queue

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Reasons why a lock cannot be acquired. Package lock exports them.
var (
	// ErrForeign: Holdfast did not create the znode at the path, or the znode cannot have children.
	ErrForeign = errors.New("path holds a znode that Holdfast did not create")
	// ErrKind: the name belongs to another kind of lock.
	ErrKind = errors.New("lock is of another kind")
	// ErrExhausted: the counter of the lock's entries is at its end, and nodes below the lock's node
	// keep the counter from a new beginning.
	ErrExhausted = errors.New("the counter of the lock's entries is at its end")
	// ErrPermits: the semaphore has another number of permits.
	ErrPermits = errors.New("semaphore has another number of permits")
)

// Blocked is an error that names the contender in the way of a request.
type Blocked struct {
	Path  string       // path of the contender's entry, or of the lock if no contender is known
	Entry *znode.Entry // the contender's entry as it was read; nil: not read
	// Trouble is why the entry may stay in the way longer than by its lease, such as an ACL; nil: no
	// reason is known.
	Trouble error
	Ended   error // why the call has ended, if its context has; nil for a try
}

func (b *Blocked) Error() string {
	if b.Ended != nil {
		return "in the way: " + b.Path + ": " + b.Ended.Error()
	}
	return "in the way: " + b.Path
}

// Unwrap returns Ended.
func (b *Blocked) Unwrap() error { return b.Ended }

// denied returns the error for an ACL that forbids this client to do something with a node.
func denied(what, path string) error {
	return fmt.Errorf("%w: %s %s: its ACL does not let us", zkconn.ErrDenied, what, path)
}

// deniedAbove returns the error for the ACL of a node below which this client cannot create path.
func deniedAbove(path string) error {
	return fmt.Errorf("%w: create %s: the ACL of the node above does not let us", zkconn.ErrDenied, path)
}

// unusable returns the final error for an operation on or below a lock's parent that the server has
// refused, if this client can never use the parent; nil for any other cause.
func unusable(parent string, op any, cause error) error {
	if errors.Is(cause, zk.ErrNoChildrenForEphemerals) {
		return zkconn.Final(fmt.Errorf("%w: %s, or the node above it, is ephemeral and cannot have children", ErrForeign, parent))
	} else if !errors.Is(cause, zk.ErrNoAuth) {
		return nil
	}
	switch op.(type) {
	case *zk.SetDataRequest:
		return zkconn.Final(fmt.Errorf("%w; clients need WRITE on a lock's node", denied("write", parent)))
	case *zk.DeleteRequest:
		return zkconn.Final(fmt.Errorf("%w: %s: its ACL lets us create entries and not delete them", zkconn.ErrDenied, parent))
	}
	return zkconn.Final(denied("create an entry below", parent))
}
