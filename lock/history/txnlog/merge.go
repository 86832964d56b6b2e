package txnlog

import (
	"cmp"
	"os"
	"slices"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// merge reads the logs of all folders in the order of zxids.
type merge struct {
	log   *Log
	rng   Range
	to    int64
	files []*logFile // not open yet, sorted by first zxid
	open  []*source

	group    []*source // sources at the lowest zxid, sorted by folder
	rest     []*source // of the group: those whose entries next has not returned yet
	disputed bool      // the folders differ at the group's zxid
	last     int64     // zxid of the group; 0: none yet
	sure     int64     // zxid of the last group that is not disputed; 0: none yet
	started  bool      // an entry in the range was seen
	folders  []folder

	problems       []*Problem
	differ         *Problem // the run of disputed transactions so far
	read, reported int64    // bytes read so far, and at the last call of Progress
	total          int64    // bytes to read, estimated
}

// source is an open log and its next entry.
type source struct {
	*scanner
	file *os.File
	dir  int
	cur  entry
}

// folder is what is known of one folder while reading.
type folder struct {
	seen recent // its latest entries
	last int64  // its last zxid
}

func newMerge(l *Log, r Range) *merge {
	m := &merge{log: l, rng: r, folders: make([]folder, len(l.dirs))}
	m.to = r.To
	if !r.Until.IsZero() {
		around := l.around(r.Until)
		for _, f := range append(around, l.needed(r, r.To)...) { // an estimate until last is known
			m.total += f.size
		}
		last := lastUntil(around, r.Until, m.progress)
		if last == 0 {
			last = -1 // the range is empty
		}
		if m.to == 0 || last < m.to {
			m.to = last
		}
		m.total = m.read
	}
	m.files = l.needed(r, m.to)
	for _, f := range m.files {
		m.total += f.size
	}
	return m
}

func (m *merge) close() {
	for _, s := range m.open {
		s.file.Close()
	}
	m.open = nil
	if m.log.Progress != nil && m.read > m.reported {
		m.log.Progress(m.read, max(m.total, m.read))
	}
}

func (m *merge) report(p *Problem) { m.problems = append(m.problems, p) }

func (m *merge) takeProblems() []*Problem {
	problems := m.problems
	m.problems = nil
	return problems
}

func (m *merge) progress(n int) {
	m.read += int64(n)
	if m.log.Progress != nil && m.read >= m.reported+1<<20 {
		m.reported = m.read
		m.log.Progress(m.read, max(m.total, m.read))
	}
}

// next returns the source with the next transaction; nil at the end. Its entry's payload is valid
// until the next call. Where the folders differ, next returns each version, and m.disputed is true.
func (m *merge) next() *source {
	for len(m.rest) == 0 {
		m.advance()
		group := m.lowest()
		if group == nil || m.to != 0 && group[0].cur.zxid > m.to {
			m.flush()
			return nil
		}
		previous, zxid := m.last, group[0].cur.zxid
		versions := distinct(group)
		m.disputed = len(versions) > 1 || m.skipped(zxid)
		end := m.epochEnd(zxid)
		m.last = zxid
		for _, s := range group {
			m.folders[s.dir].last = zxid
		}
		if !m.disputed {
			m.sure = zxid
		}
		if !m.inRange(group[0].cur) {
			continue
		}
		if m.disputed {
			m.dispute(zxid, len(versions) > 1)
		} else {
			m.flush()
		}
		if end != nil {
			m.report(end)
		}
		m.gap(previous, zxid)
		m.rest = versions
	}
	s := m.rest[0]
	m.rest = m.rest[1:]
	return s
}

// distinct returns a source for each of the different transactions that the group has.
func distinct(group []*source) (versions []*source) {
	for _, s := range group {
		if !slices.ContainsFunc(versions, func(o *source) bool { return sameTxn(s.cur.payload, o.cur.payload) }) {
			versions = append(versions, s)
		}
	}
	return versions
}

// skipped reports whether a folder lacks the transaction, and goes on with the first one of a later
// epoch, without a snapshot that its server got instead. Then the leader of that epoch may have
// discarded the transaction. A folder that goes on later in an epoch was away, and the others fill its
// gap.
func (m *merge) skipped(zxid int64) bool {
	for dir := range m.folders {
		if m.folders[dir].last == 0 || slices.ContainsFunc(m.group, func(s *source) bool { return s.dir == dir }) {
			continue
		}
		head := m.head(dir)
		if znode.Epoch(head) > znode.Epoch(zxid) && znode.Counter(head) == 1 && !slices.ContainsFunc(m.log.snaps, func(s *Snapshot) bool {
			return s.dir == dir && s.Zxid >= zxid && s.Zxid < head && znode.Counter(s.Zxid) != 0 // 3.4 saves one with 0 in each election
		}) {
			return true
		}
	}
	return false
}

// inRange reports whether e is in the range or after it. If so, it records that the range has
// started.
func (m *merge) inRange(e entry) bool {
	if e.zxid < m.rng.From {
		return false
	}
	if !m.started && !m.rng.Since.IsZero() && e.time < m.rng.Since.UnixMilli() {
		return false
	}
	m.started = true
	return true
}

// advance reads the next entries of the group's sources. It closes sources that have ended.
func (m *merge) advance() {
	over := false
	for _, s := range m.group {
		s.cur, _ = s.next()
		over = over || s.cur.payload == nil
	}
	m.group = m.group[:0]
	if !over {
		return
	}
	m.open = slices.DeleteFunc(m.open, func(s *source) bool {
		if s.cur.payload != nil {
			return false
		}
		s.file.Close()
		return true
	})
}

// lowest opens the logs that may have the lowest zxid, and returns the sources at the lowest zxid;
// nil at the end of all logs.
func (m *merge) lowest() []*source {
	for len(m.files) > 0 && (len(m.open) == 0 || m.files[0].first <= m.min()) {
		f := m.files[0]
		m.files = m.files[1:]
		before := m.read
		file, sc := f.open(m.report, m.progress)
		if sc == nil {
			m.progress(int(f.size - (m.read - before)))
			continue
		}
		sc.seen = &m.folders[f.dir].seen
		s := &source{scanner: sc, file: file, dir: f.dir}
		if s.cur, _ = s.next(); s.cur.payload == nil {
			file.Close()
			continue
		}
		m.open = append(m.open, s)
	}
	if len(m.open) == 0 {
		return nil
	}
	low := m.min()
	m.group = m.group[:0]
	for _, s := range m.open {
		if s.cur.zxid == low {
			m.group = append(m.group, s)
		}
	}
	if len(m.group) > 1 {
		slices.SortStableFunc(m.group, func(a, b *source) int { return cmp.Compare(a.dir, b.dir) })
	}
	return m.group
}

func (m *merge) min() int64 {
	low := m.open[0].cur.zxid
	for _, s := range m.open[1:] {
		low = min(low, s.cur.zxid)
	}
	return low
}

// head returns the zxid of a folder's next entry; 0 if there is none.
func (m *merge) head(dir int) int64 {
	var head int64
	for _, s := range m.open {
		if s.dir == dir && (head == 0 || s.cur.zxid < head) {
			head = s.cur.zxid
		}
	}
	for _, f := range m.files {
		if f.dir == dir && (head == 0 || f.first < head) {
			return f.first
		}
	}
	return head
}

// dispute adds the group's transaction to the run of disputed ones. versions: the folders have
// different transactions, which no servers of one ensemble have.
func (m *merge) dispute(zxid int64, versions bool) {
	kind := ProblemDisputed
	if versions {
		kind = ProblemDisagree
	}
	if m.differ == nil || m.differ.Kind != kind {
		m.flush()
		m.differ = &Problem{Kind: kind, Zxid: zxid}
	}
	p := m.differ
	p.Until = zxid
	p.Count++
	for _, s := range m.group {
		if dir := m.log.dirs[s.dir]; !slices.Contains(p.Dirs, dir) {
			p.Dirs = append(p.Dirs, dir)
		}
	}
}

// flush reports the run of disputed transactions, if there is one.
func (m *merge) flush() {
	if m.differ != nil {
		m.report(m.differ)
		m.differ = nil
	}
}

// epochEnd returns the problem that no folder shows with which transaction the epoch before zxid ended; nil if
// one does: its log has the last transaction that is sure and then zxid, and its server loaded no snapshot in
// between. A leader sends one to a server whose log lacks the end of the last epoch, or has transactions that
// were discarded. If that is one of its epoch's beginning, the counters show no gap.
func (m *merge) epochEnd(zxid int64) *Problem {
	if m.sure == 0 || m.disputed || znode.Epoch(max(m.sure, m.rng.From)) == znode.Epoch(zxid) {
		return nil // it is the same epoch, or that end is before the range
	}
	for _, s := range m.group {
		last := m.folders[s.dir].last
		if snap := m.snapshotBefore(s.dir, zxid); snap > last && snap == m.sure || snap <= last && last >= m.sure {
			return nil
		}
	}
	p := &Problem{Kind: ProblemEpoch, Zxid: m.last + 1, Until: m.last}
	for _, s := range m.log.snaps { // the servers got them so, or the next leader discarded them
		if znode.Epoch(s.Zxid) == znode.Epoch(m.last) && s.Zxid > p.Until {
			p.Zxid, p.Until = max(m.last+1, m.rng.From), s.Zxid
			p.Count = p.Until - p.Zxid + 1
		}
	}
	if p.Until > m.last && p.Count <= 0 || p.Count == 0 && znode.Counter(zxid) > 1 {
		return nil // they are before the range; or the transactions before zxid are missing, which is told
	}
	return p
}

// snapshotBefore returns the zxid of the last snapshot before a transaction in a folder, or in those of
// snapshots alone if the folder has only logs; 0: none.
func (m *merge) snapshotBefore(dir int, before int64) (zxid int64) {
	own := slices.ContainsFunc(m.log.snaps, func(s *Snapshot) bool { return s.dir == dir })
	for _, s := range m.log.snaps {
		if s.Zxid < before && (s.dir == dir || !own && !slices.ContainsFunc(m.log.logs, func(f *logFile) bool { return f.dir == s.dir })) {
			zxid = max(zxid, s.Zxid)
		}
	}
	return zxid
}

// gap reports transactions of the range that are missing between the transactions previous and zxid. If
// previous is 0, no log has one before.
func (m *merge) gap(previous, zxid int64) {
	if previous == 0 && m.rng.From == 0 {
		return
	}
	first := max(previous+1, m.rng.From)
	if epoch := znode.Epoch(zxid); epoch != znode.Epoch(first) {
		first = znode.EpochStart(epoch) + 1
	}
	if first < zxid {
		m.report(&Problem{Kind: ProblemGap, Zxid: first, Until: zxid - 1, Count: zxid - first})
	}
}
