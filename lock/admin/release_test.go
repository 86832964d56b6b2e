package admin

import (
	"strings"
	"testing"
)

func TestParseRelease(t *testing.T) {
	for answer, want := range map[string]string{
		"Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC\nLatency min/avg/max: 0/0.0/0\n": "3.9.3",
		"Zookeeper version: 3.8.0--1, built on 2023-01-01\n":                                                                               "3.8.0",
		"Zookeeper version: 3.10.0-SNAPSHOT-abc, built on x\n":                                                                             "3.10.0",
		"Zookeeper version: 3.8.6-locktest, built in memory\nConnections: 1\n":                                                             "3.8.6-locktest",
		"ClickHouse Keeper version: v24.8.4.13-stable-53813f603c0e\nLatency min/avg/max: 0/0/0\n":                                          "ClickHouse Keeper v24.8.4.13-stable-53813f603c0e",
		"srvr is not executed because it is not in the whitelist.\n":                                                                       "",
		"This ZooKeeper instance is not currently serving requests\n":                                                                      "",
		"": "", "Zookeeper version: \n": "", strings.Repeat("x", 70_000): "",
	} {
		if got := parseRelease(answer); got != want || isKeeper(got) != strings.HasPrefix(want, "ClickHouse") {
			t.Errorf("%.80q: %q, want %q; is Keeper's: %t", answer, got, want, isKeeper(got))
		}
	}
}

func TestSettings(t *testing.T) {
	for answer, want := range map[string]string{
		"clientPort=2181\ndataDir=/tmp/zookeeper/version-2\ndataDirSize=478\ndataLogDir=/x/version-2\n": "/tmp/zookeeper",
		"dataDir=/var/lib/zookeeper\r\n": "/var/lib/zookeeper", "dataDirSize=478\n": "", "conf is not executed because it is not in the whitelist.\n": "", "": "",
	} {
		if got := parseDataDir(answer); got != want {
			t.Errorf("%q: %q, want %q", answer, got, want)
		}
	}
	for answer, want := range map[string]int64{
		"Environment:\nos.memory.free=217MB\nos.memory.max=247MB\nos.memory.total=247MB\n": 247 << 20,
		"os.memory.max=9999999999999MB\n":                                                  0, "os.memory.free=217MB\n": 0, "": 0,
	} {
		if got := parseHeap(answer); got != want {
			t.Errorf("%q: %d, want %d", answer, got, want)
		}
	}
	for answer, want := range map[string]int64{
		"zk_cnt_x\t7\nzk_digest_mismatches_count\t12\nzk_y\t1\n": 12, "zk_digest_mismatches_count\t0\n": 0,
		"mntr is not executed because it is not in the whitelist.\n": -1, "": -1,
	} {
		if got := parseMismatches(answer); got != want {
			t.Errorf("%q: %d, want %d", answer, got, want)
		}
	}
}

func TestReleasesThatLoseNodes(t *testing.T) {
	for release, want := range map[string]bool{
		"3.4.14": false, "3.7.2": false, "3.8.4": false, "3.8.5": true, "3.8.6": true, "3.9.0": false, "3.9.3": false,
		"3.9.4": true, "3.9.6": true, "3.10.0": true, "": false, "3.9": false, "ClickHouse Keeper v3.9.3": false, "3.9.6-locktest": false,
	} {
		if got := losesNodes(release); got != want {
			t.Errorf("%q loses nodes: %t, want %t", release, got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for release, want := range map[string]string{
		"3.9.3": "ZOOKEEPER-4925", "3.9.2": "", "3.9.1": "ZOOKEEPER-4785", "3.9.0": "ZOOKEEPER-4785", "3.9.4": "", "3.9.5": "", "3.10.0": "",
		"3.8.0": "ZOOKEEPER-4785", "3.8.4": "ZOOKEEPER-4785", "3.8.5": "", "3.8.6": "", "3.7.2": "ZOOKEEPER-4785", "3.6.4": "ZOOKEEPER-4785",
		"3.5.10": "", "3.4.14": "", "4.0.0": "", "": "", "3.9": "", "ClickHouse Keeper v3.9.3": "",
		"3.8.6-locktest": "in memory",
	} {
		got := warningOf(release)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", release, got, want)
		}
		if got != "" && (!strings.Contains(got, release) && want != "in memory" || !strings.Contains(got, ": use 3.")) {
			t.Errorf("%q does not say what to do", got)
		}
	}
}
