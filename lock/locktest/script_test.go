package locktest_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

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

// script runs a scenario and keeps its transcript.
type script struct {
	t       *testing.T
	servers []string
	dial    zk.Dialer
	root    string
	shared  bool // other clients may use the servers at the same time
	lines   []string
	times   map[int64]int64 // times of transactions, by zxid
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

// connect opens a connection that is closed at the end of the test.
func (s *script) connect() *zk.Conn {
	s.t.Helper()
	return connect(s.t, s.servers, s.dial, sessionTimeout).Conn
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

// transcript returns the lines, with zxids replaced by their ranks.
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

// checkTimes checks that all changes of one transaction have one time, and that times rise with
// transactions: the clock does not step here.
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

// answer logs the result of an operation on a node: the error, or else the text and the Stat.
func (s *script) answer(op, p, text string, st *zk.Stat, err error) {
	if err != nil {
		s.logf("%s %s: %s", op, p, errText(err))
		return
	}
	s.logf("%s %s: %s%s", op, p, text, s.stat(st))
}

func (s *script) set(c *zk.Conn, p string, data []byte, version int32) {
	st, err := c.Set(s.abs(p), data, version)
	s.answer("set", p, "", st, err)
}

func (s *script) delete(c *zk.Conn, p string, version int32) {
	s.logf("delete %s: %s", p, errText(c.Delete(s.abs(p), version)))
}

func (s *script) logGet(op, p string, data []byte, st *zk.Stat, err error) {
	text := fmt.Sprintf("%q ", data)
	if data == nil {
		text = "null "
	}
	s.answer(op, p, text, st, err)
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
	if err == nil && !ok {
		s.logf("%s %s: no", op, p)
		return
	}
	s.answer(op, p, "", st, err)
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
	slices.Sort(names) // the server does not sort them
	s.answer(op, p, fmt.Sprintf("%v ", names), st, err)
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

var eventNames = map[zk.EventType]string{
	zk.EventNodeCreated: "created", zk.EventNodeDeleted: "deleted",
	zk.EventNodeDataChanged: "changed", zk.EventNodeChildrenChanged: "children",
	zk.EventNotWatching: "not watching",
}

// event logs the next event of a watch.
func (s *script) event(ch <-chan zk.Event) {
	select {
	case ev := <-ch:
		s.logf("event %s %s", eventNames[ev.Type], s.rel(ev.Path))
	case <-time.After(patience):
		s.logf("no event after %v", patience)
	}
}

// quiet logs whether a watch has fired so far: servers send events before the replies to later
// reads.
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

// one runs each operation in its own multi, and logs the results in one line.
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
	s.answer("setACL", p, "", st, err)
}

func (s *script) getACL(c *zk.Conn, p string) {
	acl, st, err := c.GetACL(s.abs(p))
	s.answer("getACL", p, fmt.Sprintf("%v ", acl), st, err)
}

// random sends 60 random requests, and logs the fired watches after each.
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
		if _, _, err := w.Exists(s.root); err != nil { // earlier events come before this reply
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

// transactions logs the number of transactions that f makes. On a real server other clients may add
// some, so there the least number of several runs of f counts. f must log the same lines in each run.
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
	// Each counted operation makes at most one transaction. If there are more, they are of other
	// clients of the server, so try again.
	// wall clock: other clients of the server may disturb each try
	for end := time.Now().Add(20 * time.Second); s.shared && least > 1 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		try()
	}
	s.logf("%s: %d transactions", what, least)
}
