// The transcripts in testdata/wire: what each mechanism sends, and what it leaves behind.

package lock_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// transcript has steps, and the requests, replies and watch events of each.
type transcript struct {
	*world
	text strings.Builder
	ids  map[string]string // random ids, and what the transcript calls them

	// unordered: goroutines submit at one moment; the members of a transaction are written in the
	// order of their locks.
	unordered bool

	at     time.Time
	moment []string // what happens at that time, which is written in alphabetical order
}

func (s *transcript) printf(format string, args ...any) { fmt.Fprintf(&s.text, format, args...) }

// client returns a client that has learned the ensemble's time and has made the root.
func (s *transcript) client(label string, opts ...lock.Option) *lock.Client {
	c := s.world.client(label, append([]lock.Option{lock.WithInFlight(0)}, opts...)...) // whatever -inflight says
	s.unlock(s.lock(c, "before"))
	time.Sleep(5 * time.Second)
	return c
}

// step runs f, and writes what the clients send until they settle.
func (s *transcript) step(title string, f func()) {
	s.printf("\n%s\n", title)
	before := s.text.Len()
	s.Trace(s.event)
	f()
	settle()
	s.Trace(nil)
	s.flush()
	if s.text.Len() == before {
		s.printf("  no request\n")
	}
}

// after writes what the clients send in the time d.
func (s *transcript) after(d time.Duration, title string) { s.step(title, func() { time.Sleep(d) }) }

// nodes writes the nodes below the root.
func (s *transcript) nodes() {
	s.printf("\nnodes\n")
	var lines []string
	for _, n := range s.Dump("/") {
		if n.Path != "/" && n.Path != lock.DefaultRoot && n.Path != epochMark && !strings.HasPrefix(n.Path, "/zookeeper") {
			lines = append(lines, fmt.Sprintf("  %-28s version %d%s\n", s.short(n.Path), n.Stat.Version, s.describe(n.Path, n.Data)))
		}
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		lines = []string{"  none\n"}
	}
	s.printf("%s", strings.Join(lines, ""))
}

var (
	randomID = regexp.MustCompile(`[0-9a-f]{16}`)
	sequence = regexp.MustCompile(`0{6,9}([0-9]+)$`)
)

// short returns a path as transcripts have it: relative to the root, with g1, g2 for generations, and
// without the anchor's and the sequences' digits.
func (s *transcript) short(p string) string {
	p = strings.TrimSuffix(strings.TrimPrefix(p, lock.DefaultRoot+"/"), "__2147483647")
	p = sequence.ReplaceAllString(p, "$1")
	return randomID.ReplaceAllStringFunc(p, func(id string) string {
		if s.ids[id] == "" {
			s.ids[id] = fmt.Sprint("g", len(s.ids)+1)
		}
		return s.ids[id]
	})
}

// describe returns what a node's data say, with a blank before it.
func (s *transcript) describe(p string, data []byte) string {
	node := path.Base(p)
	if r, err := znode.DecodeRevocation(node, data); err == nil && path.Base(path.Dir(p)) == znode.Inbox {
		return fmt.Sprintf(" {%s asks for %s: %s}", r.Owner, s.short(r.Entry), r.Reason)
	}
	if a, err := znode.DecodeAnchor(data); err == nil {
		if a.Permits == 0 {
			return ""
		}
		return fmt.Sprintf(" {%d permits}", a.Capacity())
	}
	if parent, err := znode.DecodeParent(data); err == nil && len(data) > 0 {
		return strings.TrimRight(fmt.Sprintf(" {%s %s", parent.Kind, s.short(parent.Generation)), " ") + "}"
	}
	r, err := znode.DecodeRecord(data)
	if err != nil {
		return strings.TrimSuffix(fmt.Sprintf(" %q", data), ` ""`)
	}
	words := []string{r.Owner, fmt.Sprint(time.Duration(r.TTL) * time.Millisecond)}
	for word, is := range map[string]bool{"granted": r.Granted(), "shared": r.Shared, "detached": r.Detached} {
		if is {
			words = append(words, word)
		}
	}
	slices.Sort(words[2:])
	if r.Incarnation > 0 {
		words = append(words, fmt.Sprint("incarnation ", r.Incarnation))
	}
	if value := r.Metadata[znode.ValueKey]; value != "" {
		words = append(words, "value "+value)
	}
	return " {" + strings.Join(words, ", ") + "}"
}

// codes are the refusals that transcripts have.
var codes = map[int32]string{
	-2: "not tried", codeNoNode: "no node", -103: "bad version", -110: "node exists", codeNotEmpty: "not empty",
}

func (s *transcript) event(ev locktest.Event) {
	if !ev.Time.Equal(s.at) {
		s.flush()
		s.at = ev.Time
	}
	add := func(format string, args ...any) { s.moment = append(s.moment, fmt.Sprintf("  "+format+"\n", args...)) }
	switch {
	case ev.Kind == "watch":
		add("%s  <- %s %s", ev.Label, ev.Op, s.short(ev.Paths[0]))
	case ev.Kind != "request" || len(ev.Ops) == 0:
	case ev.Op == "multi":
		refused := slices.ContainsFunc(ev.Ops, func(o locktest.EventOp) bool { return o.Code != 0 })
		lines := []string{ev.Label + "  multi" + map[bool]string{true: ", refused"}[refused]}
		if s.unordered {
			slices.SortStableFunc(ev.Ops, func(a, b locktest.EventOp) int { return strings.Compare(lockOf(a.Path), lockOf(b.Path)) })
		}
		for _, o := range ev.Ops {
			lines = append(lines, "     "+s.op(o, refused))
		}
		add("%s", strings.Join(lines, "\n  "))
	default:
		add("%s  %s", ev.Label, s.op(ev.Ops[0], false))
	}
}

// flush writes what has happened at one time. One latency is between a request and what follows from it,
// so the order of goroutines that run at one time is all that is lost.
func (s *transcript) flush() {
	slices.Sort(s.moment)
	s.printf("%s", strings.Join(s.moment, ""))
	s.moment = nil
}

// lockOf returns the lock's part of a path.
func lockOf(p string) string {
	lock, _, _ := strings.Cut(strings.TrimPrefix(p, lock.DefaultRoot+"/"), "/")
	return lock
}

// op returns an operation and the answer to it. Of a refused transaction only the refusal is shown.
func (s *transcript) op(o locktest.EventOp, refused bool) string {
	text := fmt.Sprintf("%-9s %s", strings.TrimSuffix(o.Op, "2"), s.short(o.Path))
	writes := o.Op == "create" || o.Op == "setData"
	if o.Sequential {
		text += "+"
	}
	if o.Op == "setData" || o.Op == "delete" || o.Op == "check" && o.Version >= 0 {
		text += strings.Replace(fmt.Sprintf(" on %d", o.Version), "-1", "any", 1)
	}
	if writes {
		text += s.describe(o.Path, o.Data)
	}
	if o.Watch {
		text += " watch"
	}
	switch {
	case o.Code == -2, o.Code == 0 && refused:
	case o.Code != 0:
		text += " -> " + codes[o.Code]
	case o.Sequential:
		text += " -> " + path.Base(s.short(o.Created))
	case o.Op == "setData":
		text += fmt.Sprintf(" -> version %d", o.Stat.Version)
		if o.Stat.NumChildren > 0 {
			text += fmt.Sprintf(", %d children", o.Stat.NumChildren)
		}
	case o.Op == "getData":
		text += fmt.Sprintf(" -> version %d%s", o.Stat.Version, s.describe(o.Path, o.Data))
	case len(o.Children) > 0:
		var names []string
		for _, c := range o.Children {
			names = append(names, s.short(c))
		}
		slices.Sort(names)
		text += " -> " + strings.Join(names, " ")
	}
	return text
}

// wire runs a scenario, and compares its transcript. about is the transcript's first line.
func wire(t *testing.T, name, about string, run func(s *transcript)) {
	subtest(t, name, locktest.Options{}, func(w *world) {
		s := &transcript{world: w, ids: map[string]string{}}
		s.printf("%s\n", about)
		run(s)
		s.Trace(nil)
		file := filepath.Join("testdata", "wire", name+".txt")
		if os.Getenv("UPDATE") != "" {
			w.ok(os.WriteFile(file, []byte(s.text.String()), 0o644))
		}
		want, err := os.ReadFile(file)
		w.ok(err)
		if got := s.text.String(); got != string(want) {
			w.Errorf("%s is stale (UPDATE=1 go test -run TestWire ./lock):\n%s", file, got)
		}
	})
}
