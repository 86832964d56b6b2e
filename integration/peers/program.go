package peers

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/holdfast-io/holdfast/integration/foreign"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// Kinds of locks.
const (
	// Mutex is Holdfast's, zk.Lock, InterProcessMutex or kazoo's Lock.
	Mutex = "mutex"
	// RW is Holdfast's RWMutex, InterProcessReadWriteLock, or kazoo's WriteLock and ReadLock.
	RW = "rw"
)

// Options of a client.
const (
	// KeepParent is Holdfast's policy of that name.
	KeepParent = "keep_parent"
	// Reused makes kazoo use one Lock object for all locks, as in programs that keep it. Otherwise
	// each lock has its own object.
	Reused = "reused"
)

// Mixed has the options with which a client waits for all other libraries. For kazoo they are its
// extra_lock_patterns. For Curator's mutex they are the names that its lock driver also accepts.
// Without them kazoo waits only for kazoo, and Curator for all but kazoo.
var Mixed = []string{KeepParent, "-lock-", "__lock__"}

// MixedRW is Mixed for [RW]: kazoo's ReadLock takes those that write. Curator's lock has no such
// options, and recognizes Holdfast's entries without them.
var MixedRW = []string{KeepParent, "-__READ__", "-__WRIT__"}

// Terms are the terms of all clients of a peer.
type Terms struct {
	SessionTimeout time.Duration
	TTL            time.Duration // of Holdfast's entries
}

// Program starts peers of one library.
type Program struct {
	Version string // of the library; "": this module's
	Command func(Terms) *exec.Cmd
}

const holdfastName, zkLockName = "holdfast", "zk.Lock"

// Holdfast runs a copy of this program, which must call [ServeIfPeer].
func Holdfast(context.Context, string) (Program, error) { return self("", holdfastName) }

// ZKLock runs a copy of this program, which must call [ServeIfPeer].
func ZKLock(context.Context, string) (Program, error) {
	return self(zkserver.ClientVersion(), zkLockName)
}

func self(version, name string) (Program, error) {
	path, err := os.Executable()
	return Program{version, func(terms Terms) *exec.Cmd {
		config, _ := json.Marshal(selfConfig{name, terms}) // it has nothing that JSON has not
		cmd := exec.Command(path)
		cmd.Env = append(os.Environ(), selfEnv+"="+string(config))
		return cmd
	}}, err
}

//go:embed CuratorPeer.java
var curatorPeer []byte

//go:embed kazoo_peer.py
var kazooPeer []byte

// Curator compiles the peer in a folder, which must exist as long as the program is used.
func Curator(ctx context.Context, dir string) (Program, error) {
	program, err := foreign.Curator(ctx, dir, "CuratorPeer", curatorPeer)
	return Program{program.Version, func(terms Terms) *exec.Cmd {
		return program.Command(fmt.Sprint(terms.SessionTimeout.Milliseconds()))
	}}, err
}

// Kazoo writes the peer into a folder, which must exist as long as the program is used.
func Kazoo(ctx context.Context, dir string) (Program, error) {
	program, err := foreign.Kazoo(ctx, dir, "kazoo_peer.py", kazooPeer)
	return Program{program.Version, func(terms Terms) *exec.Cmd {
		return program.Command(fmt.Sprint(terms.SessionTimeout.Seconds()))
	}}, err
}
