package txnlogs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/locktest/wire"
)

// patience is the limit of one step on a busy machine.
const patience = 2 * time.Minute

// Want is what the log of a scenario must have.
type Want struct {
	Server string
	Txns   []txnlog.Txn  // without Time; with Ended as 3.6 and later log it
	Nodes  []txnlog.Node // at the end, as clients see them
}

// scenario writes to a new server, and notes the expected transactions.
type scenario struct {
	testing.TB
	ctx     context.Context
	addr    string
	version zkserver.Version
	want    Want
	zxid    int64
	z       *zk.Conn
}

// note adds the expected transaction with the next zxid.
func (s *scenario) note(session int64, ops ...txnlog.Op) {
	s.zxid++
	s.want.Txns = append(s.want.Txns, txnlog.Txn{Zxid: s.zxid, Session: session, Ops: ops})
}

// insert adds a failed transaction of the server itself before the i-th transaction, and adds one
// to all later zxids. If the i-th transaction is already the failed one, insert does nothing.
func (s *scenario) insert(i int, t txnlog.Txn) {
	if i < len(s.want.Txns) && s.want.Txns[i].Zxid == t.Zxid && s.want.Txns[i].Session == 0 && s.want.Txns[i].Ops[0].Kind == txnlog.OpError {
		return
	}
	s.want.Txns = slices.Insert(s.want.Txns, i, t)
	for j := i + 1; j < len(s.want.Txns); j++ {
		s.want.Txns[j].Zxid++
	}
	s.zxid++
}

func (s *scenario) must(err error) {
	s.Helper()
	iferr.Fatal(s, err)
}

// refused fails the test unless err is want, and notes the failed write.
func (s *scenario) refused(err error, want error, code int32) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("error %v, want %v", err, want)
	}
	s.note(s.z.SessionID(), txnlog.Op{Kind: txnlog.OpError, Err: code})
}

func (s *scenario) atLeast(number ...int) bool {
	return slices.Compare(s.version.Number[:], number) >= 0
}

// line is a connection that can be cut forever.
type line struct {
	mu   sync.Mutex
	cut  bool
	conn net.Conn
}

func (l *line) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("cut")
	}
	var err error
	l.conn, err = net.DialTimeout(network, address, timeout)
	return l.conn, err
}

func (l *line) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.conn.Close()
}

// connect opens a session over the line, and notes the transaction.
func (s *scenario) connect(timeout time.Duration, l *line) *zk.Conn {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	z, _, err := zkserver.Connect(ctx, []string{s.addr}, timeout, l.dial)
	s.must(err)
	s.Cleanup(z.Close)
	s.note(z.SessionID(), txnlog.Op{Kind: txnlog.OpBeginSession, Timeout: timeout})
	return z
}

// gone waits until a node is deleted.
func (s *scenario) gone(p string) {
	s.Helper()
	s.must(wait.Until(s.ctx, patience, "deletion of "+p, func() (bool, error) {
		there, _, err := s.z.Exists(p)
		return !there, err
	}))
}

// plain makes writes of all kinds that 3.4 has.
func (s *scenario) plain() {
	s.z = s.connect(30*time.Second, &line{})
	id := s.z.SessionID()
	create := func(p, data string, flags int32, version int32) string {
		s.Helper()
		p, err := s.z.Create(p, []byte(data), flags, zk.WorldACL(zk.PermAll))
		s.must(err)
		s.note(id, txnlog.Op{Kind: txnlog.OpCreate, Path: p, Data: []byte(data), Ephemeral: flags&zk.FlagEphemeral != 0, CVersion: version})
		return p
	}
	create("/t", "parent", 0, 1)
	create("/t/s-", "first", zk.FlagSequence, 1)
	create("/t/s-", "second", zk.FlagSequence, 2)
	create("/t/e", "mine", zk.FlagEphemeral, 3)
	create("/t/größe", "", 0, 4)
	for i := range int32(3) {
		data := strings.Repeat("x", int(i)*40)
		_, err := s.z.Set("/t/s-0000000000", []byte(data), i)
		s.must(err)
		s.note(id, txnlog.Op{Kind: txnlog.OpSetData, Path: "/t/s-0000000000", Data: []byte(data), Version: i + 1})
	}
	_, err := s.z.SetACL("/t/s-0000000000", append(zk.DigestACL(zk.PermAll, "shop", "secret"), zk.WorldACL(zk.PermRead|zk.PermWrite)...), 0)
	s.must(err)
	s.note(id, txnlog.Op{Kind: txnlog.OpSetACL, Path: "/t/s-0000000000", Version: 1})

	_, err = s.z.Create("/t", nil, 0, zk.WorldACL(zk.PermAll))
	s.refused(err, zk.ErrNodeExists, -110)
	_, err = s.z.Set("/t", nil, 7)
	s.refused(err, zk.ErrBadVersion, -103)
	s.refused(s.z.Delete("/t/none", -1), zk.ErrNoNode, -101)

	_, err = s.z.Multi(
		&zk.CheckVersionRequest{Path: "/t/s-0000000000", Version: 3},
		&zk.CreateRequest{Path: "/t/m", Data: []byte("multi"), Acl: zk.WorldACL(zk.PermAll)},
		&zk.CreateRequest{Path: "/t/m/e", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral},
		&zk.SetDataRequest{Path: "/t", Data: []byte("changed"), Version: 0},
		&zk.DeleteRequest{Path: "/t/s-0000000001", Version: -1},
	)
	s.must(err)
	s.note(id,
		txnlog.Op{Kind: txnlog.OpCheck, Path: "/t/s-0000000000", Version: 3},
		txnlog.Op{Kind: txnlog.OpCreate, Path: "/t/m", Data: []byte("multi"), CVersion: 5},
		txnlog.Op{Kind: txnlog.OpCreate, Path: "/t/m/e", Ephemeral: true, CVersion: 1},
		txnlog.Op{Kind: txnlog.OpSetData, Path: "/t", Data: []byte("changed"), Version: 1},
		txnlog.Op{Kind: txnlog.OpDelete, Path: "/t/s-0000000001"},
	)
	_, err = s.z.Multi(
		&zk.CreateRequest{Path: "/t/m2", Acl: zk.WorldACL(zk.PermAll)},
		&zk.SetDataRequest{Path: "/t", Version: 9},
		&zk.DeleteRequest{Path: "/t/m", Version: -1},
	)
	s.refused(err, zk.ErrBadVersion, -103)

	// One session is closed; the other expires.
	for _, expires := range []bool{false, true} {
		var l line
		b := s.connect(2*time.Second, &l)
		p := fmt.Sprintf("/t/of-%v", expires)
		_, err := b.Create(p, []byte("other"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		s.must(err)
		version := int32(6)
		if expires {
			version++
		}
		s.note(b.SessionID(), txnlog.Op{Kind: txnlog.OpCreate, Path: p, Data: []byte("other"), Ephemeral: true, CVersion: version})
		id := b.SessionID()
		if expires {
			l.sever()
		} else {
			b.Close()
		}
		s.gone(p)
		s.note(id, txnlog.Op{Kind: txnlog.OpCloseSession, Ended: []string{p}})
	}
	s.must(s.z.Delete("/t/größe", 0))
	s.note(id, txnlog.Op{Kind: txnlog.OpDelete, Path: "/t/größe"})
}

// extended makes writes of the kinds that 3.5 added. The server must allow nodes with a TTL.
func (s *scenario) extended() {
	id := s.z.SessionID()
	_, err := s.z.CreateContainer("/t/c", []byte("container"), zk.FlagContainer, zk.WorldACL(zk.PermAll))
	s.must(err)
	s.note(id, txnlog.Op{Kind: txnlog.OpCreate, Path: "/t/c", Data: []byte("container"), CVersion: 8})
	_, err = s.z.Create("/t/c/child", nil, 0, zk.WorldACL(zk.PermAll))
	s.must(err)
	s.note(id, txnlog.Op{Kind: txnlog.OpCreate, Path: "/t/c/child", CVersion: 1})
	s.must(s.z.Delete("/t/c/child", 0))
	s.note(id, txnlog.Op{Kind: txnlog.OpDelete, Path: "/t/c/child"})
	s.gone("/t/c")
	s.note(0, txnlog.Op{Kind: txnlog.OpDelete, Path: "/t/c"})
	for i, ttl := range []time.Duration{time.Millisecond, time.Hour} {
		p := fmt.Sprintf("/t/ttl-%v", ttl)
		_, err = s.z.CreateTTL(p, []byte("brief"), zk.FlagTTL, zk.WorldACL(zk.PermAll), ttl)
		s.must(err)
		s.note(id, txnlog.Op{Kind: txnlog.OpCreate, Path: p, Data: []byte("brief"), CVersion: int32(9 + i)})
		if i == 0 {
			s.gone(p)
			s.note(0, txnlog.Op{Kind: txnlog.OpDelete, Path: p})
		}
	}
	s.create2("/t/create2", 11)
}

// create2 sends a create2 request in a session of its own, because the client library does not know
// this request.
func (s *scenario) create2(p string, version int32) {
	var id int64
	s.must(wire.WithConn(s.ctx, s.addr, func(conn net.Conn) error {
		request := binary.BigEndian.AppendUint32(nil, 1) // xid
		request = binary.BigEndian.AppendUint32(request, 15)
		request = appendString(request, p)
		request = appendString(request, "by create2")
		request = binary.BigEndian.AppendUint32(request, 1)
		request = binary.BigEndian.AppendUint32(request, 31)
		request = appendString(request, "world")
		request = appendString(request, "anyone")
		request = binary.BigEndian.AppendUint32(request, 1) // ephemeral
		closing := []byte{0, 0, 0, 2, 0xff, 0xff, 0xff, 0xf5}
		for i, b := range [][]byte{wire.ConnectRequest(0, make([]byte, 16)), wire.Frame(request), wire.Frame(closing)} {
			if _, err := conn.Write(b); err != nil {
				return err
			}
			reply, err := wire.ReadFrame(conn)
			if err != nil {
				return err
			}
			if i == 0 {
				if id, _, err = wire.ParseConnectResponse(reply); err != nil {
					return err
				}
			} else if len(reply) < 20 || !bytes.Equal(reply[16:20], make([]byte, 4)) {
				return fmt.Errorf("reply %d is %x", i, reply)
			}
		}
		return nil
	}))
	s.gone(p)
	s.note(id, txnlog.Op{Kind: txnlog.OpBeginSession, Timeout: time.Minute}) // the timeout that package wire requests
	s.note(id, txnlog.Op{Kind: txnlog.OpCreate, Path: p, Data: []byte("by create2"), Ephemeral: true, CVersion: version})
	s.note(id, txnlog.Op{Kind: txnlog.OpCloseSession, Ended: []string{p}})
}

func appendString(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}

// nodes returns all nodes as a client sees them, without /zookeeper, sorted by path.
func nodes(t testing.TB, z *zk.Conn) []txnlog.Node {
	t.Helper()
	var all []txnlog.Node
	var walk func(string)
	walk = func(p string) {
		data, stat, err := z.Get(p)
		if err != nil {
			t.Fatalf("get %s: %v", p, err)
		}
		n := txnlog.Node{
			Path: p, Data: data, Czxid: stat.Czxid, Mzxid: stat.Mzxid, Pzxid: stat.Pzxid,
			Ctime: time.UnixMilli(stat.Ctime), Mtime: time.UnixMilli(stat.Mtime),
			Version: stat.Version, CVersion: (stat.Cversion + stat.NumChildren) / 2, EphemeralOwner: stat.EphemeralOwner,
		}
		all = append(all, n)
		children, _, err := z.Children(p)
		if err != nil {
			t.Fatalf("list %s: %v", p, err)
		}
		slices.Sort(children)
		for _, c := range children {
			if p != "/" || c != "zookeeper" {
				walk(path.Join(p, c))
			}
		}
	}
	walk("/")
	slices.SortFunc(all, func(a, b txnlog.Node) int { return strings.Compare(a.Path, b.Path) })
	return all
}
