package locktest_test

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

var (
	open    = zk.WorldACL(zk.PermAll)
	opCodes = locktest.OpCodes()
)

const (
	persistent = 0
	ephemeral  = zk.FlagEphemeral
	sequence   = zk.FlagSequence
)

// frames runs a request of a connection of frames, and returns its results.
func (s *script) frames(c *rawConn, a *arguments) []string {
	switch verb := a.word(); verb {
	case "send", "call": // call also reads the reply
		c.request(a.number(), a)
		if verb == "call" {
			return s.received(c, 1)
		}
	case "hold": // requests, until flush
		c.held = []byte{}
	case "flush":
		c.Write(c.held)
		c.held = nil
	case "write": // any bytes
		c.Write(pack(a.values()...))
	case "recv":
		n := int32(1)
		if len(a.words) > 0 {
			n = a.number()
		}
		return s.received(c, n)
	case "see": // all transactions so far
		c.must(opCodes["sync"], cmp.Or(s.root, "/"))
		s.seen = c.lastZxid
	case "ahead": // it has seen later transactions than there are
		c.lastZxid += 1 << 40
	case "forget":
		if what := a.word(); what == "session" {
			c.session, c.password = 0, nil
		} else {
			c.password = make([]byte, 16)
		}
	case "password": // is that of another connection
		c.password = s.raws[a.word()].password
	case "timeout": // of the session, to ask for in the next handshake
		c.timeout = a.duration()
	case "pings": // for longer than the session's timeout
		start := time.Now()
		// wall clock: longer than the session timeout
		for time.Since(start) < c.timeout*3/2 {
			c.send(-2, opCodes["ping"])
			if r := c.reply(); r.xid != -2 || r.code != 0 {
				s.t.Fatalf("ping: %v", r)
			}
			time.Sleep(c.timeout / 4) // wall clock: the pace of pings
		}
	case "close":
		c.Close()
	default:
		s.t.Fatalf("%s: a raw connection has no request %s", a.line, verb)
	}
	return nil
}

// request sends a request, or holds it. It may fail: the next frame shows that.
func (c *rawConn) request(xid int32, a *arguments) {
	name := a.word()
	op, ok := opCodes[name]
	if !ok {
		n, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			c.t.Fatalf("%s: no operation has the name %s", a.line, name)
		}
		op = int32(n)
	}
	fields := append([]any{xid, op}, a.values()...)
	for i, v := range fields {
		if beyond, ok := v.(fill); ok {
			fields[i] = []byte{}
			fields[i] = make([]byte, longestFrame+4-len(frame(fields...))+int(beyond))
		}
	}
	if c.ops == nil {
		c.ops = make(map[int32]int32)
	}
	if c.ops[xid] = op; c.held != nil {
		c.held = append(c.held, frame(fields...)...)
		return
	}
	c.Write(frame(fields...))
}

// fill is data with which a frame is longer than the longest that is allowed, by that number of bytes.
type fill int

const longestFrame = 0xfffff

// received returns the next n frames of a connection, with what replies say of data and of paths.
func (s *script) received(c *rawConn, n int32) (all []string) {
	for range n {
		r := c.reply()
		text := strings.TrimSpace(s.rel(r.String()))
		const stat = 68
		switch c.ops[r.xid] {
		case opCodes["getData"], opCodes["create2"], opCodes["createContainer"]:
			if len(r.body) > 4+stat {
				text += " " + s.rel(string(r.body[4:len(r.body)-stat]))
			}
		}
		all = append(all, text)
	}
	return all
}

// again opens another connection for the session of c, and says what comes of it.
func (s *script) again(label string, c *rawConn, servers []string) string {
	next, err := c.again(s.dial(label), servers...)
	s.raws[label] = next
	switch {
	case isClosed(err):
		return "closed"
	case err != nil:
		return err.Error()
	case next.session == 0 && next.timeout == 0 && strings.Trim(string(next.password), "\x00") == "":
		return "no session"
	case next.session != c.session || string(next.password) != string(c.password):
		return "another session"
	case next.timeout != c.timeout:
		return "the same session, timeout " + next.timeout.String()
	}
	return "the same session"
}

// arguments are the words of a line that are not read yet.
type arguments struct {
	s     *script
	line  string
	words []string
}

var wordPattern = regexp.MustCompile(`'[^']*'|"(?:[^"\\]|\\.)*"|[^\s"']+`)

func (a *arguments) word() string {
	a.s.t.Helper()
	if len(a.words) == 0 {
		a.s.t.Fatalf("%s: a word is missing", a.line)
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

func (a *arguments) rest() []string {
	all := a.words
	a.words = nil
	return all
}

// done returns the results of a line whose words have all been read.
func (a *arguments) done(results []string) []string {
	a.s.t.Helper()
	if len(a.words) > 0 {
		a.s.t.Fatalf("%s: too many words: %q", a.line, a.words)
	}
	return results
}

func (a *arguments) number() int32 {
	a.s.t.Helper()
	w := a.word()
	n, err := strconv.ParseInt(w, 10, 32)
	if err != nil {
		a.s.t.Fatalf("%s: %s is no number", a.line, w)
	}
	return int32(n)
}

func (a *arguments) duration() time.Duration {
	a.s.t.Helper()
	d, err := time.ParseDuration(a.word())
	if err != nil {
		a.s.t.Fatalf("%s: %v", a.line, err)
	}
	return d
}

// connection returns how to connect: [TIMEOUT] [at MEMBER...].
func (a *arguments) connection() (timeout time.Duration, servers []string) {
	timeout, servers = sessionTimeout, a.s.servers
	if len(a.words) > 0 && a.words[0] != "at" {
		timeout = a.duration()
	}
	if len(a.words) > 0 && a.word() == "at" {
		servers = a.members()
	}
	return timeout, servers
}

// members returns the members of the ensemble with the numbers that follow.
func (a *arguments) members() (servers []string) {
	for len(a.words) > 0 {
		servers = append(servers, a.s.faults.member(a.number()))
	}
	return servers
}

// path returns the absolute path; that of the scenario's root is "root".
func (a *arguments) path() string {
	if p := a.word(); p != "root" {
		return a.s.root + p
	}
	return cmp.Or(a.s.root, "/")
}

// data returns a text in quotes, null, or bytes:N.
func (a *arguments) data() []byte {
	w := a.word()
	if w == "null" {
		return nil
	}
	if count, ok := strings.CutPrefix(w, "bytes:"); ok {
		n, err := strconv.Atoi(count)
		if err != nil {
			a.s.t.Fatalf("%s: %v", a.line, err)
		}
		return make([]byte, n)
	}
	text, err := strconv.Unquote(w)
	if err != nil {
		a.s.t.Fatalf("%s: %s: %v", a.line, w, err)
	}
	return []byte(text)
}

// acl returns the access control list in a word: open, none, or PERMISSIONS:SCHEME:ID,...
func (a *arguments) acl(w string) (list []zk.ACL) {
	switch w {
	case "open":
		return open
	case "none":
		return []zk.ACL{}
	}
	for one := range strings.SplitSeq(w, ",") {
		parts := strings.SplitN(one, ":", 3)
		perms, err := strconv.ParseInt(parts[0], 10, 32)
		if err != nil || len(parts) < 3 {
			a.s.t.Fatalf("%s: %s is no access control list", a.line, w)
		}
		list = append(list, zk.ACL{Perms: int32(perms), Scheme: parts[1], ID: parts[2]})
	}
	return list
}

// flags returns the flags of a create that follow.
func (a *arguments) flags() (flags int32) {
	for len(a.words) > 0 {
		switch a.words[0] {
		case "ephemeral":
			flags |= ephemeral
		case "sequence":
			flags |= sequence
		default:
			return flags
		}
		a.word()
	}
	return flags
}

// create returns the fields of a create: PATH ["DATA"] [ephemeral] [sequence] [ACL].
func (a *arguments) create() (p string, data []byte, flags int32, acl []zk.ACL) {
	p, acl = a.path(), open
	if len(a.words) > 0 && strings.HasPrefix(a.words[0], `"`) {
		data = a.data()
	}
	if flags = a.flags(); len(a.words) > 0 {
		acl = a.acl(a.word())
	}
	return p, data, flags, acl
}

// ops returns the operations of a multi, with " | " between them.
func (a *arguments) ops() (ops []any) {
	for len(a.words) > 0 {
		verb, p := a.word(), a.path()
		switch verb {
		case "create":
			ops = append(ops, create(p, a.flags()))
		case "set":
			data := string(a.data())
			ops = append(ops, set(p, data, a.number()))
		case "delete":
			ops = append(ops, del(p, a.number()))
		case "check":
			ops = append(ops, check(p, a.number()))
		default:
			a.s.t.Fatalf("%s: a multi has no operation %s", a.line, verb)
		}
		if len(a.words) > 0 && a.word() != "|" {
			a.s.t.Fatalf("%s: no | between two operations", a.line)
		}
	}
	return ops
}

// values returns the fields of a frame: numbers of 32 bits, or of 64 with an L, true and false, "data" or
// null, 'text', /paths, (lists of paths) and access control lists. seen is the zxid that a connection
// has seen.
func (a *arguments) values() (all []any) {
	for len(a.words) > 0 {
		all = append(all, a.value())
	}
	return all
}

func (a *arguments) value() any {
	switch w := a.words[0]; {
	case w == "root" || w[0] == '/':
		return a.path()
	case w == "null" || w[0] == '"':
		return a.data()
	case w == "true" || w == "false":
		return a.word() == "true"
	case w == "seen":
		a.word()
		return a.s.seen
	case w == "fill":
		a.word()
		return fill(0)
	case w == "overfill":
		a.word()
		return fill(1)
	case w[0] == '\'':
		return strings.Trim(a.word(), "'")
	case w[0] == '(':
		return a.list()
	case w == "open" || strings.Contains(w, ":"):
		return a.acl(a.word())
	case strings.HasSuffix(w, "L"):
		n, err := strconv.ParseInt(strings.TrimSuffix(a.word(), "L"), 10, 64)
		if err != nil {
			a.s.t.Fatalf("%s: %v", a.line, err)
		}
		return n
	}
	return a.number()
}

// list returns the paths in parentheses.
func (a *arguments) list() []string {
	end := slices.IndexFunc(a.words, func(w string) bool { return strings.HasSuffix(w, ")") })
	if end < 0 {
		a.s.t.Fatalf("%s: no ) ends the list", a.line)
	}
	paths := slices.Clone(a.words[:end+1])
	a.words = a.words[end+1:]
	for i, p := range paths {
		paths[i] = a.s.root + strings.Trim(p, "()")
	}
	return paths
}
