package txnlog

import (
	"cmp"
	"errors"
	"os"
	"slices"
)

// merge reads the logs of all folders in the order of zxids.
type merge struct {
	log   *Log
	rng   Range
	to    int64
	files []*logFile // not open yet, sorted by first zxid
	open  []*source

	current *source   // source of the entry that next returned
	group   []*source // sources at the lowest zxid, sorted by folder
	last    int64     // zxid of the last entry that next passed; 0: none
	seen    int64     // zxid of the last entry that next has seen, discarded ones included
	started bool      // an entry in the range was seen
	folders []folder
	foreign bool // some folder is of another ensemble

	problems       []*Problem
	disagree       *Problem // the run of differing transactions so far
	uncommitted    *Problem // the run of discarded transactions so far
	unconfirmed    *Problem // the run of transactions that not all folders have
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
	files   []*logFile // not open yet, sorted by first zxid
	seen    recent     // its latest entries
	last    int64      // its last zxid that next passed
	same    int        // number of transactions that are the same in other folders
	differs int        // number of transactions that differ from the chosen ones
	first   int64      // first zxid of those that differ; 0: none
	foreign bool       // it is of another ensemble
	hurt    bool       // there were unreadable bytes after last
	lost    int64      // the last zxid that it should have and lacks

	nextEpoch int64 // the last result of merge.nextEpoch
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
	m.files = m.sameEnsemble(m.files)
	for _, f := range m.files {
		m.total += f.size
		m.folders[f.dir].files = append(m.folders[f.dir].files, f)
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
		zxid := group[0].cur.zxid
		without := m.discardedBy(zxid, group)
		if without >= 0 && !m.survived(zxid, group) {
			if zxid >= m.rng.From {
				m.extend(&m.uncommitted, ProblemUncommitted, zxid, group)
			}
			m.seen = zxid
			continue
		}
		m.flush(&m.uncommitted)
		chosen := m.choose(group, without)
		previous, seen := m.last, m.seen
		m.last, m.seen = zxid, zxid
		for _, s := range group {
			m.folders[s.dir].last = zxid
			m.folders[s.dir].hurt = false
		}
		if !m.inRange(chosen.cur) {
			m.disagree = nil
			continue
		}
		m.confirm(zxid, group)
		m.epochEnd(seen, zxid)
		m.gap(previous, zxid)
		m.current = chosen
		return chosen.cur, true
	}
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

// advance reads the next entries of the group's sources. It closes sources that have ended, or are
// of another ensemble.
func (m *merge) advance() {
	over := false
	for _, s := range m.group {
		m.step(s)
		over = over || s.cur.payload == nil
	}
	m.group = m.group[:0]
	if !over && !m.foreign {
		return
	}
	m.open = slices.DeleteFunc(m.open, func(s *source) bool {
		if s.cur.payload != nil && !m.folders[s.dir].foreign {
			return false
		}
		s.file.Close()
		return true
	})
}

// step reads the next entry of s into s.cur; at the log's end the payload is nil. It records
// unreadable bytes before the entry in the folder.
func (m *merge) step(s *source) {
	e, ok := s.next()
	if e.hurt || !ok && s.hurt {
		m.folders[s.dir].hurt = true
	}
	s.cur = e
}

// lowest opens the logs that may have the lowest zxid, and returns the sources at the lowest zxid;
// nil at the end of all logs.
func (m *merge) lowest() []*source {
	for len(m.files) > 0 && (len(m.open) == 0 || m.files[0].first <= m.min()) {
		f := m.files[0]
		m.files = m.files[1:]
		m.folders[f.dir].files = m.folders[f.dir].files[1:]
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
		sc.seen = &m.folders[f.dir].seen
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
	if next := m.folders[dir].files; len(next) > 0 && (head == 0 || next[0].first < head) {
		head = next[0].first
	}
	return head
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

// finish reports the runs of problems that have not ended before the end of the logs.
func (m *merge) finish() {
	m.flush(&m.uncommitted)
	m.flush(&m.disagree)
	m.flush(&m.unconfirmed)
}

// epochEnd reports transactions that are missing between seen, the last one of an epoch, and zxid, the
// first one of a later epoch: a snapshot shows them, and no log has them.
func (m *merge) epochEnd(seen, zxid int64) {
	if seen == 0 || Epoch(seen) == Epoch(zxid) {
		return
	}
	first := max(seen+1, m.rng.From)
	var newest *Snapshot
	for _, s := range m.log.snaps {
		if Epoch(s.Zxid) == Epoch(seen) && s.Zxid >= first && !m.folders[s.dir].foreign && (newest == nil || s.Zxid > newest.Zxid) {
			newest = s
		}
	}
	if newest != nil {
		m.report(&Problem{Kind: ProblemGap, Zxid: first, Until: newest.Zxid, Count: newest.Zxid - first + 1, Snapshot: newest, Err: errEpochEnd})
	}
}

// errEpochEnd has the two ways in which a log can lack the last transactions of an epoch. In the
// second one, a leader takes a snapshot of transactions that it has logged, and the quorum elects
// another leader without them. Then the first leader truncates its log, but loads its newest
// snapshot.
var errEpochEnd = errors.New("the server got them in a snapshot; or the next leader discarded them, and this server has had other data than the others since")

// gap reports transactions that are missing between the transactions previous and zxid. If previous
// is 0, it reports those that are missing at the beginning of the range.
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
	if first >= zxid {
		return
	}
	p := &Problem{Kind: ProblemGap, Zxid: first, Until: zxid - 1, Count: zxid - first}
	for _, s := range m.log.snaps {
		if s.Zxid >= first-1 && s.Zxid < zxid && !m.folders[s.dir].foreign {
			p.Snapshot = s
		}
	}
	m.report(p)
}
