package admin

import (
	"regexp"
	"strconv"
	"strings"
)

// version is a server's release from its answer to the four-letter word srvr.
type version struct {
	release string // such as "3.9.3", or "ClickHouse Keeper v24.8"
}

// inMemory is the suffix of the release of a server of package locktest, which holdfast dev runs.
const inMemory = "-locktest"

func (v version) isKeeper() bool {
	return strings.HasPrefix(v.release, "ClickHouse Keeper ") || strings.HasPrefix(v.release, "RaftKeeper ")
}

var (
	zookeeperVersion = regexp.MustCompile(`(?m)^Zookeeper version: ([0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.-]*)`)
	keeperVersion    = regexp.MustCompile(`(?m)^(ClickHouse Keeper|RaftKeeper) version: ([0-9A-Za-z.-]{1,40})`)
)

// parseVersion parses the answer to srvr. It returns false if the answer has no version, for
// example because the word is not permitted.
func parseVersion(answer string) (version, bool) {
	if m := keeperVersion.FindStringSubmatch(answer); m != nil {
		return version{m[1] + " " + m[2]}, true
	}
	if m := zookeeperVersion.FindStringSubmatch(answer); m != nil {
		if strings.HasSuffix(m[1], inMemory) {
			return version{m[1]}, true
		}
		release, _, _ := strings.Cut(m[1], "-") // the commit, after a dash
		return version{release}, true
	}
	return version{}, false
}

var (
	dataDir = regexp.MustCompile(`(?m)^dataDir=(.+?)(?:/version-2)?\r?$`)
	heapMax = regexp.MustCompile(`(?m)^os\.memory\.max=([0-9]{1,12})MB\r?$`)
	differs = regexp.MustCompile(`(?m)^zk_digest_mismatches_count\t([0-9]{1,18})\r?$`)
)

// parseDataDir returns the dataDir in the answer to conf; "" if there is none.
func parseDataDir(answer string) string {
	if m := dataDir.FindStringSubmatch(answer); m != nil {
		return m[1]
	}
	return ""
}

// parseHeap returns the largest size of the heap in the answer to envi, in bytes; 0 if there is none.
func parseHeap(answer string) int64 {
	m := heapMax.FindStringSubmatch(answer)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	return n << 20
}

// parseMismatches returns the number of different digests in the answer to mntr; -1 if there is none.
func parseMismatches(answer string) int64 {
	m := differs.FindStringSubmatch(answer)
	if m == nil {
		return -1
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	return n
}

// warning returns a warning about a release of ZooKeeper; "" if there is none. The bugs that it
// warns of lose acknowledged writes, and with them entries of holders.
func (v version) warning() string {
	n, ok := numbers(v.release)
	switch {
	case strings.HasSuffix(v.release, inMemory):
		return "this is holdfast dev, which keeps all data in memory and loses it when it ends: use 3.9.5 or later in production"
	case !ok:
		return ""
	case n == [3]int{3, 9, 3}:
		return "ZooKeeper 3.9.3 can lose acknowledged writes, and locks with them, after a server has rejoined the ensemble (ZOOKEEPER-4925): use 3.9.5 or later"
	case losesByDiff(n):
		return "ZooKeeper " + v.release + " can lose acknowledged writes, and locks with them, when servers fail while they catch up with a leader (DIFF sync, ZOOKEEPER-4785): use 3.8.6, 3.9.5 or later"
	}
	return ""
}

// losesByDiff reports whether a release has the bug ZOOKEEPER-4785. It is fixed in 3.8.5 and 3.9.2.
// Releases 3.6 and 3.7 have it without a fix.
func losesByDiff(n [3]int) bool {
	switch {
	case n[0] != 3:
		return false
	case n[1] == 9:
		return n[2] < 2
	case n[1] == 8:
		return n[2] < 5
	}
	return n[1] == 7 || n[1] == 6
}

func numbers(release string) (n [3]int, ok bool) {
	parts := strings.Split(release, ".")
	if len(parts) < 3 {
		return n, false
	}
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(parts[i]); err != nil {
			return n, false
		}
	}
	return n, true
}
