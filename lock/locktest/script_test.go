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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	runner "github.com/holdfast-io/holdfast/integration/script"
)

// The scripts in testdata/conformance have requests of clients, and their replies:
//
//	client c
//	c create /a "one" -> /a
//	c set /a "two" 7 -> version conflict
//
// The first word of a line is a command, or the name of a connection whose request it is. Paths are
// relative to the scenario's root. Each zxid is replaced by its rank among the scenario's zxids, so that
// other clients may use the real server at the same time. Stats have no times; checkTimes checks those.

// script runs lines of requests, and keeps them with their results.
type script struct {
	t       *testing.T
	servers []string
	dial    func(label string) zk.Dialer
	faults  *faults // nil: the server is not under control
	root    string
	shared  bool // other clients may use the servers at the same time

	lines    []string
	clients  map[string]*client
	raws     map[string]*rawConn
	sessions map[string]int64 // last ones of clients
	watches  map[string]<-chan zk.Event
	seen     int64           // zxid
	times    map[int64]int64 // times of transactions, by zxid
	admin    *zk.Conn
}

// newScript returns a script below a root of its own, which the test deletes at its end.
func newScript(t *testing.T, servers []string, dial zk.Dialer) *script {
	s := emptyScript(t, servers, func(string) zk.Dialer { return dial })
	s.root = fmt.Sprintf("/conformance-%016x", rand.Uint64())
	s.admin = connect(t, servers, dial, sessionTimeout).Conn
	if err := s.admin.AddAuth("digest", []byte("me:secret")); err != nil { // to clean up
		t.Fatal(err)
	}
	if _, err := s.admin.Create(s.root, nil, 0, open); err != nil {
		t.Fatalf("create %s: %v", s.root, err)
	}
	t.Cleanup(func() { s.deleteAll(s.root) })
	return s
}

func emptyScript(t *testing.T, servers []string, dial func(label string) zk.Dialer) *script {
	return &script{
		t: t, servers: servers, dial: dial, clients: make(map[string]*client), raws: make(map[string]*rawConn),
		sessions: make(map[string]int64), watches: make(map[string]<-chan zk.Event), times: make(map[int64]int64),
	}
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

// check runs a scenario, and compares its results.
func (s *script) check(sc *runner.Scenario, accepts func(line string) []string) {
	s.t.Helper()
	s.play(sc)
	sc.Check(s.t, s.transcript(), accepts)
}

// run runs lines, and keeps them with their results.
func (s *script) run(lines ...string) {
	s.t.Helper()
	s.play(&runner.Scenario{Lines: lines})
}

func (s *script) play(sc *runner.Scenario) {
	s.t.Helper()
	s.lines = append(s.lines, sc.Play(s.t, func(line string) []string {
		s.t.Helper()
		before := time.Now()
		results := s.do(line)
		if s.faults != nil {
			return s.faults.timed(line, results, time.Since(before))
		}
		return results
	})...)
}

var zxidMark = regexp.MustCompile(`<(-?\d+)>`)

// transcript returns the lines with their results, with zxids replaced by their ranks.
func (s *script) transcript() []string {
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
	text = zxidMark.ReplaceAllStringFunc(text, func(m string) string { return fmt.Sprint(rank[m]) })
	return strings.Split(text, "\n")
}

// do runs a line, and returns its results.
func (s *script) do(line string) []string {
	s.t.Helper()
	a := &arguments{s: s, line: line, words: wordPattern.FindAllString(line, -1)}
	name := a.word()
	if c := s.clients[name]; c != nil {
		return a.done(s.request(c, name, a))
	}
	if c := s.raws[name]; c != nil {
		return a.done(s.frames(c, a))
	}
	if s.faults != nil {
		if all, ok := s.faults.do(name, a); ok {
			return a.done(all)
		}
	}
	switch name {
	case "alone": // other clients of the server would disturb the scenario
		return nil
	case "client": // a connection of the client library
		label := a.word()
		timeout, servers := a.connection()
		s.clients[label] = connect(s.t, servers, s.dial(label), timeout)
		s.sessions[label] = s.clients[label].SessionID()
		return a.done(nil)
	case "raw": // a connection of frames, with a session of its own
		label := a.word()
		timeout, servers := a.connection()
		c := dialRaw(s.t, servers, s.dial(label))
		if err := c.handshake(timeout); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		if s.faults == nil { // close the session: its expiry would outlast the test
			s.t.Cleanup(func() { c.send(1, -11) })
		}
		s.raws[label] = c
		return a.done(nil)
	case "dial": // a connection without a handshake
		label := a.word()
		_, servers := a.connection()
		s.raws[label] = dialRaw(s.t, servers, s.dial(label))
		return a.done(nil)
	case "again": // another connection for the session of a raw one
		label, of := a.word(), a.word()
		_, servers := a.connection()
		return a.done([]string{s.again(label, s.raws[of], servers)})
	case "steal": // a raw connection for the session of a client
		label := a.word()
		c := s.clients[a.word()]
		thief := dialRaw(s.t, s.servers, s.dial(label))
		thief.session, thief.password = c.SessionID(), c.tap.password()
		if err := thief.handshake(sessionTimeout); err != nil || thief.session != c.SessionID() {
			s.t.Fatalf("attach to session %#x: %v, session %#x", c.SessionID(), err, thief.session)
		}
		s.raws[label] = thief
		return a.done(nil)
	case "event": // the next one of a watch
		select {
		case ev := <-s.watches[a.word()]:
			return a.done([]string{s.event(ev)})
		case <-time.After(patience):
			return a.done([]string{noEvent})
		}
	case "count": // the number of transactions that a line makes
		rest := strings.Join(a.words, " ")
		var all []string
		n := s.transactions(func() {
			if rest != "" {
				all = s.do(rest)
			}
		})
		return append(all, fmt.Sprintf("%d transactions", n))
	case "needs": // a real server that knows the operation
		s.needs(a.word())
		return a.done(nil)
	}
	s.t.Fatalf("%s: no connection and no command has the name %s", line, name)
	return nil
}

// needs skips the test if a real server does not know the operation.
func (s *script) needs(op string) {
	s.t.Helper()
	if !s.shared || op != "createContainer" {
		return
	}
	c := dialRaw(s.t, s.servers, s.dial("needs"))
	iferr.Fatal(s.t, c.handshake(sessionTimeout))
	defer c.send(1, -11)
	c.send(1, opCodes[op], s.root+"/needed", []byte(nil), open, int32(4))
	const unimplemented = -6
	switch r := c.reply(); {
	case r.code == unimplemented:
		s.t.Skipf("the server does not know %s, which 3.5 introduced", op)
	case r.err != nil || r.code != 0:
		s.t.Fatal(r)
	}
}

func (s *script) rel(p string) string {
	if s.root == "" {
		return p
	}
	return strings.ReplaceAll(p, s.root, "")
}

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return strings.TrimPrefix(err.Error(), "zk: ")
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
// transactions, unless the test sets the clock.
func (s *script) checkTimes(st *zk.Stat) {
	if s.faults != nil {
		return
	}
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

// answer returns the result of a request for a node: the error, or else the text and the Stat.
func (s *script) answer(text string, st *zk.Stat, err error) string {
	if err != nil {
		return errText(err)
	}
	return text + s.stat(st)
}

func dataText(data []byte) string {
	if data == nil {
		return "null "
	}
	return fmt.Sprintf("%q ", data)
}

func (s *script) existence(ok bool, st *zk.Stat, err error) string {
	if err == nil && !ok {
		return "no"
	}
	return s.answer("", st, err)
}

func (s *script) list(names []string, st *zk.Stat, err error) string {
	slices.Sort(names) // the server does not sort them
	return s.answer(fmt.Sprintf("%v ", names), st, err)
}

// request sends a request of a client library, and returns its results.
func (s *script) request(c *client, name string, a *arguments) []string {
	one := func(text string) []string { return []string{text} }
	switch verb := a.word(); verb {
	case "create":
		p, data, flags, acl := a.create()
		made, err := c.Create(p, data, flags, acl)
		return one(cmp.Or(s.rel(made), errText(err)))
	case "container":
		made, err := c.CreateContainer(a.path(), nil, zk.FlagContainer, open)
		return one(cmp.Or(s.rel(made), errText(err)))
	case "get":
		data, st, err := c.Get(a.path())
		return one(s.answer(dataText(data), st, err))
	case "set":
		p, data := a.path(), a.data()
		st, err := c.Set(p, data, a.number())
		return one(s.answer("", st, err))
	case "delete":
		p := a.path()
		return one(errText(c.Delete(p, a.number())))
	case "exists":
		return one(s.existence(c.Exists(a.path())))
	case "children":
		return one(s.list(c.Children(a.path())))
	case "sync":
		got, err := c.Sync(a.path())
		return one(cmp.Or(s.rel(got), errText(err)))
	case "getACL":
		acl, st, err := c.GetACL(a.path())
		return one(s.answer(fmt.Sprintf("%v ", acl), st, err))
	case "setACL":
		p, acl := a.path(), a.acl(a.word())
		st, err := c.SetACL(p, acl, a.number())
		return one(s.answer("", st, err))
	case "getW", "existsW", "childrenW":
		return one(s.watch(c, verb, a.word(), a.path()))
	case "multi":
		return one(s.multi(c, a.ops()))
	case "path", "absolute":
		return one(s.each(c, verb, a))
	case "quiet": // what a watch has had so far: servers send events before the replies to later reads
		if _, _, err := c.Exists("/"); err != nil {
			s.t.Fatal(err)
		}
		return one(s.soFar(a.word()))
	case "auth":
		iferr.Fatal(s.t, c.AddAuth("digest", []byte(a.word())))
		return nil
	case "close":
		c.Close()
		return nil
	case "break": // its connection
		c.tap.close()
		return nil
	case "awaits": // states of the connection
		for _, state := range a.rest() {
			c.await(map[string]zk.State{"disconnected": zk.StateDisconnected, "session": zk.StateHasSession, "expired": zk.StateExpired}[state])
		}
		before := s.sessions[name]
		if s.sessions[name] = c.SessionID(); s.sessions[name] == before {
			return one("the same session")
		}
		return one("another session")
	default:
		s.t.Fatalf("%s: a client has no request %s", a.line, verb)
		return nil
	}
}

// watch sends a request that sets a watch with the name.
func (s *script) watch(c *client, verb, name, p string) (text string) {
	switch verb {
	case "getW":
		data, st, ch, err := c.GetW(p)
		s.watches[name] = ch
		return s.answer(dataText(data), st, err)
	case "existsW":
		ok, st, ch, err := c.ExistsW(p)
		s.watches[name] = ch
		return s.existence(ok, st, err)
	}
	names, st, ch, err := c.ChildrenW(p)
	s.watches[name] = ch
	return s.list(names, st, err)
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

func (s *script) multi(c *client, ops []any) string {
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
	return fmt.Sprintf("%s: [%s]", errText(err), strings.Join(texts, "; "))
}

// each sends operations on a path, each in its own multi: client libraries check paths, but not those
// in a multi.
func (s *script) each(c *client, verb string, a *arguments) string {
	p, err := strconv.Unquote(a.word())
	if err != nil {
		s.t.Fatalf("%s: %v", a.line, err)
	}
	if verb == "path" {
		p = s.root + p
	}
	var texts []string
	for _, name := range a.rest() {
		op := map[string]any{"create": create(p, persistent), "sequence": create(p, sequence), "set": set(p, "", -1), "check": check(p, -1), "delete": del(p, -1)}[name]
		_, err := c.Multi(op)
		texts = append(texts, name+" "+errText(err))
	}
	return strings.Join(texts, ", ")
}

var eventNames = map[zk.EventType]string{
	zk.EventNodeCreated: "created", zk.EventNodeDeleted: "deleted",
	zk.EventNodeDataChanged: "changed", zk.EventNodeChildrenChanged: "children",
	zk.EventNotWatching: "not watching",
}

func (s *script) event(ev zk.Event) string { return eventNames[ev.Type] + " " + s.rel(ev.Path) }

const noEvent = "no event"

// soFar returns the event that a watch has had since the last call.
func (s *script) soFar(watch string) string {
	select {
	case ev, ok := <-s.watches[watch]:
		if ok {
			return s.event(ev)
		}
	default:
	}
	return noEvent
}

// random runs 60 random requests, and tells which watches have fired after each.
func (s *script) random(seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	node := func() string { return pick("/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/p") }
	version := func() int { return rnd.IntN(4) - 1 }
	flags := func() string { return pick("", "ephemeral", "sequence", "ephemeral sequence") }
	made := []string{"/a"} // sequential nodes, too
	for range 5 {
		made = append(made, fmt.Sprintf("/%s%010d", pick("a", "a/x", "b/x"), rnd.IntN(4)))
	}
	anyNode := func() string { return pick(append(made, node(), node())...) }
	s.run("client c", "client w")
	for i := range 60 {
		var line string
		switch rnd.IntN(12) {
		case 0, 1, 2:
			line = fmt.Sprintf("c create %s %q %s", node(), pick("", "x", "yy"), flags())
		case 3:
			line = fmt.Sprintf("c set %s %q %d", anyNode(), pick("", "x", "yy"), version())
		case 4:
			line = fmt.Sprintf("c delete %s %d", anyNode(), version())
		case 5, 6:
			var ops []string
			for range 1 + rnd.IntN(4) {
				switch rnd.IntN(5) {
				case 0, 1:
					ops = append(ops, fmt.Sprintf("create %s %s", node(), flags()))
				case 2:
					ops = append(ops, fmt.Sprintf("set %s %q %d", anyNode(), pick("", "x"), version()))
				case 3:
					ops = append(ops, fmt.Sprintf("delete %s %d", anyNode(), version()))
				case 4:
					ops = append(ops, fmt.Sprintf("check %s %d", anyNode(), version()))
				}
			}
			line = "c multi " + strings.Join(ops, " | ")
		case 7:
			line = "c get " + anyNode()
		case 8:
			line = "c children " + anyNode()
		default:
			line = fmt.Sprintf("w %s w%d %s", pick("getW", "existsW", "childrenW"), i, anyNode())
		}
		s.run(line, "w exists root") // events come before this reply
		for _, name := range slices.Sorted(maps.Keys(s.watches)) {
			if text := s.soFar(name); text != noEvent {
				s.lines = append(s.lines, name+" "+text)
			}
		}
	}
}

// transactions returns the number of transactions that f makes. On a real server other clients may add
// some, so there the least number of several runs of f counts.
func (s *script) transactions(f func()) int64 {
	if s.faults != nil {
		before := s.faults.Transactions()
		f()
		return s.faults.Transactions() - before
	}
	mark := func() int64 {
		st, err := s.admin.Set(s.root, nil, -1)
		iferr.Fatal(s.t, err)
		return st.Mzxid
	}
	tries := 1
	if s.shared {
		tries = 20
	}
	least := int64(1000)
	try := func() {
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
	return least
}
