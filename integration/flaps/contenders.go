package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
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

//go:embed peers
var peers embed.FS

// unpack writes a peer's source into a folder, and returns its path.
func unpack(dir, name string) (string, error) {
	source, err := peers.ReadFile("peers/" + name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, source, 0o600)
}

// curatorSetup compiles the peer against the jars of Debian's and Ubuntu's package,
// whose manifests name what else they need.
func curatorSetup(ctx context.Context, dir string) (setup, error) {
	const recipes, framework = "/usr/share/java/curator-recipes.jar", "/usr/share/java/curator-framework.jar"
	zookeeper, err := zkserver.Find(ctx)
	if err != nil {
		return setup{}, err
	}
	var javac string
	err = zkserver.Install(ctx, func() (missing []string, _ error) {
		if _, err := os.Stat(recipes); err != nil {
			missing = append(missing, "libcurator-recipes-java")
		}
		if javac, err = exec.LookPath(filepath.Join(filepath.Dir(zookeeper.Java), "javac")); err != nil {
			if javac, err = exec.LookPath("javac"); err != nil {
				missing = append(missing, "default-jdk-headless")
			}
		}
		return missing, nil
	})
	if err != nil {
		return setup{}, err
	}
	source, err := unpack(dir, "CuratorPeer.java")
	if err != nil {
		return setup{}, err
	}
	classPath := strings.Join([]string{dir, recipes, framework, zookeeper.ClassPath}, string(filepath.ListSeparator))
	if output, err := exec.CommandContext(ctx, javac, "-cp", classPath, "-d", dir, source).CombinedOutput(); err != nil {
		return setup{}, fmt.Errorf("javac: %w: %s", err, output)
	}
	version := "Curator"
	if jars, _ := filepath.Glob("/usr/share/java/curator-recipes-*.jar"); len(jars) == 1 {
		version += " " + strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "curator-recipes-"), ".jar")
	}
	return setup{version, func(lockPath string) *exec.Cmd {
		return exec.Command(zookeeper.Java, "-cp", classPath, "-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
			"CuratorPeer", lockPath, fmt.Sprint(sessionTimeout.Milliseconds()))
	}}, nil
}

// kazooSetup takes the first Python that has kazoo: that of the PATH, or the
// system's, for which packages install it.
func kazooSetup(ctx context.Context, dir string) (setup, error) {
	var python, version string
	err := zkserver.Install(ctx, func() ([]string, error) {
		for _, python = range []string{"python3", "/usr/bin/python3"} {
			output, err := exec.CommandContext(ctx, python, "-c", "import kazoo; print(kazoo.__version__)").Output()
			if err == nil {
				version = "kazoo " + strings.TrimSpace(string(output))
				return nil, nil
			}
		}
		return []string{"python3-kazoo"}, context.Cause(ctx)
	})
	if err != nil {
		return setup{}, err
	}
	source, err := unpack(dir, "kazoo_peer.py")
	return setup{version, func(lockPath string) *exec.Cmd {
		return exec.Command(python, source, lockPath, fmt.Sprint(sessionTimeout.Seconds()))
	}}, err
}
