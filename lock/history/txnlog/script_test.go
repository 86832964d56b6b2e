package txnlog

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/script"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestScripts runs the scripts in testdata/scripts: folders with files, and what is read from them.
//
//	folder
//	log 1/1 1/1-4 !1/5 1/6-7=other    by its first zxid; entries, one of them damaged, and some with other data
//	log 1/8 1/8 +1/9:/a -1/10:/a      a create and a delete, at the time 0
//	snapshot 1/3 /a@1/2               by its zxid, and its nodes
//	log 1/11 1/11-20@1h               by a clock that is an hour ahead
//	read from=1/2 until=1/7+1ms       the transactions, and the problems
//	follow                            what a Follower is told
//
// Entry E/C has the time of E hours and C seconds. Disputed transactions have a question mark.
func TestScripts(t *testing.T) {
	script.Each(t, "testdata/scripts", func(t *testing.T, sc *script.Scenario) {
		r := &reading{T: t}
		sc.Check(t, sc.Play(t, r.do), script.First)
	})
}

// reading runs the lines of a script.
type reading struct {
	*testing.T
	folders []map[string][]byte
}

func (r *reading) do(line string) []string {
	switch words := strings.Fields(line); words[0] {
	case "folder":
		r.folders = append(r.folders, map[string][]byte{})
	case "log":
		r.add("log", words[1], r.log(words[2:]))
	case "snapshot":
		r.add("snapshot", words[1], r.snapshot(words[2:]))
	case "read":
		return r.read(words[1:])
	case "follow":
		return r.follow(words[1:])
	default:
		r.Fatalf("%s: there is no command %s", line, words[0])
	}
	return nil
}

// add adds a file to the last folder. Its name is a zxid, or what stands in the file's name.
func (r *reading) add(kind, name string, data []byte) {
	if strings.Contains(name, "/") {
		name = fmt.Sprintf("%x", r.zxid(name))
	}
	r.folders[len(r.folders)-1][kind+"."+name] = data
}

func (r *reading) zxid(text string) int64 {
	r.Helper()
	var epoch, counter int64
	if _, err := fmt.Sscanf(text, "%d/%d", &epoch, &counter); err != nil {
		r.Fatalf("%s: must be EPOCH/COUNTER", text)
	}
	return zx(epoch, counter)
}

// log returns the bytes of a log with the entries.
func (r *reading) log(words []string) []byte {
	if len(words) == 0 {
		return nil
	}
	b := file()
	for _, w := range words {
		switch what, arg, _ := strings.Cut(w[1:], ":"); {
		case w == "torn":
			b = append(b, "torn"...)
		case w == "text":
			b = []byte(strings.Repeat("text ", 20))
		case w == "version-3":
			b = append([]byte("ZKLG\x00\x00\x00\x03"), make([]byte, 99)...)
		case w[0] == '+':
			b = append(b, frame(created(r.zxid(what), arg))...)
		case w[0] == '-':
			b = append(b, frame(deleted(r.zxid(what), arg))...)
		case w[0] == '?': // of an unknown type
			b = append(b, frame(record(r.zxid(what), start, 99, nil))...)
		default:
			b = append(b, r.entries(w)...)
		}
	}
	return b
}

// entries returns the bytes of entries: [!]E/C[-C][=DATA|+digest]; of a clock that is ahead [!]E/C[-C]@D.
func (r *reading) entries(word string) (b []byte) {
	word, damaged := strings.CutPrefix(word, "!")
	word, digest := strings.CutSuffix(word, "+digest")
	word, ahead, stepped := strings.Cut(word, "@")
	span, data, ok := strings.Cut(word, "=")
	if !ok {
		data = "data"
	}
	first, last, ok := strings.Cut(span, "-")
	from := r.zxid(first)
	to := znode.Counter(from)
	if ok {
		to = znode.Counter(r.zxid("0/" + last))
	}
	for i, one := range run(znode.Epoch(from), znode.Counter(from), to, data) {
		if digest {
			one = u64(u32(one, 2), int64(i)*7919)
		}
		if stepped {
			zxid := zx(znode.Epoch(from), znode.Counter(from)+int64(i))
			one = setData(zxid, r.time(fmt.Sprintf("%d/%d+%s", znode.Epoch(zxid), znode.Counter(zxid), ahead)), data)
		}
		f := frame(one)
		if damaged {
			f[frameSize+30] ^= 0xff
		}
		b = append(b, f...)
	}
	return b
}

// snapshot returns the bytes of a snapshot with the nodes, or an empty file without a word.
func (r *reading) snapshot(words []string) []byte {
	if len(words) == 0 {
		return nil
	}
	var nodes []Node
	broken := false
	for _, w := range words {
		switch path, zxid, ok := strings.Cut(w, "@"); {
		case w == "damaged":
			broken = true
		case ok:
			nodes = append(nodes, Node{Path: path, Czxid: r.zxid(zxid)})
		case w != "/": // the root is there anyway
			r.Fatalf("%s: must be PATH@ZXID", w)
		}
	}
	b := snapshot(nodes...)
	if broken {
		b[60] ^= 1
	}
	return b
}

// open writes the folders, opens them, and removes the logs named by without=ZXID,... again.
func (r *reading) open(words []string) (*Log, Range) {
	var dirs []string
	for _, files := range r.folders {
		dirs = append(dirs, write(r, files))
	}
	l := mustOpen(r, dirs...)
	var rng Range
	for _, w := range words {
		switch name, value, _ := strings.Cut(w, "="); name {
		case "from":
			rng.From = r.zxid(value)
		case "to":
			rng.To = r.zxid(value)
		case "since":
			rng.Since = r.time(value)
		case "until":
			rng.Until = r.time(value)
		case "without":
			for one := range strings.SplitSeq(value, ",") {
				iferr.Fatal(r, os.Remove(filepath.Join(dirs[0], fmt.Sprintf("log.%x", r.zxid(one)))))
			}
		default:
			r.Fatalf("a range has no %s", name)
		}
	}
	return l, rng
}

// time returns the time of an entry, and some time before or after it: E/C[+D|-D].
func (r *reading) time(text string) time.Time {
	var more time.Duration
	if i := strings.IndexAny(text, "+-"); i >= 0 {
		d, err := time.ParseDuration(text[i:])
		iferr.Fatal(r, err)
		text, more = text[:i], d
	}
	zxid := r.zxid(text)
	return start.Add(time.Duration(znode.Epoch(zxid))*time.Hour + time.Duration(znode.Counter(zxid))*time.Second + more)
}

func (r *reading) read(words []string) []string {
	l, rng := r.open(words)
	txns, problems := collect(l, rng)
	results := []string{"nothing"}
	if len(txns) > 0 {
		results[0] = zxids(txns)
	}
	for _, p := range problems {
		if text := p.Error(); text == "" || strings.Contains(text, "%!") {
			r.Errorf("message %q", text)
		}
		results = append(results, told(l, p))
	}
	return results
}

// told returns a problem as text, with the indexes of its folders.
func told(l *Log, p *Problem) string {
	text := fmt.Sprintf("%v %d/%d-%d/%d", p.Kind, znode.Epoch(p.Zxid), znode.Counter(p.Zxid), znode.Epoch(p.Until), znode.Counter(p.Until))
	for _, d := range p.Dirs {
		text += fmt.Sprintf(" #%d", slices.Index(l.dirs, d))
	}
	return text
}

func (r *reading) follow(words []string) []string {
	l, rng := r.open(words)
	n, warnings := &notes{}, 0
	iferr.Fatal(r, iferr.Of(l.Follow(r.Context(), rng, n, func(error) { warnings++ })))
	n.flush()
	if warnings > 0 {
		n.told = append(n.told, fmt.Sprintf("%d warnings", warnings))
	}
	return n.told
}

// notes is a follower that notes what it is told.
type notes struct {
	blind bool
	told  []string
	txns  []Txn // since the last note
}

func (n *notes) note(text string) {
	n.flush()
	n.told = append(n.told, text)
}

func (n *notes) flush() {
	if len(n.txns) > 0 {
		n.told = append(n.told, zxids(n.txns))
	}
	n.txns = nil
}

func (n *notes) Keep(path string) bool { return path != "/" && !strings.HasPrefix(path, "/other") }

func (n *notes) Begin(zxid int64, nodes iter.Seq2[Node, error]) error {
	s := fmt.Sprintf("begin %d/%d:", znode.Epoch(zxid), znode.Counter(zxid))
	for n, err := range nodes {
		if err != nil {
			return err
		}
		s += " " + n.Path
		if n.Lost {
			s += "?"
		}
	}
	n.note(s)
	n.blind = false
	return nil
}

func (n *notes) Opened(s Session) { n.note(fmt.Sprint("session ", s.ID, " ", s.Timeout)) }
func (n *notes) Gap()             { n.note("gap"); n.blind = true }
func (n *notes) Blind() bool      { return n.blind }
func (n *notes) Apply(t *Txn)     { n.txns = append(n.txns, *t) }
