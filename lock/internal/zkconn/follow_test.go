package zkconn

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// following is a world of three servers, and a connection that follows their configuration.
type following struct {
	*world
	log  lines
	conn *Conn
}

type lines struct {
	mu  sync.Mutex
	all []map[string]any
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := map[string]any{}
	if err := json.NewDecoder(bytes.NewReader(p)).Decode(&line); err != nil {
		return 0, err
	}
	l.all = append(l.all, line)
	return len(p), nil
}

// of returns the lines whose messages begin with message, in short form.
func (l *lines) of(message string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.HasPrefix(line["message"].(string), message) {
			found = append(found, fmt.Sprint(line["from"], line["to"], line["server"], line["why"]))
		}
	}
	return found
}

// follow runs f with a connection that follows the configuration. begin has the indices of the servers
// that are passed to Dial.
func follow(t *testing.T, begin []int, f func(w *following)) {
	t.Helper()
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		fw := &following{world: w}
		cfg := w.config("a")
		cfg.Log = zerolog.New(&fw.log).Level(zerolog.InfoLevel)
		cfg.Follow = true
		all := w.Servers()
		fw.conn = w.dial(cfg, pick(all, begin)...)
		f(fw)
	})
}

func pick(all []string, indices []int) (some []string) {
	for _, i := range indices {
		some = append(some, all[i])
	}
	return some
}

// members sets the ensemble's configuration.
func (w *following) members(version int, servers ...string) {
	w.Helper()
	var text strings.Builder
	for i, s := range servers {
		fmt.Fprintf(&text, "server.%d=192.0.2.99:2888:3888:participant;%s\n", i+1, s)
	}
	fmt.Fprintf(&text, "version=%x", version)
	w.write(text.String())
}

func (w *following) write(text string) {
	w.Helper()
	iferr.Fatal(w, w.SetConfig(text))
}

// server returns the server of the connection, "none" without a session.
func (w *following) server() string {
	if live := w.conn.own.live.Load(); live != nil && w.conn.hasSession() {
		return live.address
	}
	return "none"
}

func (w *following) knows(servers ...string) bool {
	return slices.Equal(w.conn.own.hosts.known(), slices.Sorted(slices.Values(servers)))
}

func (w *following) follows() bool {
	h := w.conn.own.hosts
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members != nil
}

// TestFollow: a client that knows one server finds the other servers, and leaves each server that
// is removed. Its session goes on, although the removed servers still serve.
func TestFollow(t *testing.T) {
	follow(t, []int{0}, func(w *following) {
		all := w.Servers()
		session := w.conn.Session()
		version := 1
		w.members(version, all...)
		w.Until("the client knows all servers", func() bool { return w.knows(all...) })
		if w.server() != all[0] {
			w.Errorf("it is at %s; nothing was removed", w.server())
		}
		for range 6 {
			from := w.server()
			version++
			w.members(version, slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == from })...)
			w.Until("the client has left "+from, func() bool { return w.server() != from && w.server() != "none" })
			version++
			w.members(version, all...)
			w.Until("the client knows all servers", func() bool { return w.knows(all...) })
		}
		if w.conn.Session() != session {
			w.Error("the session has changed")
		}
		iferr.Fatal(w, w.Stop(all[0]))
		iferr.Error(w, iferr.Of(w.conn.Exists(w.ctx, configNode)))
		if changes := w.log.of("the ensemble's servers changed"); len(changes) != 13 || changes[0] != fmt.Sprint([]any{all[0]}, []any{all[0], all[1], all[2]}, nil, nil) {
			w.Errorf("%d changes: %q", len(changes), changes)
		}
		if left := w.log.of("the ensemble has removed this server"); len(left) != 6 {
			w.Errorf("it left %q", left)
		}
	})
}

// TestFollowIgnoresOldConfigurations: a client ignores a configuration of a lower version, which a
// server that lags behind may have.
func TestFollowIgnoresOldConfigurations(t *testing.T) {
	follow(t, []int{0, 1, 2}, func(w *following) {
		all := w.Servers()
		w.members(0x1a, all...)
		w.Until("the client knows all servers", func() bool { return w.follows() })
		w.members(0x9, all[1])
		time.Sleep(5 * time.Minute)
		if !w.knows(all...) {
			w.Errorf("knows %q", w.conn.own.hosts.known())
		}
		w.conn.own.hosts.forget() // as after the servers have lost their data
		w.Until("the client takes the configuration", func() bool { return w.knows(all[1]) })
		if changes := w.log.of("the ensemble's servers changed"); len(changes) != 1 {
			w.Errorf("%q", changes)
		}
	})
}

// TestFollowFallsBack: if no member answers, the client connects to the configured servers. It
// stays there, although none of them is a member, and returns to the members after the next change.
func TestFollowFallsBack(t *testing.T) {
	follow(t, []int{0}, func(w *following) {
		all := w.Servers()
		w.members(1, "198.51.100.1:2181", "198.51.100.2:2181")
		w.Until("the client knows the members", func() bool { return w.knows("198.51.100.1:2181", "198.51.100.2:2181") })
		time.Sleep(time.Hour)
		if down := w.conn.LastOutage(); down != -1 {
			w.Errorf("the connection was lost at %v; its server, which was never a member, was not removed", down)
		}
		for range 3 {
			w.Cut("a")
			w.Until("the client is back", func() bool { return w.server() == all[0] })
		}
		if n := len(w.log.of("no member of the ensemble answers")); n != 1 {
			w.Errorf("told %d times", n)
		}
		var reads atomic.Int32
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if slices.Contains(r.Paths, configNode) {
				reads.Add(1)
			}
			return locktest.Fault{}
		})
		time.Sleep(time.Hour)
		w.Intercept(nil)
		if n := reads.Load(); n > 100 {
			w.Errorf("it has read the configuration %d times in an hour", n)
		}
		w.members(2, all[1])
		w.Until("the client knows the member", func() bool { return w.knows(all[1]) })
		w.Cut("a")
		w.Until("the client is at the member", func() bool { return w.server() == all[1] })
	})
}

// TestFollowFallsBackToARemovedServer: a client at a removed server that still serves tries the
// members again, less and less often.
func TestFollowFallsBackToARemovedServer(t *testing.T) {
	follow(t, []int{0}, func(w *following) {
		all := w.Servers()
		w.members(1, all[0])
		w.Until("the client knows the member", func() bool { return w.follows() })
		w.members(2, "198.51.100.1:2181")
		tried := func() int { return len(w.log.of("no member of the ensemble answers")) }
		w.Until("it has left the server, and returned", func() bool { return tried() == 1 && w.server() == all[0] })
		time.Sleep(time.Minute)
		if n := tried(); n < 2 || n > 4 {
			w.Errorf("tried %d times in the first minute", n)
		}
		time.Sleep(12 * time.Hour)
		if n := tried(); n < 12 || n > 25 {
			w.Errorf("tried %d times in half a day", n)
		}
	})
}

// TestFollowLeavesARemovedServerLater: if no member answers, as in an election, the client returns
// to a removed server. It leaves when a member answers.
func TestFollowLeavesARemovedServerLater(t *testing.T) {
	follow(t, []int{0}, func(w *following) {
		all := w.Servers()
		w.members(1, all[0])
		w.Until("the client knows the member", func() bool { return w.follows() })
		iferr.Fatal(w, w.Partition("a", all[1:]...))
		w.members(2, all[1])
		w.Until("it has left the server, and returned", func() bool {
			return len(w.log.of("no member of the ensemble answers")) == 1 && w.server() == all[0]
		})
		w.Heal("a")
		w.Until("it is at the member", func() bool { return w.server() == all[1] })
	})
}

// TestFollowWarns: a client logs each reason why it cannot follow, but only once, and follows when
// it can.
func TestFollowWarns(t *testing.T) {
	follow(t, []int{0, 1, 2}, func(w *following) {
		all := w.Servers()
		says := func(n int, what string) {
			w.Helper()
			w.Until(what, func() bool {
				told := w.log.of("cannot follow the ensemble's configuration")
				return len(told) == n && strings.Contains(told[n-1], what)
			})
			time.Sleep(10 * time.Minute)
			if told := w.log.of("cannot follow the ensemble's configuration"); len(told) != n {
				w.Errorf("%q", told)
			}
		}
		says(1, "it names no servers")
		w.write("server.1=192.0.2.1:2888:3888:participant\nversion=0")
		says(2, "it has no address for clients")
		for i, refused := range []struct {
			code int32
			says string
		}{{-102, "an ACL forbids to read it"}, {-101, "there is none"}} {
			w.Intercept(func(r locktest.Request) locktest.Fault {
				if slices.Contains(r.Paths, configNode) {
					return locktest.Fault{Code: refused.code}
				}
				return locktest.Fault{}
			})
			says(3+i, refused.says)
		}
		w.Intercept(nil)
		w.members(1, all[1])
		w.Until("the client follows", func() bool { return w.knows(all[1]) })
	})
}

// TestFollowWithoutWatches: a change is noticed although its watch was lost.
func TestFollowWithoutWatches(t *testing.T) {
	follow(t, []int{0, 1, 2}, func(w *following) {
		all := w.Servers()
		w.members(1, all...)
		w.Until("the client follows", func() bool { return w.follows() })
		w.LoseWatches("a")
		w.members(2, all[2])
		w.Until("the client follows", func() bool { return w.knows(all[2]) })
	})
}

// TestRemovedByAnotherName: a server that is listed under another name, or whose names cannot be
// resolved, is not removed.
func TestRemovedByAnotherName(t *testing.T) {
	h, _ := testHosts(t, "192.0.2.1:2181")
	names := map[string][]string{"one": {"192.0.2.1"}, "1": {"192.0.2.1"}, "two": {"192.0.2.2"}, "192.0.2.1": {"192.0.2.1"}}
	h.cfg.lookup = lookupIn(names)
	at, _ := h.Next()
	h.Connected()
	version := uint64(0)
	members := func(servers ...string) bool {
		version++
		slices.Sort(servers)
		h.follow(Members{version, servers})
		return h.isRemoved(at)
	}
	if members("one:2181", "two:2181") || members("1:2181", "two:2181") || members("two:2181", "unknown:2181") {
		t.Error("removed")
	}
	if !members("two:2181") {
		t.Error("not removed")
	}
	if members("192.0.2.1:2181") {
		t.Error("removed, and added again")
	}
	if !members("192.0.2.1:2182") {
		t.Error("not removed, and its port has changed")
	}
	members("one:2181")
	h.Next()
	h.Connected()
	names["one"] = []string{"192.0.2.7"}
	if members("one:2181", "two:2181") {
		t.Error("removed, and only its address has changed")
	}
}

// TestHostsFallBack: the configured servers are tried after a round of members has failed, and until
// a member answers.
func TestHostsFallBack(t *testing.T) {
	const configured, member = "192.0.2.1:2181", "192.0.2.2:2181"
	h, now := testHosts(t, configured)
	next := func(want string) {
		t.Helper()
		if address, _ := h.Next(); address != want {
			t.Errorf("next is %s, want %s", address, want)
		}
	}
	next(configured)
	h.Connected()
	h.follow(Members{1, []string{member}})
	for range 20 { // as in an election
		next(member)
	}
	*now += fallbackAfter
	for range 3 { // no server answers
		next(configured)
		next(member)
	}
	next(configured)
	h.Connected()
	next(member)
	next(configured)
	next(member)
	h.Connected()
	next(member)
}

// TestHostsFallBackToAName: the configuration of the ensemble has a server's address, but certificates
// and Kerberos principals have the server's name. The fallback is to the configured name.
func TestHostsFallBackToAName(t *testing.T) {
	const named, member = "zk1.example.com:2281", "192.0.2.1:2281"
	h, now := testHosts(t, named)
	h.cfg.lookup = func(_ context.Context, host string) ([]string, error) { return []string{"192.0.2.1"}, nil }
	next := func(want string) {
		t.Helper()
		address, _ := h.Next()
		if name := h.nameOf(address); address != member || name != want {
			t.Errorf("next is %s of %s, want %s of %s", address, name, member, want)
		}
	}
	next("zk1.example.com")
	h.Connected()
	h.follow(Members{1, []string{member}})
	next("192.0.2.1")
	*now += fallbackAfter
	next("zk1.example.com")
	h.Connected()
	next("zk1.example.com")
}
