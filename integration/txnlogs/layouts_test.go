package txnlogs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/history"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// mark is a write by the holder of a lock, during its hold: right after it, the log must name the owner as
// the only holder, or say that it does not know.
type mark struct{ lock, owner string }

// traffic has clients take locks, and notes who held which at what zxid.
type traffic struct {
	testing.TB
	addrs []string
	mu    sync.Mutex
	marks map[int64]mark // by zxid
}

func newTraffic(t testing.TB, addrs []string) *traffic {
	return &traffic{TB: t, addrs: addrs, marks: map[int64]mark{}}
}

func (w *traffic) ok(err error) {
	w.Helper()
	iferr.Fatal(w, err)
}

func (w *traffic) client(owner string, ttl time.Duration) *lock.Client {
	w.Helper()
	c, err := lock.Dial(w.Context(), w.addrs, lock.WithRoot("/locks"), lock.WithOwner(owner), lock.WithTTL(ttl), lock.WithSessionTimeout(time.Minute))
	w.ok(err)
	w.Cleanup(func() { _ = c.Close() }) // some servers are stopped by then
	return c
}

// connect returns a plain connection, and makes the node of the marks.
func (w *traffic) connect() *zk.Conn {
	w.Helper()
	z, _, err := zkserver.Connect(w.Context(), w.addrs, time.Minute, nil)
	w.ok(err)
	w.Cleanup(z.Close)
	if _, err := z.Create("/marks", nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		w.Fatal(err)
	}
	return z
}

// note marks that the owner holds the lock. If the reply is lost, or the lease may have ended before, it notes nothing.
func (w *traffic) note(z *zk.Conn, name, owner string) {
	begin := time.Now()
	if stat, err := z.Set("/marks", []byte(owner), -1); err == nil && time.Since(begin) < 10*time.Second { // wall clock: a third of a lease
		w.mu.Lock()
		w.marks[stat.Mzxid] = mark{name, owner}
		w.mu.Unlock()
	}
}

// run has the workers take turns at the locks, until done returns true. Errors of a call only end its turn:
// servers may be killed meanwhile.
func (w *traffic) run(workers, locks int, done func() bool) {
	w.Helper()
	z := w.connect()
	var wg sync.WaitGroup
	for i := range workers {
		owner := fmt.Sprintf("worker-%d", i)
		c := w.client(owner, 30*time.Second)
		wg.Go(func() {
			defer c.Close() // writes of a client without work would come at any time
			for n := 0; !done() && w.Context().Err() == nil; n++ {
				name := fmt.Sprintf("busy/%d", (i+n)%locks)
				ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second) // wall clock: a busy worker goes on to its next lock
				h, err := c.Mutex(name).Lock(ctx)
				cancel()
				if err == nil {
					w.note(z, name, owner)
					_ = h.Unlock()
				}
			}
		})
	}
	wg.Wait()
}

// after returns a condition that is true once there are n more marks.
func (w *traffic) after(n int) func() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n += len(w.marks)
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.marks) >= n
	}
}

// story follows a log, and compares it with the marks.
type story struct {
	*history.Machine
	w                      *traffic
	right, unknown, wanted int
	wrong                  []string
}

func (s *story) Apply(t *txnlog.Txn) {
	s.Machine.Apply(t)
	m, ok := s.w.marks[t.Zxid]
	if !ok || t.Disputed {
		return
	}
	s.wanted++
	now, known := s.Machine.Now(), false
	var held []string
	for _, l := range now.Locks {
		if l.Lock == m.lock {
			known = !l.Unknown
			for _, h := range l.Holders {
				held = append(held, h.Client.Owner)
			}
		}
	}
	switch {
	case strings.Join(held, " ") == m.owner:
		s.right++
	case !known && len(held) == 0 && (now.Blind || len(now.Locks) > 0):
		s.unknown++
	case len(held) == 1 && held[0] == "": // the snapshot lacks the holder's node: only its path is known, by its deletion
		s.unknown++
	default:
		s.wrong = append(s.wrong, fmt.Sprintf("%#x: %s is held by %q, want %s", t.Zxid, m.lock, held, m.owner))
	}
}

// check reads the range of the log in the folders, and fails if that tells a falsehood:
// another holder than the clients saw, a violation, or a restore. It returns how many marks are told right,
// and how many are not known.
func (w *traffic) check(what string, r txnlog.Range, dirs ...string) (right, unknown int) {
	w.Helper()
	l := open(w, dirs...)
	s := &story{w: w}
	s.Machine = history.New(history.Options{Root: "/locks"}, func(e history.Event) {
		if e.Kind == history.Restored {
			w.Errorf("%s: restored at %#x", what, e.Zxid)
		}
	})
	warn := func(err error) { w.Logf("%s: %v", what, err) }
	_, err := l.Follow(w.Context(), r, s, warn)
	w.ok(err)
	for i, wrong := range s.wrong {
		if i < 5 {
			w.Errorf("%s: %s", what, wrong)
		}
	}
	a := audit.New(audit.Options{})
	_, err = l.Follow(w.Context(), r, a, func(error) {})
	w.ok(err)
	found := a.Report()
	for _, v := range found.Violations {
		w.Errorf("%s: %v", what, v)
	}
	if len(found.Restored) > 0 {
		w.Errorf("%s: the audit sees restores at %#x", what, found.Restored)
	}
	if s.wanted == 0 {
		w.Errorf("%s: no marks", what)
	}
	return s.right, s.unknown
}

// view returns a folder with the snapshot and the logs, or those that make it up.
func view(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		iferr.Fatal(t, os.Symlink(f, filepath.Join(dir, filepath.Base(f))))
	}
	return dir
}

// homes returns the unpacked releases at hand: those in the folder that HOLDFAST_SERVERS names, or else, or
// if ZOOKEEPER_HOME is set, only the one that the other tests use, "".
func homes(t testing.TB) (all []string) {
	dir := os.Getenv(zkserver.EnvReleases)
	if dir == "" || os.Getenv(zkserver.EnvHome) != "" {
		return []string{""}
	}
	folders, err := os.ReadDir(dir)
	iferr.Fatal(t, err)
	for _, f := range folders {
		if _, err := zkserver.ParseVersion(f.Name()); err == nil {
			all = append(all, filepath.Join(dir, f.Name()))
		}
	}
	return all
}

// eachRelease runs a test on each release at hand.
func eachRelease(t *testing.T, test func(t *testing.T, in zkserver.Installation)) {
	zkserver.NeedReal(t)
	for _, home := range homes(t) {
		t.Run(cmp.Or(filepath.Base(home), "installed"), func(t *testing.T) {
			if home != "" {
				t.Setenv(zkserver.EnvHome, home)
			}
			in, err := zkserver.Find(t.Context())
			iferr.Fatal(t, err)
			test(t, in)
		})
	}
}

// logDir returns the folder of the logs of a server whose dataLogDir is ./txn.
func logDir(s *zkserver.Server) string {
	return filepath.Join(filepath.Dir(filepath.Dir(s.DataDir())), "txn", "version-2")
}

// TestLayouts: with snapshots and logs apart, rolled logs, and compressed snapshots, the log names the
// holders that the clients saw, before and after ZooKeeper's own purge. What the purge removed is not known.
func TestLayouts(t *testing.T) {
	eachRelease(t, func(t *testing.T, in zkserver.Installation) {
		for _, compression := range []string{"", "gz", "snappy"} {
			t.Run("compression="+compression, func(t *testing.T) { layout(t, in, compression) })
		}
	})
}

func layout(t *testing.T, in zkserver.Installation, compression string) {
	s := zkserver.ForTest(t, zkserver.Options{Installation: in, Config: []string{"dataLogDir=./txn"}, JVMArgs: []string{
		"-Dzookeeper.snapshot.compression.method=" + compression, "-Dzookeeper.snapCount=100", "-Dzookeeper.preAllocSize=16",
		"-Dzookeeper.txnLogSizeLimitInKb=64",
	}})
	if v := version(t, s); compression != "" && v.Number[0] == 3 && v.Number[1] < 6 {
		t.Skip("releases before 3.6 do not compress snapshots")
	}
	w := newTraffic(t, []string{s.Addr()})
	long, err := w.client("long", time.Hour).Mutex("long").Lock(t.Context())
	w.ok(err)
	defer long.Unlock() //nolint:errcheck // the server may have stopped
	w.run(6, 3, w.after(150))
	w.ok(s.Restart(t.Context()))
	w.run(6, 3, w.after(150))
	w.note(w.connect(), "long", "long")
	right, unknown := w.check("whole", txnlog.Range{}, s.DataDir(), logDir(s))
	if unknown > 0 {
		t.Errorf("%d marks are not known, although nothing was purged", unknown)
	}
	purge := exec.CommandContext(t.Context(), in.Java, "-cp", in.ClassPath, "org.apache.zookeeper.server.PurgeTxnLog", filepath.Dir(logDir(s)), filepath.Dir(s.DataDir()), "-n", "3")
	if out, err := purge.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	purged, vague := w.check("purged", txnlog.Range{}, s.DataDir(), logDir(s))
	if purged == 0 || purged >= right {
		t.Errorf("of %d marks %d are told after the purge, and %d not known", right, purged, vague)
	}
	logsAlone, vagueAlone := w.check("logs alone", txnlog.Range{}, logDir(s))
	t.Logf("%d marks; %d told after the purge, %d not known; without snapshots %d and %d", right, purged, vague, logsAlone, vagueAlone)
}

// TestUnderLoad: each of the snapshots that a server saves while clients write, with the log after it, names
// the holders that the clients saw, or says that it does not know, and shows no violation.
// HOLDFAST_SNAPSHOTS=100 saves as many.
func TestUnderLoad(t *testing.T) {
	want := 6
	if text := os.Getenv("HOLDFAST_SNAPSHOTS"); text != "" {
		if _, err := fmt.Sscan(text, &want); err != nil {
			t.Fatalf("HOLDFAST_SNAPSHOTS=%q: %v", text, err)
		}
	}
	eachRelease(t, func(t *testing.T, in zkserver.Installation) { underLoad(t, in, want) })
}

func underLoad(t *testing.T, in zkserver.Installation, want int) {
	s := zkserver.ForTest(t, zkserver.Options{Installation: in, Optimize: true, HeapMB: 512, JVMArgs: []string{"-Dzookeeper.snapCount=1000"}})
	w := newTraffic(t, []string{s.Addr()})
	fill(t, w.connect(), 20_000)
	saved := func() []string {
		files, err := filepath.Glob(filepath.Join(s.DataDir(), "snapshot.*"))
		iferr.Fatal(t, err)
		return files
	}
	first := len(saved())
	begin := time.Now()
	zxid := func() int64 {
		n, err := s.Zxid(t.Context())
		w.ok(err)
		return n
	}
	from := zxid()
	w.run(16, 8, func() bool { return len(saved()) >= first+want })
	rate := float64(zxid()-from) / time.Since(begin).Seconds()
	logs, err := filepath.Glob(filepath.Join(s.DataDir(), "log.*"))
	w.ok(err)
	right, unknown, fuzzy := 0, 0, 0
	l := open(w, s.DataDir())
	for _, snap := range l.Snapshots() {
		if snap.Zxid < from {
			continue
		}
		for n, err := range snap.Nodes() {
			if err != nil { // the server is saving it
				break
			}
			if n.Czxid > snap.Zxid || n.Mzxid > snap.Zxid || n.Pzxid > snap.Zxid {
				fuzzy++
				break
			}
		}
		r, u := w.check(filepath.Base(snap.Path), txnlog.Range{From: snap.Zxid + 1, To: snap.Zxid + 1500}, view(t, append(logs, snap.Path)...))
		right, unknown = right+r, unknown+u
	}
	t.Logf("%.0f writes a second; %d snapshots, %d of them fuzzy; %d marks told, %d not known", rate, len(l.Snapshots()), fuzzy, right, unknown)
	if right == 0 || fuzzy == 0 {
		t.Errorf("%d marks told, of %d fuzzy snapshots", right, fuzzy)
	}
}

// fill makes nodes that the server must save, so that it takes time for a snapshot.
func fill(t *testing.T, z *zk.Conn, nodes int) {
	t.Helper()
	acl := zk.WorldACL(zk.PermAll)
	for n := 0; n < nodes; n += 500 {
		var ops []any
		parent := fmt.Sprintf("/fill-%d", n)
		ops = append(ops, &zk.CreateRequest{Path: parent, Acl: acl})
		for i := range 500 {
			ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("%s/%d", parent, i), Data: make([]byte, 200), Acl: acl})
		}
		iferr.Fatal(t, iferr.Of(z.Multi(ops...)))
	}
}
