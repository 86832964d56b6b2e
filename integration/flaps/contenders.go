package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	"github.com/holdfast-io/holdfast/integration/foreign"
)

// contender is a lock that takes part.
type contender struct {
	name  string // on the command line
	title string // in the tables
	asked string // what of its API says whether the lock is held; "": nothing does
	ours  bool
	rides bool // its lease outlives all faults here: the holder must keep it
	cuts  int  // rounds of the cuts, at least: what they hit is chance; 0: none
	setUp func(ctx context.Context, dir string) (setup, error)
	setup
	absent error // why it takes no part
}

// setup is what it takes to run a contender, found by setUp.
type setup struct {
	version string
	command func(lockPath string) *exec.Cmd // starts a peer whose clients contend for a lock
}

// shortTTL is as long as the session timeout: a crash blocks others hardly longer
// than with ephemeral nodes.
const shortTTL = sessionTimeout

var contenders = []*contender{
	{
		name: "holdfast", title: "Holdfast, TTL 6 s", asked: "Valid()",
		ours: true, cuts: 3, setUp: holdfastSetup(shortTTL),
	},
	{
		name: "holdfast-30s", title: "Holdfast, TTL 30 s", asked: "Valid()",
		ours: true, rides: true, setUp: holdfastSetup(30 * time.Second),
	},
	{name: "zk.Lock", title: "zk.Lock", cuts: 3, setUp: zkLockSetup},
	{name: "curator", title: "Curator", asked: "isAcquiredInThisProcess()", cuts: 1, setUp: curatorSetup},
	{name: "kazoo", title: "kazoo", asked: "is_acquired", cuts: 1, setUp: kazooSetup},
}

// peerCommand is the first argument of a copy of this program that is a peer.
const peerCommand = "peer"

// servePeer makes this process the peer that its arguments ask for.
func servePeer(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s %q: needs a lock, a path and a TTL", peerCommand, args)
	}
	ttl, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	switch args[0] {
	case "holdfast":
		serve(connectHoldfast(args[1], ttl))
	case "zk.Lock":
		serve(connectZKLock(args[1]))
	default:
		return fmt.Errorf("%s %q: no such lock", peerCommand, args[0])
	}
	return nil
}

func holdfastSetup(ttl time.Duration) func(context.Context, string) (setup, error) {
	return func(context.Context, string) (setup, error) { return goSetup("", "holdfast", ttl) }
}

func zkLockSetup(context.Context, string) (setup, error) {
	version := "go-zookeeper"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/go-zookeeper/zk" {
				version += " " + m.Version
			}
		}
	}
	return goSetup(version, "zk.Lock", 0)
}

// goSetup runs a copy of this program.
func goSetup(version, name string, ttl time.Duration) (setup, error) {
	self, err := os.Executable()
	return setup{version, func(lockPath string) *exec.Cmd {
		return exec.Command(self, peerCommand, name, lockPath, ttl.String())
	}}, err
}

//go:embed peers/CuratorPeer.java
var curatorPeer []byte

//go:embed peers/kazoo_peer.py
var kazooPeer []byte

func curatorSetup(ctx context.Context, dir string) (setup, error) {
	program, err := foreign.Curator(ctx, dir, "CuratorPeer", curatorPeer)
	return setup{program.Version, func(lockPath string) *exec.Cmd {
		return program.Command(lockPath, fmt.Sprint(sessionTimeout.Milliseconds()))
	}}, err
}

func kazooSetup(ctx context.Context, dir string) (setup, error) {
	program, err := foreign.Kazoo(ctx, dir, "kazoo_peer.py", kazooPeer)
	return setup{program.Version, func(lockPath string) *exec.Cmd {
		return program.Command(lockPath, fmt.Sprint(sessionTimeout.Seconds()))
	}}, err
}
