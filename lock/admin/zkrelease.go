package admin

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// inMemory is the suffix of the release of a server of package locktest, which holdfast dev runs.
const inMemory = "-locktest"

func isKeeper(release string) bool {
	return strings.HasPrefix(release, "ClickHouse Keeper ") || strings.HasPrefix(release, "RaftKeeper ")
}

var (
	zookeeperVersion = regexp.MustCompile(`(?m)^Zookeeper version: ([0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.-]*)`)
	keeperVersion    = regexp.MustCompile(`(?m)^(ClickHouse Keeper|RaftKeeper) version: ([0-9A-Za-z.-]{1,40})`)
)

// parseRelease returns the release in the answer to srvr, such as "3.9.3" or "ClickHouse Keeper v24.8";
// "" if there is none, for example because the word is not permitted.
func parseRelease(answer string) string {
	if m := keeperVersion.FindStringSubmatch(answer); m != nil {
		return m[1] + " " + m[2]
	}
	m := zookeeperVersion.FindStringSubmatch(answer)
	if m == nil {
		return ""
	}
	if strings.HasSuffix(m[1], inMemory) {
		return m[1]
	}
	release, _, _ := strings.Cut(m[1], "-") // the commit, after a dash
	return release
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
func parseHeap(answer string) int64 { return number(heapMax, answer, 0) << 20 }

// parseMismatches returns the number of different digests in the answer to mntr; -1 if there is none.
func parseMismatches(answer string) int64 { return number(differs, answer, -1) }

// number returns the number that the expression finds in an answer.
func number(in *regexp.Regexp, answer string, none int64) int64 {
	m := in.FindStringSubmatch(answer)
	if m == nil {
		return none
	}
	n, _ := strconv.ParseInt(m[1], 10, 64) // the expression limits its digits
	return n
}

// warningOf returns a warning about a release of ZooKeeper; "" if there is none. The bugs that it
// warns of lose acknowledged writes, and with them entries of holders.
func warningOf(release string) string {
	if strings.HasSuffix(release, inMemory) {
		return "this is holdfast dev, which keeps all data in memory and loses it when it ends: use 3.9.5 or later in production"
	}
	n, ok := numbers(release)
	switch {
	case !ok: // another server's
		return ""
	case n == [3]int{3, 9, 3}:
		return "ZooKeeper 3.9.3 can lose acknowledged writes, and locks with them, after a server has rejoined the ensemble (ZOOKEEPER-4925): use 3.9.5 or later"
	case losesByDiff(n):
		return "ZooKeeper " + release + " can lose acknowledged writes, and locks with them, when servers fail while they catch up with a leader (DIFF sync, ZOOKEEPER-4785): use 3.8.6, 3.9.5 or later"
	}
	return ""
}

// numbers returns the numbers of a release of ZooKeeper.
func numbers(release string) (n [3]int, ok bool) {
	_, err := fmt.Sscanf(release, "%d.%d.%d", &n[0], &n[1], &n[2])
	return n, err == nil && !strings.HasSuffix(release, inMemory)
}

// losesNodes reports whether a release has the change of ZOOKEEPER-4846, by which a server that loads a
// snapshot loses children of a node that was deleted and made anew while the snapshot was saved. It came
// with 3.8.5 and 3.9.4. No release was without it since, when 3.9.6 was the newest.
func losesNodes(release string) bool {
	n, ok := numbers(release)
	return ok && (!before(n, 3, 9, 4) || !before(n, 3, 8, 5) && before(n, 3, 9, 0))
}

// before reports whether a release is older than the given one.
func before(n [3]int, number ...int) bool { return slices.Compare(n[:], number) < 0 }

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
