package zkserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

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

// ParseVersion reads a version.
func ParseVersion(text string) (v Version, err error) {
	m := versionForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return v, fmt.Errorf("version %q: must be as 3.9.5", text)
	}
	for i := range v.Number {
		fmt.Sscan(m[1+i], &v.Number[i]) // without a patch: 0
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
// killed while they synchronize. Clients of such servers prove nothing.
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
