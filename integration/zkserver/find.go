package zkserver

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// Environment variables that select the ZooKeeper.
const (
	// EnvServers names running servers: host:port, comma separated.
	EnvServers = "HOLDFAST_ZOOKEEPER"
	// EnvHome names the unpacked release to run if no servers are named.
	EnvHome = "ZOOKEEPER_HOME"
	// EnvNoInstall, if not empty, forbids installing packages.
	EnvNoInstall = "HOLDFAST_NO_INSTALL"
)

// Locations of the jars of Debian's and Ubuntu's packages, and the names of those packages. The
// package "zookeeper" only adds scripts, and depends on a desktop's JRE.
const (
	jarDir      = "/usr/share/java"
	jarPackage  = "libzookeeper-java"
	javaPackage = "default-jre-headless"
)

// External returns the servers in HOLDFAST_ZOOKEEPER, or nil.
func External() []string {
	var servers []string
	for s := range strings.SplitSeq(os.Getenv(EnvServers), ",") {
		if s = strings.TrimSpace(s); s != "" {
			servers = append(servers, s)
		}
	}
	return servers
}

// Installation has what is necessary to run a server.
type Installation struct {
	Java      string // path of the java command
	ClassPath string // argument of java -cp
	Home      string // folder of ZooKeeper's jars
}

// Find returns this machine's ZooKeeper: the unpacked release in ZOOKEEPER_HOME, or else the jar of
// Debian's and Ubuntu's package. It uses the java of JAVA_HOME, or else of the PATH.
//
// Find installs missing packages with apt-get if that needs no password, unless HOLDFAST_NO_INSTALL
// is set. If it cannot, the error says what to install.
func Find(ctx context.Context) (Installation, error) { return find(ctx, os.Getenv(EnvHome)) }

// find is like Find, with the unpacked release at home; if home is empty, with the package's jar.
func find(ctx context.Context, home string) (found Installation, err error) {
	err = Install(ctx, func() (missing []string, err error) {
		if found.Home, found.ClassPath, err = findJars(home); found.ClassPath == "" {
			missing = append(missing, jarPackage)
		}
		if found.Java = findJava(); found.Java == "" {
			missing = append(missing, javaPackage)
		}
		return missing, err
	})
	if errors.Is(err, ErrNotInstalled) {
		err = fmt.Errorf("zkserver: no ZooKeeper to run: %w, or set %s=host:port of one that runs "+
			"(docker run --rm -p 127.0.0.1:2181:2181 zookeeper:3.9)", err, EnvServers)
	}
	return found, err
}

func findJars(home string) (dir, classPath string, err error) {
	switch {
	case home != "" && hasJar(home):
		return home, joinList(filepath.Join(home, "conf"), filepath.Join(home, "*"), filepath.Join(home, "lib", "*")), nil
	case home != "":
		return "", "", fmt.Errorf("zkserver: %s=%q: must be an unpacked release, but no zookeeper-<version>.jar is there or in its lib folder", EnvHome, home)
	}
	jar := filepath.Join(jarDir, "zookeeper.jar")
	if _, err := os.Stat(jar); err != nil {
		return "", "", nil
	}
	// The jar's manifest has all dependencies except a logger and, for the TLS port, some of
	// Netty's; before 3.5 it had none. The JVM ignores missing paths.
	return jarDir, joinList(jar,
		filepath.Join(jarDir, "netty-codec.jar"),
		filepath.Join(jarDir, "netty-resolver.jar"),
		filepath.Join(jarDir, "netty-transport-native-unix-common.jar"),
		filepath.Join(jarDir, "slf4j-api.jar"),
		filepath.Join(jarDir, "slf4j-simple.jar"),
		filepath.Join(jarDir, "log4j-1.2.jar")), nil
}

// hasJar reports whether a folder is an unpacked release. Until 3.4 the release's jar was beside
// lib.
func hasJar(home string) bool {
	for _, dir := range []string{filepath.Join(home, "lib"), home} {
		if jars, _ := filepath.Glob(filepath.Join(dir, "zookeeper-[0-9]*.jar")); len(jars) > 0 {
			return true
		}
	}
	return false
}

const nettyFactory = "NettyServerCnxnFactory"

// hasNetty reports whether the unpacked release at home, if there is one, has the factory of
// connections that TLS needs.
func hasNetty(home string) bool {
	jars, _ := filepath.Glob(filepath.Join(home, "lib", "zookeeper-[0-9]*.jar"))
	if home == "" || len(jars) == 0 {
		return true
	}
	jar, err := zip.OpenReader(jars[0])
	if err != nil {
		return true
	}
	defer jar.Close()
	return slices.ContainsFunc(jar.File, func(f *zip.File) bool { return strings.HasSuffix(f.Name, "/"+nettyFactory+".class") })
}

func findJava() string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		if java, err := exec.LookPath(filepath.Join(home, "bin", "java")); err == nil {
			return java
		}
	}
	java, _ := exec.LookPath("java") // not found: ""
	return java
}

func joinList(paths ...string) string {
	return strings.Join(paths, string(filepath.ListSeparator))
}

// ErrNotInstalled is the error of [Find] and [Install] if something is missing and must not or
// cannot be installed.
var ErrNotInstalled = errors.New("it is not installed")

// Install installs the packages of Debian and Ubuntu that missing returns, under the same
// conditions as [Find]. It does nothing if missing returns none. If it must not or cannot install
// them, the error wraps [ErrNotInstalled].
func Install(ctx context.Context, missing func() ([]string, error)) error {
	absent, err := missing()
	if err != nil || absent == nil {
		return err
	}
	if err := install(ctx, missing); err != nil {
		return fmt.Errorf("%w: %w; install it (apt-get install %s)", ErrNotInstalled, err, strings.Join(absent, " "))
	}
	if absent, err = missing(); err == nil && absent != nil {
		err = fmt.Errorf("apt-get succeeded, but what should come with %s is still not there", strings.Join(absent, " "))
	}
	return err
}

// Program returns the path of a program whose package has its name. It installs it as [Install] does.
func Program(ctx context.Context, name string) (path string, err error) {
	err = Install(ctx, func() ([]string, error) {
		found, err := exec.LookPath(name)
		if path = found; err != nil {
			return []string{name}, nil
		}
		return nil, nil
	})
	return path, err
}

// install installs, as root and without questions, the packages that are still missing. Several
// test binaries run at once, and the first one installs for all, under a file lock.
func install(ctx context.Context, stillMissing func() ([]string, error)) error {
	if os.Getenv(EnvNoInstall) != "" {
		return errors.New(EnvNoInstall + " forbids installing it")
	}
	path, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("there is no apt-get here to install it with")
	}
	// The timeout is for the wait until another program has installed its packages.
	command := []string{"env", "DEBIAN_FRONTEND=noninteractive", path, "-q", "-o", "DPkg::Lock::Timeout=300"}
	if os.Geteuid() != 0 {
		if err := exec.CommandContext(ctx, "sudo", "-n", "true").Run(); err != nil {
			return errors.New("installing it takes root or a sudo that asks for no password")
		}
		command = append([]string{"sudo", "-n"}, command...)
	}
	aptGet := func(args ...string) error {
		args = slices.Concat(command[1:], args)
		cmd := exec.CommandContext(ctx, command[0], args...)
		// A kill would leave the machine's packages in need of repair.
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		output, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w:\n%s", cmd, errors.Join(err, context.Cause(ctx)), lastLines(output, 10))
		}
		return nil
	}
	unlock, err := lockFile(ctx, filepath.Join(os.TempDir(), fmt.Sprintf("holdfast-install-%d.lock", os.Getuid())))
	if err != nil {
		return err
	}
	defer unlock()
	missing, err := stillMissing()
	if err != nil || missing == nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "zkserver: installing %s (%s=1 forbids it)\n", strings.Join(missing, " "), EnvNoInstall)
	// If the update fails, the old lists may suffice; otherwise the installation fails.
	_ = aptGet("update")
	return aptGet(append([]string{"install", "--yes", "--no-install-recommends"}, missing...)...)
}

// lockFile takes an exclusive lock on a file, which it creates if necessary. The kernel releases
// the lock when the process ends. lockFile waits for the lock until ctx ends.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err == syscall.EWOULDBLOCK || err == syscall.EINTR {
			err = wait.Sleep(ctx, pollInterval)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
	}
}

// lastLines returns the last n lines of text.
func lastLines(text []byte, n int) string {
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}

// EnvReleases names a folder of unpacked releases, from which [FindFixed] chooses.
const EnvReleases = "HOLDFAST_SERVERS"

// Version is the version of a ZooKeeper.
type Version struct {
	Number   [3]int // major, minor, patch
	Snapshot bool   // no release: a snapshot, an alpha, a beta
}

// versionForm matches the versions that servers report, such as 3.8.0--1 and 3.9.5-src, and the
// names of release folders, such as apache-zookeeper-3.9.5-bin.
var versionForm = regexp.MustCompile(`^(?:apache-)?(?:zookeeper-)?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(|-.*)$`)

// beforeRelease matches the suffix of a version before a release.
var beforeRelease = regexp.MustCompile(`(?i)-(snapshot|alpha|beta|rc)`)

// ParseVersion parses a version as a server reports it, such as 3.9.5-src, or the name of a
// release's folder.
func ParseVersion(text string) (v Version, err error) {
	m := versionForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return v, fmt.Errorf("version %q: must be as 3.9.5", text)
	}
	for i := range v.Number {
		fmt.Sscan(m[1+i], &v.Number[i]) // a missing patch stays 0
	}
	v.Snapshot = beforeRelease.MatchString(m[4])
	return v, nil
}

func (v Version) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.Number[0], v.Number[1], v.Number[2])
	if v.Snapshot {
		s += ", a snapshot"
	}
	return s
}

// before reports whether v is older than the number.
func (v Version) before(number ...int) bool { return slices.Compare(v.Number[:], number) < 0 }

// MayDiverge reports whether servers of this version may disagree on the data after some were
// killed while they synchronize. Tests on such servers prove nothing.
//
// Servers of 3.8.0 did. 3.8.6 and 3.9.5 are assumed to be the first safe versions of their lines.
func (v Version) MayDiverge() bool {
	return v.before(3, 8, 6) || !v.before(3, 9) && v.before(3, 9, 5)
}

// FindFixed returns a ZooKeeper whose servers do not diverge ([Version.MayDiverge]), if possible:
// the newest such release in the folder that HOLDFAST_SERVERS names. There each release has a
// folder, named as in Apache's archives, or only by its version. If ZOOKEEPER_HOME is set, or there
// is no such release, FindFixed is [Find].
func FindFixed(ctx context.Context) (Installation, error) {
	dir := os.Getenv(EnvReleases)
	if os.Getenv(EnvHome) != "" || dir == "" {
		return Find(ctx)
	}
	home, err := newestFixed(dir)
	if err != nil {
		return Installation{}, fmt.Errorf("zkserver: %s=%q: must be a folder of unpacked releases: %w", EnvReleases, dir, err)
	}
	return find(ctx, home)
}

// newestFixed returns the folder of the newest release that does not diverge, or "".
func newestFixed(dir string) (home string, err error) {
	folders, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var newest Version
	for _, f := range folders {
		path := filepath.Join(dir, f.Name())
		v, err := ParseVersion(f.Name())
		if err != nil || v.Snapshot || v.MayDiverge() || !newest.before(v.Number[:]...) || !hasJar(path) {
			continue
		}
		home, newest = path, v
	}
	return home, nil
}

// ClientVersion returns the name and version of the client library, go-zookeeper, in this program.
func ClientVersion() string {
	version := "go-zookeeper"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/go-zookeeper/zk" {
				version += " " + m.Version
			}
		}
	}
	return version
}
