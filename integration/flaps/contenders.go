package main

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/integration/peers"
)

// contender is a lock in the comparison.
type contender struct {
	name    string // on the command line
	title   string // in the tables
	asked   string // what of its API says whether the lock is held; "": nothing does
	ours    bool
	rides   bool          // its lease outlives all faults here: the holder must keep it
	cuts    int           // rounds of the cuts, at least: what they hit is chance; 0: none
	ttl     time.Duration // of ours
	setUp   func(ctx context.Context, dir string) (peers.Program, error)
	program peers.Program
	absent  error // why it takes no part
}

// start starts a peer whose clients contend.
func (c *contender) start(overhear func(line string)) (*peers.Peer, error) {
	return peers.Start(c.program.Command(peers.Terms{SessionTimeout: sessionTimeout, TTL: c.ttl}), overhear)
}

// shortTTL equals the session timeout: a crash blocks others hardly longer than with ephemeral
// nodes.
const shortTTL = sessionTimeout

var contenders = []*contender{
	{
		name: "holdfast", title: "Holdfast, TTL 6 s", asked: "Remaining() > 0",
		ours: true, cuts: 3, ttl: shortTTL, setUp: peers.Holdfast,
	},
	{
		name: "holdfast-30s", title: "Holdfast, TTL 30 s", asked: "Remaining() > 0",
		ours: true, rides: true, ttl: 30 * time.Second, setUp: peers.Holdfast,
	},
	{name: "zk.Lock", title: "zk.Lock", cuts: 3, setUp: peers.ZKLock},
	{name: "curator", title: "Curator", asked: "isAcquiredInThisProcess()", cuts: 1, setUp: peers.Curator},
	{name: "kazoo", title: "kazoo", asked: "is_acquired", cuts: 1, setUp: peers.Kazoo},
}
