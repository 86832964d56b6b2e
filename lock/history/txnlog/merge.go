package txnlog

import (
	"cmp"
	"os"
	"slices"
)

// merge reads several logs at once, in the order of zxids.
type merge struct {
	log   *Log
	rng   Range
	to    int64
	files []*logFile // not open yet, by first zxid
	open  []*source

	current *source // of the entry that next returned
	used    []*source
	last    int64 // zxid of the last entry that next passed; 0: none
	started bool  // an entry in the range was seen
	folders []folder

	problems    []*Problem
	disagree    *Problem // the run of differing transactions so far
	uncommitted *Problem // the run of discarded transactions so far
	unconfirmed *Problem // the run of transactions that not all folders have
	read, told  int64
	total       int64
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
	last    int64 // its last zxid that was passed
	same    int   // number of transactions that it shares with others
	differs int   // and that differ from others', or are never its own
	first   int64 // first zxid that differs
	foreign bool  // it is of another ensemble
	hurt    bool  // there were unreadable bytes after last
}

func newMerge(l *Log, r Range) *merge {
	m := &merge{log: l, rng: r, folders: make([]folder, len(l.dirs))}
	m.files, m.to = l.needed(r)
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
	if m.log.Progress != nil && m.read > m.told {
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
	if m.log.Progress != nil && m.read >= m.told+1<<20 {
		m.told = m.read
		m.log.Progress(m.read, max(m.total, m.read))
	}
}

// next returns the next transaction's entry; false at the end. The payload is valid until the next
// call.
func (m *merge) next() (entry, bool) {
	for {
		m.advance()
		group := m.lowest()
		if group == nil || m.to != 0 && group[0].cur.zxid > m.to {
			m.finish()
			return entry{}, false
		}
		m.used = group
		zxid := group[0].cur.zxid
		if m.discarded(zxid, group) {
			if zxid >= m.rng.From {
				m.extend(&m.uncommitted, ProblemUncommitted, zxid, group)
			}
			continue
		}
		m.flush(&m.uncommitted)
		chosen := m.choose(group)
		previous := m.last
		m.last = zxid
		for _, s := range group {
			m.folders[s.dir].last = zxid
			m.folders[s.dir].hurt = false
		}
		if !m.inRange(chosen.cur) {
			m.disagree = nil
			continue
		}
		m.confirm(zxid, group)
		m.gap(previous, zxid)
		m.current = chosen
		return chosen.cur, true
	}
}

// inRange reports whether the entry is not before the range.
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

// advance goes to the next entries of the sources that were used, and closes those at their ends.
func (m *merge) advance() {
	for _, s := range m.used {
		m.step(s)
	}
	m.used = nil
	m.open = slices.DeleteFunc(m.open, func(s *source) bool {
		if s.cur.payload != nil && !m.folders[s.dir].foreign {
			return false
		}
		s.file.Close()
		return true
	})
}

// step reads the next entry of a source; without one, its payload is nil.
func (m *merge) step(s *source) {
	e, ok := s.next()
	if s.hurt || !ok && s.scanner.hurt {
		m.folders[s.dir].hurt = true
	}
	if !ok {
		e = entry{}
	}
	s.cur = e
}

// lowest opens the logs that may have the lowest zxid, and returns the sources that have it.
func (m *merge) lowest() []*source {
	for len(m.files) > 0 && (len(m.open) == 0 || m.files[0].first <= m.min()) {
		f := m.files[0]
		m.files = m.files[1:]
		if m.folders[f.dir].foreign {
			continue
		}
		before := m.read
		file, sc := f.open(m.report, m.progress)
		if sc == nil {
			m.folders[f.dir].hurt = true
			m.progress(int(f.size - (m.read - before)))
			continue
		}
		s := &source{scanner: sc, file: file, dir: f.dir}
		m.step(s)
		if s.cur.payload == nil {
			file.Close()
			continue
		}
		m.open = append(m.open, s)
	}
	if len(m.open) == 0 {
		return nil
	}
	low := m.min()
	var group []*source
	for _, s := range m.open {
		if s.cur.zxid == low {
			group = append(group, s)
		}
	}
	slices.SortStableFunc(group, func(a, b *source) int { return cmp.Compare(a.dir, b.dir) })
	return group
}

func (m *merge) min() int64 {
	low := m.open[0].cur.zxid
	for _, s := range m.open[1:] {
		low = min(low, s.cur.zxid)
	}
	return low
}

// head returns a folder's next zxid; 0 if it has ended.
func (m *merge) head(dir int) int64 {
	var head int64
	for _, s := range m.open {
		if s.dir == dir && (head == 0 || s.cur.zxid < head) {
			head = s.cur.zxid
		}
	}
	for _, f := range m.files {
		if f.dir == dir && (head == 0 || f.first < head) {
			head = f.first
		}
	}
	return head
}

// choose returns the source to believe: of the content that most folders have, the first one.
func (m *merge) choose(group []*source) *source {
	if len(group) == 1 {
		m.flush(&m.disagree)
		return group[0]
	}
	votes := make([]int, len(group))
	best := 0
	for i, s := range group {
		for _, o := range group {
			if s == o || sameTxn(s.cur.payload, o.cur.payload) {
				votes[i]++
			}
		}
		if votes[i] > votes[best] {
			best = i
		}
	}
	chosen := group[best]
	if votes[best] == len(group) {
		for _, s := range group {
			m.folders[s.dir].same++
		}
		m.flush(&m.disagree)
		return chosen
	}
	m.differ(chosen, group)
	return chosen
}

// foreignAfter is the number of differing transactions, with none that is the same, after which a
// folder is taken for one of another ensemble.
const foreignAfter = 3

// differ records that the group's sources disagree.
func (m *merge) differ(chosen *source, group []*source) {
	m.extend(&m.disagree, ProblemDisagree, chosen.cur.zxid, group)
	for _, s := range group {
		f := &m.folders[s.dir]
		if s.dir == chosen.dir || sameTxn(s.cur.payload, chosen.cur.payload) {
			continue
		}
		f.differs++
		if f.first == 0 {
			f.first = chosen.cur.zxid
		}
		if f.same == 0 && f.differs >= foreignAfter {
			f.foreign = true
			m.disagree = nil
			m.report(&Problem{Kind: ProblemOtherEnsemble, Dirs: []string{m.log.dirs[s.dir]}, Zxid: f.first, Count: int64(f.differs)})
		}
	}
}

// discarded reports whether a folder without the transaction proves that it was never committed:
// the folder has the transaction before, and the next one that it has begins a later epoch.
func (m *merge) discarded(zxid int64, group []*source) bool {
	if m.last == 0 {
		return false
	}
	for dir := range m.folders {
		if m.has(group, dir) || m.folders[dir].foreign {
			continue
		}
		if m.folders[dir].last == m.last && !m.folders[dir].hurt && m.skipped(dir, zxid) {
			return true
		}
	}
	return false
}

// skipped reports whether the folder goes on with a later epoch than zxid's, and neither a missing
// part nor a snapshot explains that it lacks zxid.
func (m *merge) skipped(dir int, zxid int64) bool {
	head := m.head(dir)
	if head == 0 || Epoch(head) <= Epoch(zxid) || counter(head) != 1 {
		return false
	}
	// A follower far behind gets a snapshot instead of the transactions.
	snapshots := false
	for _, s := range m.log.snaps {
		if s.dir == dir {
			snapshots = true
			if s.Zxid > m.folders[dir].last && s.Zxid < head {
				return false
			}
		}
	}
	return snapshots
}

func (m *merge) has(group []*source, dir int) bool {
	return slices.ContainsFunc(group, func(s *source) bool { return s.dir == dir })
}

// confirm notes a transaction that only half of the folders have, or fewer, and that the others do
// not confirm: they have ended, or go on with a later epoch.
func (m *merge) confirm(zxid int64, group []*source) {
	have, lack := 0, 0
	for dir := range m.folders {
		f := &m.folders[dir]
		switch head := m.head(dir); {
		case f.foreign:
		case m.has(group, dir):
			have++
		case f.last == 0 && head == 0: // it has no logs at all
		case head == 0 || Epoch(head) > Epoch(zxid):
			lack++
		default:
			have++ // it goes on in this epoch: what it lacks came in a snapshot, or is damaged
		}
	}
	if m.unconfirmed != nil && Epoch(m.unconfirmed.Until) != Epoch(zxid) {
		m.flush(&m.unconfirmed)
	}
	if lack == 0 || have > lack {
		// Then those before it in this epoch are committed, too.
		m.unconfirmed = nil
		return
	}
	m.extend(&m.unconfirmed, ProblemUnconfirmed, zxid, group)
}

// extend adds a transaction to a run of problems.
func (m *merge) extend(run **Problem, kind ProblemKind, zxid int64, group []*source) {
	p := *run
	if p == nil {
		p = &Problem{Kind: kind, Zxid: zxid}
		*run = p
	}
	p.Until = zxid
	p.Count++
	for _, s := range group {
		if dir := m.log.dirs[s.dir]; !slices.Contains(p.Dirs, dir) {
			p.Dirs = append(p.Dirs, dir)
		}
	}
}

// flush reports a run of problems that has ended.
func (m *merge) flush(run **Problem) {
	if *run != nil {
		m.report(*run)
		*run = nil
	}
}

// finish reports what is known only at the end.
func (m *merge) finish() {
	m.flush(&m.uncommitted)
	m.flush(&m.disagree)
	m.flush(&m.unconfirmed)
}

// gap reports transactions that are missing between two, or before the first one.
func (m *merge) gap(previous, zxid int64) {
	first := previous + 1
	if previous == 0 {
		if m.rng.From == 0 || zxid <= m.rng.From {
			return
		}
		first = m.rng.From
	}
	if Epoch(zxid) != Epoch(first) {
		first = Epoch(zxid)<<32 + 1
	}
	if first < zxid {
		m.report(&Problem{Kind: ProblemGap, Zxid: first, Until: zxid - 1, Count: zxid - first})
	}
}
