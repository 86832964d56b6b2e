package history

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/script"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestScripts runs the scripts in testdata: transactions, and the events that they show.
//
//	1 take l x              session 1 makes lock l, and joins it as x
//	2 join l/1 y            session 2 joins as y, with sequence 1
//	after 20s               by the leader's clock
//	1 renew l/0 x granted
//	1 delete l/0 | set l    several operations
//	end                     derived events, corrected ones, and the moments that the lines "at" ask for
//
// Nodes are l (a lock's), l/anchor, and the entries l/0 (of a mutex), l/r0 (reads), l/w0 (writes) and
// l/0*2 (of two permits). A path from the root begins with a slash.
func TestScripts(t *testing.T) {
	script.Each(t, "testdata", func(t *testing.T, sc *script.Scenario) {
		p := &player{T: t, tape: newTape(), o: Options{Root: "/locks"}}
		sc.Check(t, script.Play(sc.Lines, p.do), script.First)
		if len(p.events) > p.told {
			t.Errorf("events after the end: %q", briefs(p.events[p.told:]))
		}
	})
}

// player runs the lines of a script.
type player struct {
	*testing.T
	*tape
	o      Options
	m      *Machine // nil until the first transaction, gap or snapshot
	events []Event
	told   int           // number of events that were results
	nodes  []txnlog.Node // of the next snapshot
}

// machine returns the machine. If begins is set, an empty snapshot comes before the log.
func (p *player) machine(begins bool) *Machine {
	if p.m == nil {
		p.m = New(p.o, func(e Event) { p.events = append(p.events, e) })
		if begins {
			p.begin(1 << 32)
		}
	}
	return p.m
}

func (p *player) begin(zxid int64) {
	err := p.m.Begin(zxid, func(yield func(txnlog.Node, error) bool) {
		for _, n := range p.nodes {
			if !yield(n, nil) {
				return
			}
		}
	})
	if p.nodes = nil; err != nil {
		p.Fatal(err)
	}
}

// do runs a line, and returns its results.
func (p *player) do(line string) (results []string) {
	words := strings.Fields(line)
	switch args := words[1:]; words[0] {
	case "options":
		p.options(args)
	case "at":
		for _, a := range args {
			p.o.At = append(p.o.At, p.asked(a))
		}
	case "after":
		p.after(p.duration(args[0]))
	case "ahead":
		p.ahead = p.duration(args[0])
	case "leader":
		p.leader()
	case "zxid": // of the last transaction
		p.zxid = p.number(args[0])
	case "node": // of the next snapshot: NODE, when it was made, and its data
		p.nodes = append(p.nodes, p.node(args))
	case "begin":
		p.machine(false)
		p.begin(p.number(args[0]))
	case "gap":
		p.machine(false).Gap()
	case "end":
		return p.end()
	case "now":
		return []string{told(p.m.Now())}
	case "leases": // what is left of them at the moments, and what of that is in doubt
		return p.leases()
	case "disputed":
		p.transaction(args, true)
	default:
		p.transaction(words, false)
	}
	fresh := p.events[p.told:]
	p.told = len(p.events)
	if words[0] == "begin" { // events of several locks, in any order
		slices.SortStableFunc(fresh, func(a, b Event) int { return cmp.Compare(a.Lock, b.Lock) })
	}
	return briefs(fresh)
}

// end returns what the machine knows at the end of the log.
func (p *player) end() (results []string) {
	p.machine(true).End()
	fresh := p.events[p.told:]
	p.told = len(p.events)
	slices.SortStableFunc(fresh, func(a, b Event) int { return cmp.Compare(a.Lock, b.Lock) })
	results = briefs(fresh)
	for _, e := range p.events {
		if corrected := brief(p.m.Resolve(e)); corrected != brief(e) {
			results = append(results, "corrected: "+corrected)
		}
	}
	return append(results, toldAll(p.m)...)
}

func (p *player) leases() (all []string) {
	for _, m := range p.m.Moments() {
		for _, l := range m.Locks {
			for _, h := range slices.Concat(l.Holders, l.Waiters) {
				all = append(all, fmt.Sprintf("%d %s: %s: %v, %v in doubt", m.Index, l.Lock, h.Client.Owner, h.Left, h.Doubt))
			}
		}
	}
	return all
}

func (p *player) options(args []string) {
	for _, a := range args {
		switch name, value, _ := strings.Cut(a, "="); name {
		case "grace":
			d := p.duration(value)
			p.o.Grace = func(string) time.Duration { return d }
		case "match":
			p.o.Match = func(name string) bool { return name == value }
		case "reaper":
			p.o.Reaper = value
		case "jobs":
			p.o.Jobs = value
		default:
			p.Fatalf("there is no option %s", name)
		}
	}
}

func (p *player) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		p.Fatal(err)
	}
	return d
}

// number returns the zxid EPOCH/COUNTER.
func (p *player) number(text string) int64 {
	var epoch, counter int64
	if _, err := fmt.Sscanf(text, "%d/%d", &epoch, &counter); err != nil {
		p.Fatalf("%s: must be EPOCH/COUNTER", text)
	}
	return epoch<<32 | counter
}

func (p *player) asked(text string) Asked {
	if strings.Contains(text, "/") {
		return Asked{Zxid: p.number(text)}
	}
	return Asked{Time: epoch0.Add(p.duration(text))}
}

// transaction applies a session's operations, with " | " between them.
func (p *player) transaction(words []string, disputed bool) {
	session, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		p.Fatalf("%q: no command", words)
	}
	var ops []txnlog.Op
	for one := range strings.SplitSeq(strings.Join(words[1:], " "), " | ") {
		ops = append(ops, p.ops(strings.Fields(one))...)
	}
	p.tape.do(session, ops...)
	x := &p.txns[len(p.txns)-1]
	x.Disputed = disputed
	p.machine(true).Apply(x)
}

// ops returns the operations of a word and its arguments.
func (p *player) ops(words []string) []txnlog.Op {
	verb, args := words[0], words[1:]
	one := func(kind txnlog.OpKind, args ...string) txnlog.Op { return p.op(kind, args) }
	switch verb {
	case "create":
		return []txnlog.Op{one(txnlog.OpCreate, args...)}
	case "set", "renew":
		return []txnlog.Op{one(txnlog.OpSetData, args...)}
	case "delete":
		return []txnlog.Op{one(txnlog.OpDelete, args...)}
	case "take": // LOCK OWNER
		l := args[0]
		return []txnlog.Op{one(txnlog.OpCreate, l), one(txnlog.OpCreate, l+"/anchor"), one(txnlog.OpCreate, l+"/0", args[1]), one(txnlog.OpSetData, l)}
	case "join": // ENTRY OWNER...
		l := path.Dir(args[0])
		return []txnlog.Op{one(txnlog.OpCheck, l+"/anchor"), one(txnlog.OpCreate, args...), one(txnlog.OpSetData, l)}
	case "free": // ENTRY, and the lock's nodes
		l := path.Dir(args[0])
		return []txnlog.Op{one(txnlog.OpDelete, args...), one(txnlog.OpDelete, l+"/anchor"), one(txnlog.OpDelete, l)}
	case "ask": // ENTRY OWNER REASON
		at := strings.TrimPrefix(p.path(args[0]), "/locks/")
		request := znode.Revocation{Request: gen, Entry: at, Owner: args[1], Reason: args[2]}
		return []txnlog.Op{create(lockPath(znode.Inbox)+"/"+path.Base(at), request.Encode())}
	case "close":
		return []txnlog.Op{{Kind: txnlog.OpCloseSession}}
	}
	p.Fatalf("%q: there is no operation %s", words, verb)
	return nil
}

// op returns an operation on NODE, with DATA if the kind has any, and [ephemeral] and [child=N].
func (p *player) op(kind txnlog.OpKind, args []string) txnlog.Op {
	op := txnlog.Op{Kind: kind, Path: p.path(args[0])}
	var data []string
	for _, a := range args[1:] {
		switch name, value, _ := strings.Cut(a, "="); name {
		case "ephemeral":
			op.Ephemeral = true
		case "child":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				p.Fatal(err)
			}
			op.CVersion = int32(n)
		default:
			data = append(data, a)
		}
	}
	if kind == txnlog.OpCreate || kind == txnlog.OpSetData {
		op.Data = p.data(args[0], data)
	}
	return op
}

var entryPattern = regexp.MustCompile(`^(.+)/([rw]?)(\d+)(?:\*(\d+))?$`)

// path returns the path of a node.
func (p *player) path(node string) string {
	if node[0] == '/' {
		return node
	}
	if l, ok := strings.CutSuffix(node, "/anchor"); ok {
		return anchorPath(l)
	}
	m := entryPattern.FindStringSubmatch(node)
	if m == nil {
		return lockPath(node)
	}
	seq, err := strconv.ParseInt(m[3], 10, 32)
	if err != nil {
		p.Fatal(err)
	}
	if m[4] != "" {
		permits, err := strconv.ParseInt(m[4], 10, 32)
		if err != nil {
			p.Fatal(err)
		}
		return lockPath(m[1]) + "/" + znode.Predict(znode.PermitsPrefix(gen, int32(permits)), int32(seq))
	}
	return entryPath(m[1], map[string]znode.Role{"": znode.Exclusive, "r": znode.Shared, "w": znode.Writer}[m[2]], int32(seq))
}

// data returns the data of a node: of a lock its kind, of an anchor permits=N and resized=N, of an entry
// its owner and what its record says, or text as it is.
func (p *player) data(node string, words []string) []byte {
	switch {
	case len(words) > 0 && strings.ContainsAny(words[0], `?{`):
		return []byte(words[0])
	case node[0] == '/':
		return nil
	case strings.HasSuffix(node, "/anchor"):
		var a znode.AnchorData
		for _, w := range words {
			var err error
			switch name, value, _ := strings.Cut(w, "="); name {
			case "permits":
				_, err = fmt.Sscan(value, &a.Permits)
			case "resized":
				_, err = fmt.Sscan(value, &a.Resized)
			default:
				err = fmt.Errorf("an anchor has no %s", name)
			}
			if err != nil {
				p.Fatal(err)
			}
		}
		return a.Encode()
	case entryPattern.MatchString(node):
		return p.record(words[0], func(r *znode.Record) {
			for _, w := range words[1:] {
				p.change(r, w)
			}
		})
	}
	kind := znode.Mutex
	if len(words) > 0 {
		kind = znode.Kind(words[0])
	}
	if !kind.IsLock() {
		return znode.Parent{Kind: kind}.Encode()
	}
	return parent(kind)
}

// change changes the record of an entry as a word says.
func (p *player) change(r *znode.Record, word string) {
	switch name, value, _ := strings.Cut(word, "="); name {
	case "granted":
		p.granted(r)
	case "detached":
		r.Detached = true
	case "shared":
		r.Shared = true
	case "attached":
		r.Incarnation, r.Attachment = 1, gen
	case "broken": // by OWNER:REASON
		owner, reason, _ := strings.Cut(value, ":")
		r.Broken = &znode.Broken{Owner: owner, Reason: reason}
	case "value": // of a candidate
		r.Metadata = map[string]string{znode.ValueKey: "v"}
	default:
		p.Fatalf("a record has no %s", word)
	}
}

// node returns a node of a snapshot: NODE ZXID STAMP [DATA...] [written=ZXID].
func (p *player) node(args []string) txnlog.Node {
	zxid, stamp, data := p.number(args[1]), p.duration(args[2]), args[3:]
	written := zxid
	if n := len(data); n > 0 && strings.HasPrefix(data[n-1], "written=") {
		written, data = p.number(strings.TrimPrefix(data[n-1], "written=")), data[:n-1]
	}
	n := node(p.path(args[0]), p.data(args[0], data), zxid, stamp)
	n.Mzxid = written
	return n
}
