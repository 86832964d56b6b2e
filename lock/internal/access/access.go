// Package access gives package admin the parts of a client that package lock does not export, and
// lets the simulation replace others.
package access

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/servercheck"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Client has the parts of a client that package admin uses.
type Client struct {
	Conn  *zkconn.Conn // the connection that Dial made, or New was given
	Clock *clock.Clock
	Root  string // path below which the locks are
	Check servercheck.Checker
	Owner string   // owner in the client's records
	Host  string   // host in the client's records
	ACL   []zk.ACL // ACL of the nodes that the client creates
}

// Hold has the parts of a hold that package admin uses.
type Hold struct {
	// Describe replaces the metadata of the hold's entry, and waits until ZooKeeper has acknowledged
	// that.
	Describe func(ctx context.Context, metadata map[string]string) error
}

// Machine has what a client of the simulation uses instead of its machine.
type Machine struct {
	Clock    func() (mono, wall time.Duration) // readings of the monotonic and the wall clock
	Random   *rand.Rand                        // safe for concurrent use
	InFlight int                               // shared transactions in flight at once; 0: as many as usual
}

// UseMachine returns a lock.Option with which a client uses the machine. Package lock sets it, which
// no other package can do: a public option would be one more that users could set.
var UseMachine func(Machine) any
