// Package access gives package admin what package lock does not export: package lock sets the functions
// when the program starts, and package admin and the simulation call them.
package access

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/servercheck"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// The arguments and results of type any are of package lock: *Client, *Hold and Token.
var (
	OfClient func(client any) Client
	// Describe replaces the metadata of the hold's entry, and waits until ZooKeeper has acknowledged that.
	Describe func(ctx context.Context, hold any, metadata map[string]string) error
	// HoldOf returns another handle on a *Leadership, a *Hold, which ends with it; LeadershipOf the
	// *Leadership of such a handle. They are for the simulation.
	HoldOf, LeadershipOf func(any) any
	OfToken              func(token any) Token
	MakeToken            func(parts Token) any
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
	// Random makes ids. It is safe for concurrent use.
	Random *rand.Rand
	Log    zerolog.Logger // of the client
}

// Token has the parts of a fencing token.
type Token struct {
	Czxid       int64 // number of the ZooKeeper transaction that created the entry
	Sequence    int32 // number that ZooKeeper gave the entry; it differs among the entries of one transaction
	Incarnation int32 // number of attaches in other processes
	Pass        int32 // number of local handoffs, see lock.WithLocalWindow
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
