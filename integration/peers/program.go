package peers

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	"github.com/holdfast-io/holdfast/integration/foreign"
)

// Kinds of locks that a client can be opened for.
const (
	// Mutex is Holdfast's, zk.Lock, InterProcessMutex or kazoo's Lock.
	Mutex = "mutex"
	// RW is Holdfast's RWMutex, InterProcessReadWriteLock, or kazoo's WriteLock and ReadLock.
	RW = "rw"
)

// Options of a client.
const (
	// KeepParent is the policy of that name, of Holdfast's.
	KeepParent = "keep_parent"
	// Reused is for kazoo: one Lock object for all the times that the lock is taken, as in
	// programs that keep it. Else each time has its own.
	Reused = "reused"
)

// Mixed are the options with which a client waits for those of all the other libraries:
// of kazoo they are its extra_lock_patterns, and of Curator's mutex what its driver of the
// lock is to find in names beside its own. Without them kazoo waits for kazoo only, and
// Curator for all but kazoo.
var Mixed = []string{KeepParent, "-lock-", "__lock__"}

// MixedRW are the same for [RW]: kazoo's ReadLock takes those that write. Curator's has no
// such options, and knows Holdfast's entries without.
var MixedRW = []string{KeepParent, "-__READ__", "-__WRIT__"}

// Terms are those of all clients of a peer.
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

// Holdfast runs a copy of this program, which has to call [ServeIfPeer].
func Holdfast() (Program, error) { return self("", holdfastName) }

// ZKLock runs a copy of this program, too.
func ZKLock() (Program, error) {
	version := "go-zookeeper"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/go-zookeeper/zk" {
				version += " " + m.Version
			}
		}
	}
	return self(version, zkLockName)
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

// Curator compiles the peer, in a folder that must last as long as the program is used.
func Curator(ctx context.Context, dir string) (Program, error) {
	program, err := foreign.Curator(ctx, dir, "CuratorPeer", curatorPeer)
	return Program{program.Version, func(terms Terms) *exec.Cmd {
		return program.Command(fmt.Sprint(terms.SessionTimeout.Milliseconds()))
	}}, err
}

// Kazoo needs such a folder, too.
func Kazoo(ctx context.Context, dir string) (Program, error) {
	program, err := foreign.Kazoo(ctx, dir, "kazoo_peer.py", kazooPeer)
	return Program{program.Version, func(terms Terms) *exec.Cmd {
		return program.Command(fmt.Sprint(terms.SessionTimeout.Seconds()))
	}}, err
}
