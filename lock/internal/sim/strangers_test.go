// Nodes and contenders of other programs.

package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// theirs is a node of another program.
type theirs struct {
	czxid   int64
	data    string
	version int32
	empty   bool // empty at first: a lock may adopt it, which its data shows
	young   bool // a lock existed at this path while the node was recreated
	early   bool // a client may still use a snapshot of the previous node at this path
}

var open = zk.WorldACL(zk.PermAll)

// makeTheirs creates the other programs' nodes below the root before the history begins.
func (s *sim) makeTheirs(z *zk.Conn) {
	nodes := []struct{ path, data string }{
		{"/locks", ""}, {"/locks/" + foreign, "10.0.0.1"}, {"/locks/" + foreign + "/below", ""}, {"/locks/plain", ""}, {"/locks/r", ""},
		{"/locks/" + foreign + "/" + znode.Prefix(znode.FormatID(s.seed), znode.Exclusive) + "0000000000", "garbage"},
	}
	if slices.Contains(s.names, found) {
		nodes = append(nodes, struct{ path, data string }{"/locks/" + found, ""})
		s.count("parents found empty")
	}
	for _, n := range nodes {
		if _, err := z.Create(n.path, []byte(n.data), 0, open); err != nil {
			s.Fatalf("seed %d: create %s: %v", s.seed, n.path, err)
		}
		made, _ := s.node(n.path)
		s.theirs[n.path] = theirs{czxid: made.Stat.Czxid, data: n.data, empty: n.path == "/locks/"+found}
	}
}

// node returns a node as the leader has it.
func (s *sim) node(path string) (locktest.Node, bool) {
	nodes := s.Dump(path)
	if len(nodes) == 0 || nodes[0].Path != path {
		return locktest.Node{}, false
	}
	return nodes[0], true
}

// checkTheirs checks that other programs' nodes are unchanged. Empty ones may have been adopted. It
// does not check young ones, nor the data of early ones.
func (s *sim) checkTheirs() {
	s.mu.Lock()
	var paths []string
	for path := range s.theirs {
		paths = append(paths, path)
	}
	s.mu.Unlock()
	slices.Sort(paths)
	for _, path := range paths {
		n, there := s.node(path)
		s.mu.Lock()
		want := s.theirs[path]
		parent, err := znode.DecodeParent(n.Data)
		switch {
		case want.young:
		case !there || n.Stat.Czxid != want.czxid:
			s.violatedLocked("%s was another program's and has been deleted", path)
		case want.early:
		case want.empty && len(n.Data) > 0 && (err != nil || !parent.Adopted):
			s.violatedLocked("%s was found empty, and is %q", path, n.Data)
		case !want.empty && (want.data != string(n.Data) || want.version != n.Stat.Version):
			s.violatedLocked("%s is another program's and was changed, from %q, version %d, to %q, version %d",
				path, want.data, want.version, n.Data, n.Stat.Version)
		}
		s.mu.Unlock()
	}
}

// remakeAll acts as another program that recreates the parent of a lock again and again.
func (s *sim) remakeAll(z *zk.Conn, steps []step) {
	path := "/locks/" + remade
	for i, one := range steps {
		if !s.await(one) {
			return
		}
		r := s.random(one.id())
		s.checkTheirs()
		was, there := s.node(path)
		if there && !s.takeAway(z, path) {
			continue
		}
		version := int32(r.IntN(6))
		if there && !oneIn(r, 3) {
			version = was.Stat.Version
		}
		data := ""
		if !oneIn(r, 3) {
			data = fmt.Sprintf("stranger %d", i)
		}
		s.remake(z, r, path, data, min(version, 100))
	}
}

// takeAway deletes a lock's parent, as another program, and removes it from s.theirs. It returns
// false if the delete fails, as it does while the node has a child.
func (s *sim) takeAway(z *zk.Conn, path string) bool {
	if err := z.Delete(path, -1); err != nil {
		s.say("stranger: delete %s: %v", path, err)
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayLocked("stranger: deleted %s", path)
	delete(s.theirs, path)
	return true
}

// remake creates a missing parent, empty or with foreign data, at a version that it may have had
// before. A client may use a snapshot of a parent for up to 100 ms, and a request may be that old
// when it is sent. So remake waits for that time and for requests in flight. If it does not wait,
// clients may write the node, but not delete it.
func (s *sim) remake(z *zk.Conn, r *rand.Rand, path, data string, version int32) {
	folder, _ := s.node("/locks/r")
	if _, there := s.node(path); there {
		return
	}
	early := s.early && oneIn(r, 2)
	if early && !s.pause(r, 0, 100*time.Millisecond) || !early && !s.pause(r, 250*time.Millisecond+5*s.slow, 2*time.Second) {
		return
	}
	ops := []any{&zk.CreateRequest{Path: path, Data: []byte(data), Acl: open}}
	for range version {
		ops = append(ops, &zk.SetDataRequest{Path: path, Data: []byte(data), Version: -1})
	}
	ops = append(ops, &zk.SetDataRequest{Path: "/locks/r", Version: -1})
	replies, err := z.Multi(ops...)
	if err != nil {
		s.say("stranger: make %s: %v", path, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The folder counts creates, so its counter shows whether a lock existed in between.
	now := replies[len(replies)-1].Stat
	made := (now.Cversion+now.NumChildren)/2 - (folder.Stat.Cversion+folder.Stat.NumChildren)/2
	s.theirs["/locks/r"] = theirs{czxid: folder.Stat.Czxid, version: now.Version}
	s.theirs[path] = theirs{czxid: now.Mzxid, data: data, version: version, empty: data == "", young: made > 1, early: early}
	if early {
		s.tally.count("parents made again early", 1)
	}
	s.sayLocked("stranger: made %s with %q at version %d; %d were made since", path, data, version, made-1)
	s.tally.count("parents made again", 1)
}

// styles has the name patterns of other libraries' contenders, and their names in the tally.
var styles = []struct{ before, after, holds string }{
	{"_c_", "-lock-", "holds of zk.Lock's"},
	{"", "__lock__", "holds of kazoo's"},
}

// contend runs a contender of another library. For each step it
// creates an ephemeral entry, holds the lock when that entry is the first, and deletes the entry.
func (s *sim) contend(label string, steps []step) {
	z := s.connect(label)
	defer z.Close()
	for _, one := range steps {
		if !s.await(one) {
			return
		}
		r, name, style := s.random(one.id()), one.text("lock"), styles[0]
		if one.has("kazoo") {
			style = styles[1]
		}
		own := fmt.Sprintf("/locks/%s/%s%016x%016x%s", name, style.before, r.Uint64(), r.Uint64(), style.after)
		if _, err := z.Create(own, nil, zk.FlagEphemeral|zk.FlagSequence, open); err != nil {
			s.say("%s: %s: %v", label, own, err)
		}
		if path, there := s.entryOf(own); there && s.isTurn(z, one.time("within"), path) {
			s.mu.Lock()
			s.sayLocked("%s: has %s by %s", label, name, path)
			if name != slots {
				s.mayEnter(label, name, held{reads: new(atomic.Bool)})
			}
			s.tally.count(style.holds, 1)
			s.mu.Unlock()
			s.rest(one.time("hold"))
		}
		for path, there := s.entryOf(own); there; path, there = s.entryOf(own) {
			s.say("%s: leaves %s: %v", label, path, z.Delete(path, -1))
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// entryOf returns the path of the node whose path begins with the prefix, if there is one.
func (s *sim) entryOf(prefix string) (path string, there bool) {
	for _, n := range s.Dump(prefix[:strings.LastIndexByte(prefix, '/')]) {
		if strings.HasPrefix(n.Path, prefix) {
			return n.Path, true
		}
	}
	return "", false
}

// isTurn waits until the entry of another library at path is the first, or the time is over. It
// reports whether the entry is the first.
func (s *sim) isTurn(z *zk.Conn, within time.Duration, path string) bool {
	ctx, cancel := context.WithTimeout(s.until, cmp.Or(within, s.lasts))
	defer cancel()
	at := strings.LastIndexByte(path, '/')
	sequence := path[len(path)-10:]
	for ctx.Err() == nil {
		children, _, changed, err := z.ChildrenW(path[:at])
		isFirst := err == nil && slices.Contains(children, path[at+1:]) && !slices.ContainsFunc(children, func(name string) bool {
			return isContender(name) && name[len(name)-10:] < sequence
		})
		if isFirst {
			_, there := s.node(path) // unless its session has just ended
			return there
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return false
}
