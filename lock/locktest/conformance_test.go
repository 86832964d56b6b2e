package locktest_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// The ensemble is trusted because it answers like a real server. Each scenario
// of the table below runs against both, and what was observed, written down as a
// transcript, must be the same one that stands in the table.
//
// Transcripts name nodes relative to the scenario's own root. Transaction
// numbers are replaced by their rank among those that the scenario saw, so that
// a real server may be in use by others at the same time. Times are not in the
// transcript; that they belong together is checked for every Stat (see
// script.checkTimes).

const realServer = "HOLDFAST_ZOOKEEPER" // host:port of a real server

type scenario struct {
	name  string
	alone bool // others at the same time disturb it
	run   func(s *script)
	want  string
	older map[string][]string // what real servers may say instead of a line, if they are old
}

func TestConformanceInMemory(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ens := locktest.Start(t, locktest.Options{})
				sc.check(t, newScript(t, ens.Servers(), ens.Dial))
			})
		})
	}
}

// TestConformanceFollower has all of it come through a follower, over a network
// that takes its time.
func TestConformanceFollower(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ens := locktest.Start(t, locktest.Options{
					Members: 3,
					Latency: func(string, string) time.Duration { return time.Millisecond },
				})
				follower := slices.DeleteFunc(ens.Servers(), func(m string) bool { return m == ens.Leader() })[:1]
				if err := ens.Lag(follower[0], 5*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				sc.check(t, newScript(t, follower, ens.Dial))
			})
		})
	}
}

func TestConformanceRealServer(t *testing.T) {
	addr := realAddress(t)
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			if !sc.alone {
				t.Parallel() // they wait for sessions to expire, mostly
			}
			s := newScript(t, []string{addr}, net.DialTimeout)
			s.shared = true
			sc.checkReal(t, s)
		})
	}
}

// TestConformanceRandom compares what neither table nor its author thought of:
// random requests, from a printed seed.
func TestConformanceRandom(t *testing.T) {
	addr := realAddress(t)
	for range 30 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			ens := locktest.Start(t, locktest.Options{})
			fake, real := newScript(t, ens.Servers(), ens.Dial), newScript(t, []string{addr}, net.DialTimeout)
			fake.random(seed)
			real.random(seed)
			if got, want := fake.transcript(), real.transcript(); got != want {
				t.Errorf("in memory:\n%s\nreal:\n%s\nfirst difference: %s", got, want, firstDifference(got, want))
			}
		})
	}
}

func realAddress(t *testing.T) string {
	addr, _, _ := strings.Cut(os.Getenv(realServer), ",")
	if addr == "" {
		t.Skipf("set %s=host:port to compare with a real ZooKeeper server", realServer)
	}
	return addr
}

func (sc *scenario) check(t *testing.T, s *script) {
	sc.run(s)
	compare(t, s.transcript(), strings.TrimSpace(sc.want))
}

// checkReal is check with a real server, which may be an old one.
func (sc *scenario) checkReal(t *testing.T, s *script) {
	sc.run(s)
	got, want := s.transcript(), strings.Split(strings.TrimSpace(sc.want), "\n")
	for i, line := range strings.Split(got, "\n") {
		if i < len(want) && slices.Contains(sc.older[want[i]], line) {
			want[i] = line
		}
	}
	compare(t, got, strings.Join(want, "\n"))
}

func compare(t *testing.T, got, want string) {
	if got != want {
		t.Errorf("observed:\n%s\nwant:\n%s\nfirst difference: %s", got, want, firstDifference(got, want))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			return fmt.Sprintf("line %d is missing: %s", i+1, w[i])
		case i >= len(w):
			return fmt.Sprintf("line %d is one too many: %s", i+1, g[i])
		case g[i] != w[i]:
			return fmt.Sprintf("line %d is %q, want %q", i+1, g[i], w[i])
		}
	}
	return "none"
}

// Scenarios.

var (
	open   = zk.WorldACL(zk.PermAll)
	reader = zk.WorldACL(zk.PermRead)
)

const (
	persistent          = 0
	ephemeral           = zk.FlagEphemeral
	sequence            = zk.FlagSequence
	ephemeralSequential = zk.FlagEphemeral | zk.FlagSequence
)

var scenarios = []scenario{
	{
		name: "create, get, and what is refused",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/a", []byte("one"), persistent, open)
			s.get(c, "/a")
			s.create(c, "/a", nil, persistent, open)
			s.create(c, "/no/b", nil, persistent, open)
			s.create(c, "/a/b", nil, persistent, open)
			s.get(c, "/a/b")
			s.exists(c, "/a/b")
			s.exists(c, "/a/c")
			s.get(c, "/a/c")
			s.children(c, "/a")
			s.children(c, "/a/c")
			s.sync(c, "/a")
			s.sync(c, "/nowhere")
		},
		want: `
create /a: /a
get /a: "one" c1 m1 p1 v0 cv0 av0 len3 kids0
create /a: node already exists
create /no/b: node does not exist
create /a/b: /a/b
get /a/b: null c2 m2 p2 v0 cv0 av0 len0 kids0
exists /a/b: c2 m2 p2 v0 cv0 av0 len0 kids0
exists /a/c: no
get /a/c: node does not exist
children /a: [b] c1 m1 p2 v0 cv1 av0 len3 kids1
children /a/c: node does not exist
sync /a: /a
sync /nowhere: /nowhere
`,
	},
	{
		name: "no data and empty data",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/null", nil, persistent, open)
			s.create(c, "/empty", []byte{}, persistent, open)
			s.get(c, "/null")
			s.get(c, "/empty")
			s.set(c, "/null", []byte{}, -1)
			s.set(c, "/empty", nil, -1)
			s.get(c, "/null")
			s.get(c, "/empty")
		},
		want: `
create /null: /null
create /empty: /empty
get /null: null c1 m1 p1 v0 cv0 av0 len0 kids0
get /empty: "" c2 m2 p2 v0 cv0 av0 len0 kids0
set /null: c1 m3 p1 v1 cv0 av0 len0 kids0
set /empty: c2 m4 p2 v1 cv0 av0 len0 kids0
get /null: "" c1 m3 p1 v1 cv0 av0 len0 kids0
get /empty: null c2 m4 p2 v1 cv0 av0 len0 kids0
`,
	},
	{
		name: "versions of data",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/a", nil, persistent, open)
			s.set(c, "/a", []byte("1"), 0)
			s.set(c, "/a", []byte("2"), 0)
			s.set(c, "/a", []byte("22"), 1)
			s.set(c, "/a", []byte("333"), -1)
			s.set(c, "/none", nil, -1)
			s.delete(c, "/a", 2)
			s.delete(c, "/a", 3)
			s.delete(c, "/a", 3)
			s.create(c, "/a", nil, persistent, open)
			s.exists(c, "/a")
			s.delete(c, "/a", -1)
			s.delete(c, "/no/a", -1)
		},
		want: `
create /a: /a
set /a: c1 m2 p1 v1 cv0 av0 len1 kids0
set /a: version conflict
set /a: c1 m3 p1 v2 cv0 av0 len2 kids0
set /a: c1 m4 p1 v3 cv0 av0 len3 kids0
set /none: node does not exist
delete /a: version conflict
delete /a: ok
delete /a: node does not exist
create /a: /a
exists /a: c5 m5 p5 v0 cv0 av0 len0 kids0
delete /a: ok
delete /no/a: node does not exist
`,
	},
	{
		name: "a parent's Stat follows its children's creation and deletion",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/p", nil, persistent, open)
			s.create(c, "/p/a", nil, persistent, open)
			s.create(c, "/p/b", nil, persistent, open)
			s.exists(c, "/p")
			s.set(c, "/p/a", []byte("x"), -1)
			s.exists(c, "/p")
			s.delete(c, "/p/a", -1)
			s.exists(c, "/p")
			s.create(c, "/p/b/c", nil, persistent, open)
			s.exists(c, "/p")
			s.exists(c, "/p/b")
			s.delete(c, "/p", -1)
			s.delete(c, "/p", 7)
			s.set(c, "/p", []byte("data"), 0)
		},
		want: `
create /p: /p
create /p/a: /p/a
create /p/b: /p/b
exists /p: c1 m1 p3 v0 cv2 av0 len0 kids2
set /p/a: c2 m4 p2 v1 cv0 av0 len1 kids0
exists /p: c1 m1 p3 v0 cv2 av0 len0 kids2
delete /p/a: ok
exists /p: c1 m1 p5 v0 cv3 av0 len0 kids1
create /p/b/c: /p/b/c
exists /p: c1 m1 p5 v0 cv3 av0 len0 kids1
exists /p/b: c3 m3 p6 v0 cv1 av0 len0 kids1
delete /p: node has children
delete /p: version conflict
set /p: c1 m7 p5 v1 cv3 av0 len4 kids1
`,
	},
	{
		name: "sequences",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/p", nil, persistent, open)
			s.create(c, "/p/n-", nil, sequence, open)
			s.create(c, "/p/n-", nil, sequence, open)
			s.create(c, "/p/plain", nil, persistent, open) // counts too
			s.create(c, "/p/m-", nil, ephemeralSequential, open)
			s.create(c, "/p/", nil, sequence, open)
			s.delete(c, "/p/0000000004", -1)
			s.delete(c, "/p/m-0000000003", -1)
			s.delete(c, "/p/plain", -1)
			s.create(c, "/p/n-", nil, sequence, open) // deletions do not
			s.create(c, "/p/n-0000000006", nil, persistent, open)
			s.create(c, "/p/plain", nil, persistent, open)
			s.create(c, "/p/plain", nil, persistent, open) // nor what failed
			s.create(c, "/p/n-", nil, sequence, open)
			s.exists(c, "/p")
			for _, name := range []string{"n-0000000000", "n-0000000001", "n-0000000005", "n-0000000006", "n-0000000008", "plain"} {
				s.delete(c, "/p/"+name, -1)
			}
			s.exists(c, "/p")
			s.delete(c, "/p", -1)
			s.create(c, "/p", nil, persistent, open) // begins anew
			s.create(c, "/p/n-", nil, sequence, open)
		},
		want: `
create /p: /p
create /p/n-: /p/n-0000000000
create /p/n-: /p/n-0000000001
create /p/plain: /p/plain
create /p/m-: /p/m-0000000003
create /p/: /p/0000000004
delete /p/0000000004: ok
delete /p/m-0000000003: ok
delete /p/plain: ok
create /p/n-: /p/n-0000000005
create /p/n-0000000006: /p/n-0000000006
create /p/plain: /p/plain
create /p/plain: node already exists
create /p/n-: /p/n-0000000008
exists /p: c1 m1 p2 v0 cv12 av0 len0 kids6
delete /p/n-0000000000: ok
delete /p/n-0000000001: ok
delete /p/n-0000000005: ok
delete /p/n-0000000006: ok
delete /p/n-0000000008: ok
delete /p/plain: ok
exists /p: c1 m1 p3 v0 cv18 av0 len0 kids0
delete /p: ok
create /p: /p
create /p/n-: /p/n-0000000000
`,
	},
	{
		name: "a sequential name that is taken",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/p", nil, persistent, open)
			s.create(c, "/p/n-0000000001", nil, persistent, open)
			s.create(c, "/p/n-", nil, sequence, open)
			s.create(c, "/p/n-", nil, sequence, open)
			s.create(c, "/p/x", nil, persistent, open)
			s.create(c, "/p/n-", nil, sequence, open)
		},
		want: `
create /p: /p
create /p/n-0000000001: /p/n-0000000001
create /p/n-: node already exists
create /p/n-: node already exists
create /p/x: /p/x
create /p/n-: /p/n-0000000002
`,
	},
	{
		name: "ephemeral nodes",
		run: func(s *script) {
			c := s.connect()
			other := s.connect()
			s.create(c, "/e", []byte("x"), ephemeral, open)
			s.get(other, "/e")
			s.create(other, "/e/child", nil, persistent, open)
			s.create(other, "/e/child", nil, sequence, open)
			s.create(other, "/e", nil, persistent, open)
			s.multi(other, create("/e", persistent), create("/e/x", sequence))
			s.multi(other, create("/e/x", sequence))
			s.set(other, "/e", []byte("yy"), 0)
			s.create(c, "/p", nil, persistent, open)
			s.create(c, "/p/f", nil, ephemeral, open)
			s.create(c, "/g", nil, ephemeralSequential, open)
			s.delete(other, "/e", -1)
			s.closeConn(c)
			s.exists(other, "/g0000000000")
			s.children(other, "/p")
		},
		want: `
create /e: /e
get /e: "x" c1 m1 p1 v0 cv0 av0 len1 kids0 ephemeral
create /e/child: ephemeral nodes may not have children
create /e/child: ephemeral nodes may not have children
create /e: node already exists
multi: node already exists: [node already exists; unknown error: -2]
multi: ephemeral nodes may not have children: [ephemeral nodes may not have children]
set /e: c1 m2 p1 v1 cv0 av0 len2 kids0 ephemeral
create /p: /p
create /p/f: /p/f
create /g: /g0000000002
delete /e: ok
close
exists /g0000000000: no
children /p: [] c3 m3 p4 v0 cv2 av0 len0 kids0
`,
	},
	{
		name: "a session that ends deletes its nodes in one transaction",
		run: func(s *script) {
			c := s.connect()
			other := s.connect()
			for _, p := range []string{"/p", "/q"} {
				s.create(c, p, nil, persistent, open)
				s.create(c, p+"/e", nil, ephemeral, open)
				s.create(c, p+"/f", nil, ephemeral, open)
			}
			gone := s.existsW(other, "/p/e")
			s.closeConn(c)
			s.event(gone)
			s.exists(other, "/p")
			s.exists(other, "/q")
		},
		want: `
create /p: /p
create /p/e: /p/e
create /p/f: /p/f
create /q: /q
create /q/e: /q/e
create /q/f: /q/f
existsW /p/e: c2 m2 p2 v0 cv0 av0 len0 kids0 ephemeral
close
event deleted /p/e
exists /p: c1 m1 p4 v0 cv4 av0 len0 kids0
exists /q: c3 m3 p4 v0 cv4 av0 len0 kids0
`,
	},
	{
		name: "multi: a node made, changed and deleted in one",
		run: func(s *script) {
			c := s.connect()
			s.multi(c, create("/a", persistent), set("/a", "one", 0), set("/a", "three", 1), del("/a", 2))
			s.exists(c, "/a")
			s.multi(c, create("/a", persistent), create("/a/b", persistent), del("/a/b", 0), del("/a", 0), create("/a", persistent))
			s.exists(c, "/a")
			s.multi(c)
		},
		want: `
multi: ok: [/a; c1 m1 p1 v1 cv0 av0 len3 kids0; c1 m1 p1 v2 cv0 av0 len5 kids0; ok]
exists /a: no
multi: ok: [/a; /a/b; ok; ok; /a]
exists /a: c2 m2 p2 v0 cv0 av0 len0 kids0
multi: ok: []
`,
	},
	{
		name: "multi: the Stat of a set is as of its place in the transaction",
		run: func(s *script) {
			c := s.connect()
			s.multi(c, create("/p", persistent), create("/p/n-", sequence), set("/p", "tail", 0))
			s.multi(c, set("/p", "x", 1), create("/p/n-", sequence), create("/p/m-", sequence), set("/p", "tail", 2))
			s.get(c, "/p")
			s.get(c, "/p/m-0000000002")
		},
		want: `
multi: ok: [/p; /p/n-0000000000; c1 m1 p1 v1 cv1 av0 len4 kids1]
multi: ok: [c1 m2 p1 v2 cv1 av0 len1 kids1; /p/n-0000000001; /p/m-0000000002; c1 m2 p2 v3 cv3 av0 len4 kids3]
get /p: "tail" c1 m2 p2 v3 cv3 av0 len4 kids3
get /p/m-0000000002: "" c2 m2 p2 v0 cv0 av0 len0 kids0
`,
	},
	{
		name: "multi: all or nothing, and the shape of errors",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/a", nil, persistent, open)
			s.create(c, "/a/b", nil, persistent, open)
			s.multi(c, set("/a", "x", 0), create("/c", persistent), create("/a", persistent), set("/a", "y", -1), del("/none", -1))
			s.multi(c, create("/no/n", persistent), set("/a", "x", -1))
			s.multi(c, del("/a", -1))
			s.multi(c, del("/a/b", -1), del("/a", 3))
			s.multi(c, del("/a/b", -1), del("/a/b", -1))
			s.multi(c, create("/x", persistent), set("/x", "", 1))
			s.multi(c, set("/a", "x", 5))
			s.multi(c, check("/a", 5))
			s.multi(c, check("/none", -1))
			s.multi(c, check("/a", 0), check("/a/b", -1))
			s.multi(c, set("/a", "x", 0), check("/a", 0))
			s.multi(c, set("/a", "x", 0), check("/a", 1))
			s.exists(c, "/a")
			s.exists(c, "/c")
			s.exists(c, "/x")
			s.multi(c, del("/a/b", -1), del("/a", -1))
			s.exists(c, "/a")
		},
		want: `
create /a: /a
create /a/b: /a/b
multi: node already exists: [ok; ok; node already exists; unknown error: -2; unknown error: -2]
multi: node does not exist: [node does not exist; unknown error: -2]
multi: node has children: [node has children]
multi: version conflict: [ok; version conflict]
multi: node does not exist: [ok; node does not exist]
multi: version conflict: [ok; version conflict]
multi: version conflict: [version conflict]
multi: version conflict: [version conflict]
multi: node does not exist: [node does not exist]
multi: ok: [ok; ok]
multi: version conflict: [ok; version conflict]
multi: ok: [c1 m3 p2 v1 cv1 av0 len1 kids1; ok]
exists /a: c1 m3 p2 v1 cv1 av0 len1 kids1
exists /c: no
exists /x: no
multi: ok: [ok; ok]
exists /a: no
`,
	},
	{
		name:  "every write is a transaction, a failed one too; reads are none",
		alone: true,
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/a", nil, persistent, open)
			s.transactions(c, "nothing", func() {})
			s.transactions(c, "reads", func() {
				s.get(c, "/a")
				s.get(c, "/none")
				s.children(c, "/a")
				s.sync(c, "/a")
			})
			s.transactions(c, "a failed delete", func() { s.delete(c, "/none", -1) })
			s.transactions(c, "a failed create", func() { s.create(c, "/a", nil, persistent, open) })
			s.transactions(c, "a failed multi", func() { s.multi(c, set("/a", "x", -1), del("/none", -1)) })
			s.transactions(c, "a multi", func() { s.one(c, "/", check("/", -1)) })
			s.transactions(c, "a multi of two", func() {
				if _, err := c.Multi(set(s.root, "x", -1), set(s.root+"/a", "x", -1)); err != nil {
					s.t.Error(err)
				}
			})
			s.transactions(c, "a session", func() { s.connect() })
		},
		want: `
create /a: /a
nothing: 0 transactions
get /a: null c1 m1 p1 v0 cv0 av0 len0 kids0
get /none: node does not exist
children /a: [] c1 m1 p1 v0 cv0 av0 len0 kids0
sync /a: /a
reads: 0 transactions
delete /none: node does not exist
a failed delete: 1 transactions
create /a: node already exists
a failed create: 1 transactions
multi: node does not exist: [ok; node does not exist]
a failed multi: 1 transactions
"/": CheckVersion ok
a multi: 1 transactions
a multi of two: 1 transactions
a session: 1 transactions
`,
	},
	{
		name: "paths that are none",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/a", nil, persistent, open)
			// Client libraries check paths, but not those in a multi.
			for _, p := range []string{
				"/a/", "/a//b", "/a/.", "/a/..", "/a/./b", "/a/../b", "/a/\x01", "/a/\x1f", "/a/\x7f", "/a/\u0085",
				"/a/\ue000", "/a/\ufff1", "/a/\U0001F512", "/a/\x00", "/a/.b", "/a/b..", "/a/ ", "/a/\u00e9", "/none/", "/none//",
			} {
				s.one(c, p, create(s.root+p, persistent), set(s.root+p, "", -1), check(s.root+p, -1), del(s.root+p, -1))
			}
			s.one(c, "sequence /a/", create(s.root+"/a/", sequence))
			s.one(c, "sequence /a//", create(s.root+"/a//", sequence))
			for _, p := range []string{"", "a", "a/b", "/", "/zookeeper", "/zookeeper/quota"} {
				s.one(c, "absolute "+p, create(p, persistent), check(p, -1), del(p, -1))
			}
		},
		want: `
create /a: /a
"/a/": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a//b": Create node does not exist, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/.": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/..": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/./b": Create node does not exist, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/../b": Create node does not exist, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\x01": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\x1f": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\x7f": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\u0085": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\ue000": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\ufff1": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/🔒": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\x00": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete invalid arguments
"/a/.b": Create ok, SetData ok, CheckVersion ok, Delete ok
"/a/b..": Create ok, SetData ok, CheckVersion ok, Delete ok
"/a/ ": Create ok, SetData ok, CheckVersion ok, Delete ok
"/a/é": Create ok, SetData ok, CheckVersion ok, Delete ok
"/none/": Create node does not exist, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/none//": Create node does not exist, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"sequence /a/": Create ok
"sequence /a//": Create node does not exist
"absolute ": Create invalid arguments, CheckVersion invalid arguments, Delete invalid arguments
"absolute a": Create invalid arguments, CheckVersion invalid arguments, Delete invalid arguments
"absolute a/b": Create node does not exist, CheckVersion invalid arguments, Delete node does not exist
"absolute /": Create node already exists, CheckVersion ok, Delete invalid arguments
"absolute /zookeeper": Create node already exists, CheckVersion ok, Delete invalid arguments
"absolute /zookeeper/quota": Create node already exists, CheckVersion ok, Delete invalid arguments
`,
		older: map[string][]string{ // before 3.5 the last of the control characters are allowed
			`"/a/\x1f": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist`: {`"/a/\x1f": Create ok, SetData ok, CheckVersion ok, Delete ok`},
			`"/a/\x7f": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist`: {`"/a/\x7f": Create ok, SetData ok, CheckVersion ok, Delete ok`},
		},
	},
	{
		name: "flags of a create",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			for _, flags := range []int32{-1, 7, 100} {
				c.send(10+flags, 1, s.root+"/a", []byte(nil), open, flags)
				s.frames(c, 1)
			}
			c.send(5, 1, s.root+"/a", []byte(nil), open, int32(5)) // a TTL, which is off by default
			s.frames(c, 1)
			c.send(6, 1, s.root+"/a", []byte(nil), open, int32(0))
			s.frames(c, 1)
			c.send(7, 15, s.root+"/b", []byte("create2"), open, int32(0))
			r := c.reply()
			path := ""
			if statAt := len(r.body) - 68; statAt > 4 {
				path = " " + s.rel(string(r.body[4:statAt]))
			}
			s.logf("%v%s", r, path)
			c.send(8, 15, s.root+"/b", []byte("create2"), open, int32(0))
			s.frames(c, 1)
		},
		want: `
reply 9: code -8
reply 17: code -8
reply 110: code -8
reply 5: code -6
reply 6
reply 7 /b
reply 8: code -110
`,
		older: map[string][]string{ // before 3.5 there were no TTLs and no create2, which closes the connection
			"reply 5: code -6":   {"reply 5: code -8"},
			"reply 7 /b":         {"reply 7: code -6"},
			"reply 8: code -110": {"closed", "reply 8: code -6"},
		},
	},
	{
		name: "access control",
		run: func(s *script) {
			c := s.connect()
			owner := s.connect()
			if err := owner.AddAuth("digest", []byte("me:secret")); err != nil {
				s.t.Fatal(err)
			}
			for _, acl := range [][]zk.ACL{
				{},
				zk.AuthACL(zk.PermAll),
				{{Perms: zk.PermAll, Scheme: "world", ID: "everyone"}},
				{{Perms: zk.PermAll, Scheme: "nothing", ID: "x"}},
				{{Perms: zk.PermAll, Scheme: "digest", ID: "nocolon"}},
				{{Perms: zk.PermAll, Scheme: "digest", ID: "a:b:c"}},
				{{Perms: zk.PermAll, Scheme: "digest", ID: "a:"}},
				{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}, {Perms: zk.PermAll, Scheme: "", ID: ""}},
			} {
				s.create(c, "/refused", nil, persistent, acl)
				s.create(c, "/no/refused", nil, persistent, acl) // before the parent is looked for
			}
			s.create(owner, "/mine", []byte("x"), persistent, zk.AuthACL(zk.PermAll))
			s.create(owner, "/mine/child", nil, persistent, open)
			s.get(c, "/mine")
			s.set(c, "/mine", nil, 7)
			s.children(c, "/mine")
			s.create(c, "/mine/x", nil, persistent, open)
			s.create(c, "/mine/child", nil, persistent, open)
			s.delete(c, "/mine/child", 7)
			s.delete(c, "/mine/none", -1)
			s.multi(c, check("/mine", -1))
			s.multi(c, create("/y", persistent), set("/mine", "", -1), del("/y", -1))
			s.setACL(c, "/mine", open, 9)
			s.getACL(c, "/mine")
			s.set(c, "/mine/child", []byte("anyone may"), 0)
			s.set(owner, "/mine", []byte("yy"), 0)
			s.getACL(owner, "/mine")
			s.setACL(owner, "/mine", append(reader, zk.DigestACL(zk.PermAll, "me", "secret")...), 0)
			s.setACL(owner, "/mine", reader, 0)
			s.setACL(owner, "/mine", nil, 0)
			s.setACL(owner, "/none", reader, -1)
			s.get(c, "/mine")
			s.getACL(c, "/mine")
			s.children(c, "/mine")
			s.set(c, "/mine", nil, -1)
			s.delete(c, "/mine/child", -1)
			s.multi(c, create("/mine/n-", sequence), set("/mine", "", -1))
			s.delete(owner, "/mine/child", -1)
			s.delete(c, "/mine", -1) // that is up to the parent
			dup := append(zk.WorldACL(zk.PermAll), open...)
			s.create(c, "/dup", nil, persistent, dup)
			s.getACL(c, "/dup")
		},
		want: `
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /mine: /mine
create /mine/child: /mine/child
get /mine: not authenticated
set /mine: not authenticated
children /mine: not authenticated
create /mine/x: not authenticated
create /mine/child: not authenticated
delete /mine/child: not authenticated
delete /mine/none: not authenticated
multi: not authenticated: [not authenticated]
multi: not authenticated: [ok; not authenticated; unknown error: -2]
setACL /mine: not authenticated
getACL /mine: not authenticated
set /mine/child: c2 m3 p2 v1 cv0 av0 len10 kids0
set /mine: c1 m4 p2 v1 cv1 av0 len2 kids1
getACL /mine: [{31 digest me:016djjlksVQS5RgX3M7biBGyYwY=}] c1 m4 p2 v1 cv1 av0 len2 kids1
setACL /mine: c1 m4 p2 v1 cv1 av1 len2 kids1
setACL /mine: version conflict
setACL /mine: invalid ACL specified
setACL /none: node does not exist
get /mine: "yy" c1 m4 p2 v1 cv1 av1 len2 kids1
getACL /mine: [{1 world anyone} {31 digest me:x}] c1 m4 p2 v1 cv1 av1 len2 kids1
children /mine: [child] c1 m4 p2 v1 cv1 av1 len2 kids1
set /mine: not authenticated
delete /mine/child: not authenticated
multi: not authenticated: [not authenticated; unknown error: -2]
delete /mine/child: ok
delete /mine: ok
create /dup: /dup
getACL /dup: [{31 world anyone}] c5 m5 p5 v0 cv0 av0 len0 kids0
`,
		older: map[string][]string{ // before 3.6 a node is looked for before its parent's ACL
			"delete /mine/none: not authenticated": {"delete /mine/none: node does not exist"},
		},
	},
	{
		name: "each permission",
		run: func(s *script) {
			c, owner := s.connect(), s.connect()
			if err := owner.AddAuth("digest", []byte("me:secret")); err != nil {
				s.t.Fatal(err)
			}
			for i, perm := range []int32{zk.PermRead, zk.PermWrite, zk.PermCreate, zk.PermDelete, zk.PermAdmin} {
				p := fmt.Sprintf("/%d", i)
				s.create(owner, p, nil, persistent, append(zk.WorldACL(perm), zk.DigestACL(zk.PermAll, "me", "secret")...))
				s.create(owner, p+"/child", nil, persistent, open)
				s.get(c, p)
				s.children(c, p)
				s.set(c, p, nil, -1)
				s.create(c, p+"/n", nil, persistent, open)
				s.delete(c, p+"/child", -1)
				s.getACL(c, p)
				s.setACL(c, p, append(zk.WorldACL(perm), zk.DigestACL(zk.PermAll, "me", "secret")...), -1)
				s.one(c, p, check(s.root+p, -1))
			}
		},
		want: `
create /0: /0
create /0/child: /0/child
get /0: null c1 m1 p2 v0 cv1 av0 len0 kids1
children /0: [child] c1 m1 p2 v0 cv1 av0 len0 kids1
set /0: not authenticated
create /0/n: not authenticated
delete /0/child: not authenticated
getACL /0: [{1 world anyone} {31 digest me:x}] c1 m1 p2 v0 cv1 av0 len0 kids1
setACL /0: not authenticated
"/0": CheckVersion ok
create /1: /1
create /1/child: /1/child
get /1: not authenticated
children /1: not authenticated
set /1: c3 m5 p4 v1 cv1 av0 len0 kids1
create /1/n: not authenticated
delete /1/child: not authenticated
getACL /1: not authenticated
setACL /1: not authenticated
"/1": CheckVersion not authenticated
create /2: /2
create /2/child: /2/child
get /2: not authenticated
children /2: not authenticated
set /2: not authenticated
create /2/n: /2/n
delete /2/child: not authenticated
getACL /2: not authenticated
setACL /2: not authenticated
"/2": CheckVersion not authenticated
create /3: /3
create /3/child: /3/child
get /3: not authenticated
children /3: not authenticated
set /3: not authenticated
create /3/n: not authenticated
delete /3/child: ok
getACL /3: not authenticated
setACL /3: not authenticated
"/3": CheckVersion not authenticated
create /4: /4
create /4/child: /4/child
get /4: not authenticated
children /4: not authenticated
set /4: not authenticated
create /4/n: not authenticated
delete /4/child: not authenticated
getACL /4: [{16 world anyone} {31 digest me:016djjlksVQS5RgX3M7biBGyYwY=}] c6 m6 p7 v0 cv1 av0 len0 kids1
setACL /4: c6 m6 p7 v0 cv1 av1 len0 kids1
"/4": CheckVersion not authenticated
`,
	},
	{
		name: "credentials that nobody can check cut the connection",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			c.send(1, 100, int32(0), "digest", []byte("me:secret"))
			s.frames(c, 1)
			c.send(-2, 11)
			s.frames(c, 1)
			c.send(3, 100, int32(0), "nothing", []byte("me:secret"))
			s.frames(c, 2)
		},
		want: `
reply 1
reply -2
reply 3: code -115
closed
`,
	},
	{
		name: "watches fire once, for what they watch",
		run: func(s *script) {
			c, other := s.connect(), s.connect()
			s.create(c, "/a", nil, persistent, open)
			data := s.getW(c, "/a")
			s.set(other, "/a", []byte("1"), -1)
			s.event(data)
			s.set(other, "/a", []byte("2"), -1)
			data, exist, kids := s.getW(c, "/a"), s.existsW(c, "/a"), s.childrenW(c, "/a")
			s.create(other, "/a/b", nil, persistent, open)
			s.event(kids)
			s.quiet(c, data)
			kids = s.childrenW(c, "/a")
			s.set(other, "/a/b", nil, -1)
			s.quiet(c, kids)
			s.delete(other, "/a/b", -1)
			s.event(kids)
			s.delete(other, "/a", -1)
			s.event(data)
			s.event(exist)
			s.create(other, "/a", nil, persistent, open)
			kids = s.childrenW(c, "/a")
			s.delete(other, "/a", -1)
			s.event(kids)
			s.getW(c, "/a")      // there is none: no watch
			s.childrenW(c, "/a") // likewise
			exist = s.existsW(c, "/a")
			s.multi(other, create("/a", persistent), del("/none", -1))
			s.quiet(c, exist)
			s.create(other, "/a", nil, persistent, open)
			s.event(exist)
		},
		want: `
create /a: /a
getW /a: null c1 m1 p1 v0 cv0 av0 len0 kids0
set /a: c1 m2 p1 v1 cv0 av0 len1 kids0
event changed /a
set /a: c1 m3 p1 v2 cv0 av0 len1 kids0
getW /a: "2" c1 m3 p1 v2 cv0 av0 len1 kids0
existsW /a: c1 m3 p1 v2 cv0 av0 len1 kids0
childrenW /a: [] c1 m3 p1 v2 cv0 av0 len1 kids0
create /a/b: /a/b
event children /a
no event
childrenW /a: [b] c1 m3 p4 v2 cv1 av0 len1 kids1
set /a/b: c4 m5 p4 v1 cv0 av0 len0 kids0
no event
delete /a/b: ok
event children /a
delete /a: ok
event deleted /a
event deleted /a
create /a: /a
childrenW /a: [] c6 m6 p6 v0 cv0 av0 len0 kids0
delete /a: ok
event deleted /a
getW /a: node does not exist
childrenW /a: node does not exist
existsW /a: no
multi: node does not exist: [ok; node does not exist]
no event
create /a: /a
event created /a
`,
	},
	{
		name: "events come in their place among replies",
		run: func(s *script) {
			c, other := s.newRaw(sessionTimeout), s.connect()
			s.create(other, "/a", nil, persistent, open)
			s.logf("own writes")
			c.send(1, 4, s.root+"/a", true)
			c.send(2, 4, s.root+"/a", true) // one watch
			c.send(3, 3, s.root+"/a", true) // likewise
			c.send(4, 8, s.root+"/a", true)
			c.send(5, 5, s.root+"/a", []byte("x"), int32(-1))
			c.send(6, 2, s.root+"/a", int32(-1))
			c.send(7, 3, s.root+"/a", true)
			c.send(8, 1, s.root+"/a", []byte(nil), open, int32(0))
			c.send(9, 11)
			s.frames(c, 12)
			s.logf("data and children of a deleted node: told once")
			c.send(1, 4, s.root+"/a", true)
			c.send(2, 12, s.root+"/a", true)
			c.send(3, 12, s.root, true)
			c.send(4, 2, s.root+"/a", int32(-1))
			c.send(5, 11)
			s.frames(c, 7)
			s.logf("in a multi")
			s.create(other, "/a", nil, persistent, open)
			c.send(1, 4, s.root+"/a", true)
			c.send(2, 8, s.root+"/a", true)
			c.send(3, 3, s.root+"/a/b", true)
			s.frames(c, 3)
			s.multi(other, set("/a", "1", -1), set("/a", "2", -1), create("/a/b", persistent), create("/a/c", persistent), del("/a/b", -1))
			c.send(4, 11)
			s.frames(c, 4)
			s.logf("another's write, once its effect shows")
			c.send(1, 4, s.root+"/a", true)
			s.frames(c, 1)
			s.set(other, "/a", nil, -1)
			c.send(2, 9, s.root+"/a")
			c.send(3, 3, s.root+"/a", false)
			s.frames(c, 3)
		},
		want: `
create /a: /a
own writes
reply 1
reply 2
reply 3
reply 4
event changed /a
reply 5
event deleted /a
reply 6
reply 7: code -101
event created /a
reply 8
reply -2
data and children of a deleted node: told once
reply 1
reply 2
reply 3
event deleted /a
event children
reply 4
reply -2
in a multi
create /a: /a
reply 1
reply 2
reply 3: code -101
multi: ok: [c1 m2 p1 v1 cv0 av0 len1 kids0; c1 m2 p1 v2 cv0 av0 len1 kids0; /a/b; /a/c; ok]
event changed /a
event created /a/b
event children /a
reply -2
another's write, once its effect shows
reply 1
set /a: c1 m3 p2 v3 cv3 av0 len0 kids1
event changed /a
reply 2
reply 3
`,
	},
	{
		name: "watches set again after a reconnection",
		run: func(s *script) {
			c, other := s.newRaw(sessionTimeout), s.connect()
			for _, p := range []string{"/same", "/changed", "/deleted", "/parent", "/parent/a", "/bereft", "/bereft/a", "/still", "/last"} {
				s.create(other, p, nil, persistent, open)
			}
			c.must(9, s.root) // has seen all of this
			seen := c.lastZxid
			s.set(other, "/changed", nil, -1)
			s.delete(other, "/deleted", -1)
			s.create(other, "/parent/b", nil, persistent, open)
			s.set(other, "/parent/a", nil, -1)
			s.delete(other, "/bereft/a", -1)
			s.create(other, "/created", nil, persistent, open)
			c, err := s.again(c)
			if err != nil {
				s.t.Fatal(err)
			}
			c.must(9, s.root)
			abs := func(paths ...string) []string {
				for i := range paths {
					paths[i] = s.root + paths[i]
				}
				return paths
			}
			c.send(1, 101, seen,
				abs("/same", "/changed", "/deleted", "/parent", "/last"),
				abs("/created", "/absent", "/deleted"),
				abs("/parent", "/bereft", "/still", "/deleted", "/last"))
			s.frames(c, 7)
			s.logf("and those that wait")
			s.delete(other, "/last", -1)
			s.set(other, "/same", nil, -1)
			s.create(other, "/still/a", nil, persistent, open)
			s.create(other, "/absent", nil, persistent, open)
			s.set(other, "/parent", nil, -1)
			s.create(other, "/deleted", nil, persistent, open)
			s.set(other, "/changed", nil, -1)
			c.send(2, 9, s.root)
			s.frames(c, 7)
		},
		want: `
create /same: /same
create /changed: /changed
create /deleted: /deleted
create /parent: /parent
create /parent/a: /parent/a
create /bereft: /bereft
create /bereft/a: /bereft/a
create /still: /still
create /last: /last
set /changed: c2 m5 p2 v1 cv0 av0 len0 kids0
delete /deleted: ok
create /parent/b: /parent/b
set /parent/a: c4 m7 p4 v1 cv0 av0 len0 kids0
delete /bereft/a: ok
create /created: /created
event changed /changed
event deleted /deleted
event created /created
event children /parent
event children /bereft
event deleted /deleted
reply 1
and those that wait
delete /last: ok
set /same: c1 m8 p1 v1 cv0 av0 len0 kids0
create /still/a: /still/a
create /absent: /absent
set /parent: c3 m9 p6 v1 cv2 av0 len0 kids2
create /deleted: /deleted
set /changed: c2 m10 p2 v2 cv0 av0 len0 kids0
event deleted /last
event changed /same
event children /still
event created /absent
event changed /parent
event created /deleted
reply 2
`,
	},
	{
		name: "a client library's watch over a reconnection",
		run: func(s *script) {
			conns := make(chan net.Conn, 16)
			c := connect(s.t, s.servers, func(network, address string, timeout time.Duration) (net.Conn, error) {
				conn, err := s.dial(network, address, timeout)
				if err == nil {
					conns <- conn
				}
				return conn, err
			}, sessionTimeout).Conn
			other := s.connect()
			s.create(c, "/e", nil, ephemeral, open)
			s.create(c, "/a", nil, persistent, open)
			changed, created := s.getW(c, "/a"), s.existsW(c, "/b")
			(<-conns).Close()
			s.set(other, "/a", []byte("x"), -1)
			s.create(other, "/b", nil, persistent, open)
			s.event(changed)
			s.event(created)
			s.exists(c, "/e")
		},
		want: `
create /e: /e
create /a: /a
getW /a: null c2 m2 p2 v0 cv0 av0 len0 kids0
existsW /b: no
set /a: c2 m3 p2 v1 cv0 av0 len1 kids0
create /b: /b
event changed /a
event created /b
exists /e: c1 m1 p1 v0 cv0 av0 len0 kids0 ephemeral
`,
	},
	{
		name: "a session outlives its connection",
		run: func(s *script) {
			c, other := s.newRaw(sessionTimeout), s.connect()
			c.must(1, s.root+"/e", []byte(nil), open, int32(1))
			gone := s.existsW(other, "/e")
			c.Close()
			next, err := s.again(c)
			s.logf("again: %v, same session %v, same password %v, same timeout %v", err,
				next.session == c.session, string(next.password) == string(c.password), next.timeout == c.timeout)
			s.quiet(other, gone)
			next.must(3, s.root+"/e", false)
			s.logf("with a wrong password")
			c.password = make([]byte, 16)
			bad, err := s.again(c)
			s.logf("again: %v, session %d, timeout %v", err, bad.session, bad.timeout)
			s.frames(bad, 1)
			s.logf("which has cut the good one's connection")
			s.frames(next, 1)
			s.logf("a second connection cuts the first")
			c.password = next.password
			first, err := s.again(c)
			s.logf("again: %v", err)
			second, err := s.again(c)
			s.logf("again: %v", err)
			s.frames(first, 1)
			second.send(1, 11)
			s.frames(second, 1)
			s.logf("to close it ends it")
			second.send(2, -11)
			s.frames(second, 2)
			s.event(gone)
			last, err := s.again(c)
			s.logf("again: %v, session %d, timeout %v", err, last.session, last.timeout)
			s.frames(last, 1)
		},
		want: `
existsW /e: c1 m1 p1 v0 cv0 av0 len0 kids0 ephemeral
again: <nil>, same session true, same password true, same timeout true
no event
with a wrong password
again: <nil>, session 0, timeout 0s
closed
which has cut the good one's connection
closed
a second connection cuts the first
again: <nil>
again: <nil>
closed
reply -2
to close it ends it
reply 2
closed
event deleted /e
again: <nil>, session 0, timeout 0s
closed
`,
	},
	{
		name: "a session expires",
		run: func(s *script) {
			other := s.connect()
			c := s.newRaw(3 * time.Second)
			c.must(1, s.root+"/e", []byte(nil), open, int32(1))
			gone := s.existsW(other, "/e")
			start := time.Now()
			for time.Since(start) < c.timeout*3/2 { // pings keep it
				c.send(-2, 11)
				if r := c.reply(); r.xid != -2 || r.code != 0 {
					s.t.Fatalf("ping: %v", r)
				}
				time.Sleep(c.timeout / 4)
			}
			s.quiet(other, gone)
			s.frames(c, 1)
			s.event(gone)
			dead, err := s.again(c)
			s.logf("again: %v, session %d, timeout %v, password %q", err, dead.session, dead.timeout, dead.password)
			s.frames(dead, 1)
		},
		want: `
existsW /e: c1 m1 p1 v0 cv0 av0 len0 kids0 ephemeral
no event
closed
event deleted /e
again: <nil>, session 0, timeout 0s, password "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
closed
`,
	},
	{
		name: "a client library learns that its session ended",
		run: func(s *script) {
			tap := &tap{}
			lib := connect(s.t, s.servers, func(network, address string, timeout time.Duration) (net.Conn, error) {
				conn, err := s.dial(network, address, timeout)
				return &tappedConn{conn, tap}, err
			}, sessionTimeout)
			c := lib.Conn
			s.create(c, "/e", nil, ephemeral, open)
			watch := s.getW(c, "/e")
			thief := dialRaw(s.t, s.servers, s.dial)
			thief.session, thief.password = c.SessionID(), tap.password()
			if err := thief.handshake(sessionTimeout); err != nil || thief.session != c.SessionID() {
				s.t.Fatalf("attach to session %#x: %v, session %#x", c.SessionID(), err, thief.session)
			}
			thief.send(1, -11)
			s.frames(thief, 2)
			s.event(watch)
			lib.await(zk.StateExpired, zk.StateHasSession)
			s.exists(c, "/e")
		},
		want: `
create /e: /e
getW /e: null c1 m1 p1 v0 cv0 av0 len0 kids0 ephemeral
reply 1
closed
event not watching /e
exists /e: no
`,
	},
	{
		name: "a client that has seen more than the server is refused",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			c.must(9, s.root)
			c.lastZxid += 1 << 40
			_, err := s.again(c)
			s.logf("closed: %v", isClosed(err))
			fresh := dialRaw(s.t, s.servers, s.dial)
			fresh.lastZxid = c.lastZxid
			err = fresh.handshake(sessionTimeout)
			s.logf("closed: %v", isClosed(err))
		},
		want: `
closed: true
closed: true
`,
	},
	{
		name: "frames that are no requests",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			s.logf("too short for what they ask: the connection stays")
			c.send(1, 1)
			c.send(2, 1, s.root)
			c.send(3, 4, int32(1<<20))
			c.send(4, 5, s.root, int32(-7))
			c.send(5, 14, int32(1), false)
			c.send(6, 14, int32(99), false, int32(-1))
			c.send(7, 3, int32(-1), false)
			c.send(8, 101, int64(0), int32(5))
			c.send(9, 3, s.root, false, "and something behind it")
			s.frames(c, 9)
			s.logf("an operation that nobody knows")
			c.send(10, 77)
			s.frames(c, 2)
			s.logf("too short to be one")
			c = s.newRaw(sessionTimeout)
			c.Write(frame(int32(1)))
			s.frames(c, 1)
			s.logf("too long")
			c = s.newRaw(sessionTimeout)
			c.Write(pack(int32(1 << 20)))
			s.frames(c, 1)
			s.logf("of negative length")
			c = s.newRaw(sessionTimeout)
			c.Write(pack(int32(-1)))
			s.frames(c, 1)
			s.logf("no handshake")
			c = dialRaw(s.t, s.servers, s.dial)
			c.Write(frame(int32(0), int64(0)))
			s.frames(c, 1)
		},
		want: `
too short for what they ask: the connection stays
reply 1: code -5
reply 2: code -5
reply 3: code -5
reply 4: code -5
reply 5: code -5
reply 6: code -5
reply 7: code -5
reply 8: code -5
reply 9
an operation that nobody knows
reply 10: code -6
closed
too short to be one
closed
too long
closed
of negative length
closed
no handshake
closed
`,
	},
	{
		name: "the longest frame",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			room := 0xfffff - len(frame(int32(1), int32(1), s.root+"/a", []byte{}, open, int32(0))) + 4
			c.send(1, 1, s.root+"/a", make([]byte, room), open, int32(0))
			s.frames(c, 1)
			c.send(2, 5, s.root+"/a", []byte{}, int32(-1))
			s.frames(c, 1)
			c.send(3, 1, s.root+"/b", make([]byte, room+1), open, int32(0))
			s.frames(c, 1)
		},
		want: `
reply 1
reply 2
closed
`,
	},
	{
		name: "requests sent together are answered in turn",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			p := s.root + "/a"
			c.Write(slices.Concat(
				frame(int32(1), int32(1), p, []byte("one"), open, int32(0)),
				frame(int32(2), int32(4), p, false),
				frame(int32(3), int32(5), p, []byte("two"), int32(0)),
				frame(int32(4), int32(4), p, false),
				frame(int32(-2), int32(11)),
				frame(int32(6), int32(2), p, int32(0)),
				frame(int32(7), int32(2), p, int32(1)),
				frame(int32(8), int32(4), p, false),
				frame(int32(9), int32(9), p)))
			for range 9 {
				r := c.reply()
				text := ""
				if r.xid == 2 || r.xid == 4 {
					text = string(r.body[4 : len(r.body)-68])
				}
				s.logf("%v %s", r, text)
			}
		},
		want: `
reply 1
reply 2 one
reply 3
reply 4 two
reply -2
reply 6: code -103
reply 7
reply 8: code -101
reply 9
`,
	},
}

// Below is what the scenarios are written with.

// A script runs a scenario and keeps its transcript.
type script struct {
	t       *testing.T
	servers []string
	dial    zk.Dialer
	root    string
	shared  bool // others may use the servers at the same time
	lines   []string
	times   map[int64]int64 // of transactions
	admin   *zk.Conn
}

func newScript(t *testing.T, servers []string, dial zk.Dialer) *script {
	s := &script{
		t: t, servers: servers, dial: dial,
		root:  fmt.Sprintf("/conformance-%016x", rand.Uint64()),
		times: make(map[int64]int64),
	}
	s.admin = s.connect()
	if err := s.admin.AddAuth("digest", []byte("me:secret")); err != nil { // to clean up
		t.Fatal(err)
	}
	if _, err := s.admin.Create(s.root, nil, 0, open); err != nil {
		t.Fatalf("create %s: %v", s.root, err)
	}
	t.Cleanup(func() { s.deleteAll(s.root) })
	return s
}

func (s *script) deleteAll(p string) {
	names, _, err := s.admin.Children(p)
	if err != nil {
		s.t.Errorf("clean up %s: %v", p, err)
		return
	}
	for _, name := range names {
		s.deleteAll(path.Join(p, name))
	}
	if err := s.admin.Delete(p, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		s.t.Errorf("clean up %s: %v", p, err)
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// sessionTimeout is long, as a real server may be starved on a machine that is
// busy with other tests.
const sessionTimeout = 30 * time.Second

// connect opens a connection that is closed at the end of the test.
func (s *script) connect() *zk.Conn {
	s.t.Helper()
	return connect(s.t, s.servers, s.dial, sessionTimeout).Conn
}

// A client is a connection of the client library with all its events.
type client struct {
	*zk.Conn
	t      testing.TB
	states chan zk.State
}

func connect(t testing.TB, servers []string, dial zk.Dialer, timeout time.Duration) *client {
	t.Helper()
	states := make(chan zk.State, 1000)
	conn, events, err := zk.Connect(servers, timeout, zk.WithDialer(dial), zk.WithLogger(silent{}),
		zk.WithEventCallback(func(ev zk.Event) {
			if ev.Type == zk.EventSession {
				states <- ev.State
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events { // until all its goroutines have ended
		}
	})
	c := &client{conn, t, states}
	c.await(zk.StateHasSession)
	return c
}

// await waits until the connection has gone through states, in this order.
func (c *client) await(states ...zk.State) {
	c.t.Helper()
	limit := time.After(patience)
	for _, want := range states {
		for state := zk.StateUnknown; state != want; {
			select {
			case state = <-c.states:
			case <-limit:
				c.t.Fatalf("no %v after %v; the state is %v", want, patience, c.State())
			}
		}
		if want == zk.StateHasSession {
			// go-zookeeper is not through yet: it goes on to set its watches, and
			// races with the replies to requests. No event tells when it has.
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (s *script) logf(format string, args ...any) {
	s.lines = append(s.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (s *script) abs(p string) string { return s.root + p }

func (s *script) rel(p string) string { return strings.ReplaceAll(p, s.root, "") }

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return strings.TrimPrefix(err.Error(), "zk: ")
}

var zxidMark = regexp.MustCompile(`<(-?\d+)>`)

// transcript puts the ranks of transactions in their places.
func (s *script) transcript() string {
	text := strings.Join(s.lines, "\n")
	rank := make(map[string]int)
	var zxids []int64
	for _, m := range zxidMark.FindAllStringSubmatch(text, -1) {
		var zxid int64
		fmt.Sscan(m[1], &zxid)
		zxids = append(zxids, zxid)
	}
	slices.Sort(zxids)
	for i, zxid := range slices.Compact(zxids) {
		rank[fmt.Sprintf("<%d>", zxid)] = i + 1
	}
	return zxidMark.ReplaceAllStringFunc(text, func(m string) string { return fmt.Sprint(rank[m]) })
}

func (s *script) stat(st *zk.Stat) string {
	s.checkTimes(st)
	text := fmt.Sprintf("c<%d> m<%d> p<%d> v%d cv%d av%d len%d kids%d",
		st.Czxid, st.Mzxid, st.Pzxid, st.Version, st.Cversion, st.Aversion, st.DataLength, st.NumChildren)
	if st.EphemeralOwner != 0 {
		text += " ephemeral"
	}
	return text
}

// checkTimes checks that what one transaction did has one time, and that times
// do not run against the order of transactions: the clock is not stepped here.
func (s *script) checkTimes(st *zk.Stat) {
	for zxid, t := range map[int64]int64{st.Czxid: st.Ctime, st.Mzxid: st.Mtime} {
		if old, ok := s.times[zxid]; ok && old != t {
			s.t.Errorf("transaction %#x has the times %d and %d", zxid, old, t)
		}
		s.times[zxid] = t
	}
	last := int64(0)
	for _, zxid := range slices.Sorted(maps.Keys(s.times)) {
		if s.times[zxid] < last {
			s.t.Errorf("transaction %#x is stamped before an earlier one", zxid)
		}
		last = s.times[zxid]
	}
}

func (s *script) create(c *zk.Conn, p string, data []byte, flags int32, acl []zk.ACL) {
	made, err := c.Create(s.abs(p), data, flags, acl)
	s.logf("create %s: %s", p, cmp.Or(s.rel(made), errText(err)))
}

func (s *script) set(c *zk.Conn, p string, data []byte, version int32) {
	st, err := c.Set(s.abs(p), data, version)
	if err != nil {
		s.logf("set %s: %s", p, errText(err))
		return
	}
	s.logf("set %s: %s", p, s.stat(st))
}

func (s *script) delete(c *zk.Conn, p string, version int32) {
	s.logf("delete %s: %s", p, errText(c.Delete(s.abs(p), version)))
}

func (s *script) logGet(op, p string, data []byte, st *zk.Stat, err error) {
	text := fmt.Sprintf("%q", data)
	if data == nil {
		text = "null"
	}
	if err != nil {
		s.logf("%s %s: %s", op, p, errText(err))
		return
	}
	s.logf("%s %s: %s %s", op, p, text, s.stat(st))
}

func (s *script) get(c *zk.Conn, p string) {
	data, st, err := c.Get(s.abs(p))
	s.logGet("get", p, data, st, err)
}

func (s *script) getW(c *zk.Conn, p string) <-chan zk.Event {
	data, st, ch, err := c.GetW(s.abs(p))
	s.logGet("getW", p, data, st, err)
	return ch
}

func (s *script) logExists(op, p string, ok bool, st *zk.Stat, err error) {
	switch {
	case err != nil:
		s.logf("%s %s: %s", op, p, errText(err))
	case !ok:
		s.logf("%s %s: no", op, p)
	default:
		s.logf("%s %s: %s", op, p, s.stat(st))
	}
}

func (s *script) exists(c *zk.Conn, p string) {
	ok, st, err := c.Exists(s.abs(p))
	s.logExists("exists", p, ok, st, err)
}

func (s *script) existsW(c *zk.Conn, p string) <-chan zk.Event {
	ok, st, ch, err := c.ExistsW(s.abs(p))
	s.logExists("existsW", p, ok, st, err)
	return ch
}

func (s *script) logChildren(op, p string, names []string, st *zk.Stat, err error) {
	if err != nil {
		s.logf("%s %s: %s", op, p, errText(err))
		return
	}
	slices.Sort(names) // they come in no order
	s.logf("%s %s: %v %s", op, p, names, s.stat(st))
}

func (s *script) children(c *zk.Conn, p string) {
	names, st, err := c.Children(s.abs(p))
	s.logChildren("children", p, names, st, err)
}

func (s *script) childrenW(c *zk.Conn, p string) <-chan zk.Event {
	names, st, ch, err := c.ChildrenW(s.abs(p))
	s.logChildren("childrenW", p, names, st, err)
	return ch
}

func (s *script) sync(c *zk.Conn, p string) {
	got, err := c.Sync(s.abs(p))
	s.logf("sync %s: %s", p, cmp.Or(s.rel(got), errText(err)))
}

func (s *script) closeConn(c *zk.Conn) {
	c.Close()
	s.logf("close")
}

func create(p string, flags int32) any {
	return &zk.CreateRequest{Path: p, Data: []byte{}, Acl: open, Flags: flags}
}
func del(p string, version int32) any { return &zk.DeleteRequest{Path: p, Version: version} }
func check(p string, version int32) any {
	return &zk.CheckVersionRequest{Path: p, Version: version}
}
func set(p, data string, version int32) any {
	return &zk.SetDataRequest{Path: p, Data: []byte(data), Version: version}
}

func (s *script) multi(c *zk.Conn, ops ...any) {
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			op.Path = s.abs(op.Path)
		case *zk.DeleteRequest:
			op.Path = s.abs(op.Path)
		case *zk.SetDataRequest:
			op.Path = s.abs(op.Path)
		case *zk.CheckVersionRequest:
			op.Path = s.abs(op.Path)
		}
	}
	results, err := c.Multi(ops...)
	var texts []string
	for _, r := range results {
		switch {
		case r.Error != nil:
			texts = append(texts, errText(r.Error))
		case r.Stat != nil:
			texts = append(texts, s.stat(r.Stat))
		default:
			texts = append(texts, cmp.Or(s.rel(r.String), "ok"))
		}
	}
	s.logf("multi: %s: [%s]", errText(err), strings.Join(texts, "; "))
}

const patience = time.Minute // for what is to come from a server

var eventNames = map[zk.EventType]string{
	zk.EventNodeCreated: "created", zk.EventNodeDeleted: "deleted",
	zk.EventNodeDataChanged: "changed", zk.EventNodeChildrenChanged: "children",
	zk.EventNotWatching: "not watching",
}

// event waits for a watch's event.
func (s *script) event(ch <-chan zk.Event) {
	select {
	case ev := <-ch:
		s.logf("event %s %s", eventNames[ev.Type], s.rel(ev.Path))
	case <-time.After(patience):
		s.logf("no event after %v", patience)
	}
}

// quiet notes whether a watch has fired up to now: servers send events before
// the replies to later reads.
func (s *script) quiet(c *zk.Conn, ch <-chan zk.Event) {
	if _, _, err := c.Exists(s.root); err != nil {
		s.t.Fatal(err)
	}
	select {
	case ev := <-ch:
		s.logf("event %s %s", eventNames[ev.Type], s.rel(ev.Path))
	default:
		s.logf("no event")
	}
}

// one runs each operation in a multi of its own.
func (s *script) one(c *zk.Conn, what string, ops ...any) {
	var texts []string
	for _, op := range ops {
		name := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", op), "*zk."), "Request")
		_, err := c.Multi(op)
		texts = append(texts, name+" "+errText(err))
	}
	s.logf("%q: %s", what, strings.Join(texts, ", "))
}

func (s *script) setACL(c *zk.Conn, p string, acl []zk.ACL, version int32) {
	st, err := c.SetACL(s.abs(p), acl, version)
	if err != nil {
		s.logf("setACL %s: %s", p, errText(err))
		return
	}
	s.logf("setACL %s: %s", p, s.stat(st))
}

func (s *script) getACL(c *zk.Conn, p string) {
	acl, st, err := c.GetACL(s.abs(p))
	if err != nil {
		s.logf("getACL %s: %s", p, errText(err))
		return
	}
	s.logf("getACL %s: %v %s", p, acl, s.stat(st))
}

// random makes 60 random requests, and notes what watches fire after each.
func (s *script) random(seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	node := func() string { return pick("/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/p") }
	version := func() int32 { return int32(rnd.IntN(4)) - 1 }
	flags := func() int32 { return int32(rnd.IntN(4)) }
	made := []string{"/a"} // sequential nodes, too
	for range 5 {
		made = append(made, fmt.Sprintf("/%s%010d", pick("a", "a/x", "b/x"), rnd.IntN(4)))
	}
	anyNode := func() string { return pick(append(made, node(), node())...) }
	c, w := s.connect(), s.connect()
	var watches []<-chan zk.Event
	for range 60 {
		switch rnd.IntN(12) {
		case 0, 1, 2:
			s.create(c, node(), []byte(pick("", "x", "yy")), flags(), open)
		case 3:
			s.set(c, anyNode(), []byte(pick("", "x", "yy")), version())
		case 4:
			s.delete(c, anyNode(), version())
		case 5, 6:
			var ops []any
			for range 1 + rnd.IntN(4) {
				switch rnd.IntN(5) {
				case 0, 1:
					ops = append(ops, create(node(), flags()))
				case 2:
					ops = append(ops, set(anyNode(), pick("", "x"), version()))
				case 3:
					ops = append(ops, del(anyNode(), version()))
				case 4:
					ops = append(ops, check(anyNode(), version()))
				}
			}
			s.multi(c, ops...)
		case 7:
			s.get(c, anyNode())
		case 8:
			s.children(c, anyNode())
		case 9:
			watches = append(watches, s.getW(w, anyNode()))
		case 10:
			watches = append(watches, s.existsW(w, anyNode()))
		case 11:
			watches = append(watches, s.childrenW(w, anyNode()))
		}
		if _, _, err := w.Exists(s.root); err != nil { // events come before its reply
			s.t.Fatal(err)
		}
		for i, ch := range watches {
			select {
			case ev, ok := <-ch:
				if ok {
					s.logf("watch %d: %s %s", i, eventNames[ev.Type], s.rel(ev.Path))
				}
			default:
			}
		}
	}
}

// transactions counts the transactions of f. A real server may have more at the
// same time, of others who use it, but never fewer: so there the least of many
// tries counts. f has to observe the same each time.
func (s *script) transactions(c *zk.Conn, what string, f func()) {
	mark := func() int64 {
		st, err := c.Set(s.root, nil, -1)
		if err != nil {
			s.t.Fatal(err)
		}
		return st.Mzxid
	}
	tries := 1
	if s.shared {
		tries = 20
	}
	lines, least := len(s.lines), int64(1000)
	try := func() {
		s.lines = s.lines[:lines]
		before := mark()
		f()
		least = min(least, mark()-before-1)
	}
	for range tries {
		try()
	}
	// Nothing that is counted makes more than one: more are those of others on the same
	// server, who come to rest.
	for end := time.Now().Add(20 * time.Second); s.shared && least > 1 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		try()
	}
	s.logf("%s: %d transactions", what, least)
}
