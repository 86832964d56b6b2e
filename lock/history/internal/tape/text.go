package tape

import (
	"fmt"
	"iter"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Text is a tape that lines of a script write, and the nodes of a snapshot before it:
//
//	1 take l x              session 1 makes lock l, and joins it as x
//	2 join l/1 y            session 2 joins as y, with sequence 1
//	after 20s               by the leader's clock
//	1 renew l/0 x granted
//	1 delete l/0 | touch l  several operations
//	disputed 1 delete l/1   a transaction that the servers may have discarded
//
// Nodes are l (a lock's), l/anchor, and the entries l/0 (of a mutex), l/r0 (reads), l/w0 (writes) and
// l/0*2 (of two permits). A path from the root begins with a slash. Data is a text in quotes or one that
// begins with a brace; of a lock its kind [adopted]; of an anchor permits=N, resized=N and single; of an
// entry its owner, and what its record says.
type Text struct {
	*testing.T
	*Tape
	nodes []txnlog.Node
	locks map[string][]byte // data of the locks' nodes, by node and generation
	tag   string            // the generation of the locks
}

func NewText(t *testing.T) *Text {
	return &Text{T: t, Tape: New(), locks: map[string][]byte{}, tag: Generation}
}

// Line runs a line. It returns the transactions that it has added.
func (x *Text) Line(words []string) []txnlog.Txn {
	x.Helper()
	before := len(x.Txns)
	switch args := words[1:]; words[0] {
	case "after":
		x.After(x.Span(args[0]))
	case "ahead": // of the leader's clock
		x.Ahead = x.Span(args[0])
	case "leader": // another one
		x.Leader()
	case "zxid": // of the last transaction
		x.Zxid = x.Number(args[0])
	case "pass": // a time, with a transaction in each part of it
		for left := x.Span(args[0]); left > 0; left -= 5 * time.Second {
			x.After(min(left, 5*time.Second)).Do(9, txnlog.Op{Kind: txnlog.OpError, Err: -101})
		}
	case "node": // of the snapshot: NODE, the zxid and the stamp of its creation, DATA..., [written=ZXID], [lost]
		x.node(args)
	case "generation": // of locks, from now on
		x.tag = args[0]
	case "disputed":
		x.transaction(args)
		x.Txns[len(x.Txns)-1].Disputed = true
	default:
		x.transaction(words)
	}
	return x.Txns[before:]
}

// Snapshot returns the nodes of the lines "node" since the last call.
func (x *Text) Snapshot() iter.Seq2[txnlog.Node, error] {
	nodes := x.nodes
	x.nodes = nil
	return func(yield func(txnlog.Node, error) bool) {
		for _, n := range nodes {
			if !yield(n, nil) {
				return
			}
		}
	}
}

// Span returns the duration in a word.
func (x *Text) Span(word string) time.Duration {
	x.Helper()
	d, err := time.ParseDuration(word)
	if err != nil {
		x.Fatal(err)
	}
	return d
}

// Number returns the zxid EPOCH/COUNTER.
func (x *Text) Number(word string) int64 {
	x.Helper()
	var epoch, counter int64
	if _, err := fmt.Sscanf(word, "%d/%d", &epoch, &counter); err != nil {
		x.Fatalf("%s: must be EPOCH/COUNTER", word)
	}
	return epoch<<32 | counter
}

func (x *Text) count(word string) int32 {
	x.Helper()
	n, err := strconv.ParseInt(word, 10, 32)
	if err != nil {
		x.Fatal(err)
	}
	return int32(n)
}

// transaction adds the transaction of a session.
func (x *Text) transaction(words []string) {
	x.Helper()
	session, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		x.Fatalf("%q: no command", words)
	}
	var ops []txnlog.Op
	for one := range strings.SplitSeq(strings.Join(words[1:], " "), " | ") {
		ops = append(ops, x.ops(strings.Fields(one))...)
	}
	x.Do(session, ops...)
}

// ops returns the operations of a verb and its arguments.
func (x *Text) ops(words []string) []txnlog.Op {
	x.Helper()
	verb, args := words[0], words[1:]
	touch := func(lock string) txnlog.Op {
		if data := x.locks[lock+" "+x.tag]; data != nil {
			return Set(x.path(lock), data)
		}
		return Set(x.path(lock), x.data(lock, nil))
	}
	switch verb {
	case "create":
		return []txnlog.Op{x.op(txnlog.OpCreate, args)}
	case "set", "renew":
		return []txnlog.Op{x.op(txnlog.OpSetData, args)}
	case "delete":
		return []txnlog.Op{x.op(txnlog.OpDelete, args)}
	case "touch": // LOCK: it is written as it is
		return []txnlog.Op{touch(args[0])}
	case "take": // LOCK OWNER...
		l := args[0]
		return []txnlog.Op{x.op(txnlog.OpCreate, []string{l}), x.op(txnlog.OpCreate, []string{l + "/anchor"}),
			x.op(txnlog.OpCreate, append([]string{l + "/0"}, args[1:]...)), touch(l)}
	case "join": // ENTRY OWNER...
		l := path.Dir(args[0])
		return []txnlog.Op{x.op(txnlog.OpCheck, []string{l + "/anchor"}), x.op(txnlog.OpCreate, args), touch(l)}
	case "free": // ENTRY, and the lock's nodes
		l := path.Dir(args[0])
		return Delete(x.path(args[0]), x.path(l+"/anchor"), x.path(l))
	case "ask": // ENTRY OWNER REASON
		at := strings.TrimPrefix(x.path(args[0]), Lock(""))
		request := znode.Revocation{Request: Generation, Entry: at, Owner: args[1], Reason: args[2]}
		return []txnlog.Op{Create(Lock(znode.Inbox)+"/"+path.Base(at), request.Encode())}
	case "open": // a session with a TIMEOUT
		return []txnlog.Op{{Kind: txnlog.OpBeginSession, Timeout: x.Span(args[0])}}
	case "close": // the session
		return []txnlog.Op{{Kind: txnlog.OpCloseSession}}
	}
	x.Fatalf("%q: there is no operation %s", words, verb)
	return nil
}

// op returns an operation: NODE, DATA if the kind has any, [ephemeral], [child=N], the number of the parent's
// child, and [version=N].
func (x *Text) op(kind txnlog.OpKind, args []string) txnlog.Op {
	x.Helper()
	op := txnlog.Op{Kind: kind, Path: x.path(args[0])}
	var data []string
	for _, a := range args[1:] {
		switch name, value, _ := strings.Cut(a, "="); name {
		case "ephemeral":
			op.Ephemeral = true
		case "child":
			op.CVersion = x.count(value)
		case "version":
			op.Version = x.count(value)
		default:
			data = append(data, a)
		}
	}
	if kind == txnlog.OpCreate || kind == txnlog.OpSetData {
		op.Data = x.data(args[0], data)
	} else if len(data) > 0 {
		x.Fatalf("%q: the operation has no data", args)
	}
	return op
}

var entryPattern = regexp.MustCompile(`^(.+)/([rw]?)(-?\d+)(?:\*(\d+))?$`)

// path returns the path of a node.
func (x *Text) path(node string) string {
	x.Helper()
	if node[0] == '/' {
		return node
	}
	if l, ok := strings.CutSuffix(node, "/anchor"); ok {
		return Lock(l) + "/" + znode.Anchor(x.tag)
	}
	m := entryPattern.FindStringSubmatch(node)
	if m == nil {
		return Lock(node)
	}
	seq := x.count(m[3])
	if m[4] != "" {
		return Lock(m[1]) + "/" + znode.Predict(znode.PermitsPrefix(x.tag, x.count(m[4])), seq)
	}
	role := map[string]znode.Role{"": znode.Exclusive, "r": znode.Shared, "w": znode.Writer}[m[2]]
	return Lock(m[1]) + "/" + znode.Predict(znode.Prefix(x.tag, role), seq)
}

// data returns the data of a node, see [Text].
func (x *Text) data(node string, words []string) []byte {
	x.Helper()
	switch {
	case len(words) > 0 && words[0][0] == '{':
		return []byte(words[0])
	case len(words) > 0 && words[0][0] == '"':
		return []byte(strings.Trim(words[0], `"`))
	case node[0] == '/':
		return nil
	case strings.HasSuffix(node, "/anchor"):
		return x.anchor(words).Encode()
	case entryPattern.MatchString(node):
		return x.Record(words[0], func(r *znode.Record) {
			for _, w := range words[1:] {
				x.change(r, w)
			}
		})
	}
	p := znode.Parent{Kind: znode.Mutex}
	for _, w := range words {
		if p.Adopted = w == "adopted"; !p.Adopted {
			p.Kind = znode.Kind(w)
		}
	}
	if p.Kind.IsLock() {
		p.Generation = x.tag
	}
	data := p.Encode()
	x.locks[node+" "+x.tag] = data
	return data
}

func (x *Text) anchor(words []string) (a znode.AnchorData) {
	x.Helper()
	for _, w := range words {
		switch name, value, _ := strings.Cut(w, "="); name {
		case "permits":
			a.Permits = x.count(value)
		case "resized":
			a.Resized = x.count(value)
		case "single":
			a.Single = true
		default:
			x.Fatalf("an anchor has no %s", name)
		}
	}
	return a
}

// change changes the record of an entry as a word says.
func (x *Text) change(r *znode.Record, word string) {
	x.Helper()
	switch name, value, _ := strings.Cut(word, "="); name {
	case "granted":
		x.Granted(r)
	case "detached":
		r.Detached = true
	case "shared":
		r.Shared = true
	case "attached": // as the incarnation of that number
		r.Incarnation, r.Attachment = x.count(value), Generation
	case "broken": // by OWNER:REASON
		owner, reason, _ := strings.Cut(value, ":")
		r.Broken = &znode.Broken{Owner: owner, Reason: reason}
	case "value": // of a candidate
		r.Metadata = map[string]string{znode.ValueKey: "v"}
	case "ttl":
		r.TTL = x.Span(value).Milliseconds()
	case "attempt":
		r.Attempt = value
	default:
		x.Fatalf("a record has no %s", word)
	}
}

func (x *Text) node(args []string) {
	x.Helper()
	zxid, stamp := x.Number(args[1]), x.Span(args[2])
	written, lost := zxid, false
	var data []string
	for _, w := range args[3:] {
		switch name, value, _ := strings.Cut(w, "="); name {
		case "written":
			written = x.Number(value)
		case "lost":
			lost = true
		default:
			data = append(data, w)
		}
	}
	n := Node(x.path(args[0]), x.data(args[0], data), zxid, stamp)
	n.Mzxid, n.Lost = written, lost
	x.nodes = append(x.nodes, n)
}
