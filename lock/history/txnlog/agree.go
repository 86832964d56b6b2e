package txnlog

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// This file judges transactions that some folders lack, or that differ between folders.

// clockError is assumed to exceed any difference between the clocks of one ensemble's leaders.
const clockError = 24 * time.Hour

// sameEnsemble returns the files without those of folders of another ensemble. It marks such folders
// as foreign, and reports them: their zxids are all lower than those of the first folder although
// their times are all later, or the other way round. If the zxids overlap, differ may find the other
// ensemble later.
func (m *merge) sameEnsemble(files []*logFile) []*logFile {
	type span struct{ first, last *logFile }
	spans := map[int]span{}
	for _, f := range m.log.logs { // sorted by zxid
		if f.time.IsZero() {
			continue
		}
		s := spans[f.dir]
		if s.first == nil {
			s.first = f
		}
		s.last = f
		spans[f.dir] = s
	}
	mine, ok := spans[0]
	if !ok {
		return files
	}
	for dir := 1; dir < len(m.folders); dir++ {
		s, ok := spans[dir]
		if !ok {
			continue
		}
		lower := s.last.first < mine.first.first && s.first.time.After(mine.last.time.Add(clockError))
		higher := s.first.first > mine.last.first && s.last.time.Before(mine.first.time.Add(-clockError))
		if lower || higher {
			m.folders[dir].foreign = true
			m.report(&Problem{
				Kind: ProblemOtherEnsemble, Dirs: []string{m.log.dirs[dir]}, Zxid: s.first.first,
				Err: fmt.Errorf("its times contradict its zxids: %#x is of %v, and %#x of %v in %s",
					s.first.first, s.first.time.UTC(), mine.first.first, mine.first.time.UTC(), m.log.dirs[0]),
			})
		}
	}
	return slices.DeleteFunc(files, func(f *logFile) bool { return m.folders[f.dir].foreign })
}

// choose returns the source to believe: the first one with the content that most folders have.
// without is a folder that has lost the transaction; -1: none. choose also counts agreement and
// disagreement for each folder.
func (m *merge) choose(group []*source, without int) *source {
	if len(group) == 1 && without < 0 {
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
	switch {
	case votes[best] < len(group):
		m.differ(chosen, group)
	case without >= 0:
		m.folders[without].lost = chosen.cur.zxid
		m.extend(&m.disagree, ProblemDisagree, chosen.cur.zxid, append(group[:len(group):len(group)], &source{dir: without}))
	default:
		m.flush(&m.disagree)
		for _, s := range group {
			m.folders[s.dir].same++
		}
	}
	return chosen
}

// A folder with foreignAfter differing transactions, and no common one, counts as one of another
// ensemble.
const foreignAfter = 3

// differ records that the group's sources disagree. It marks and reports a folder as one of another
// ensemble by the rule of foreignAfter.
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
			f.foreign, m.foreign = true, true
			m.disagree = nil
			m.report(&Problem{Kind: ProblemOtherEnsemble, Dirs: []string{m.log.dirs[s.dir]}, Zxid: f.first, Count: int64(f.differs)})
		}
	}
}

// discardedBy returns a folder that proves that a leader discarded the transaction: the folder has
// the transaction before, and its next one begins a later epoch. -1: there is none.
func (m *merge) discardedBy(zxid int64, group []*source) int {
	if m.last == 0 {
		return -1
	}
	for dir := range m.folders {
		if m.has(group, dir) || m.folders[dir].foreign {
			continue
		}
		if f := &m.folders[dir]; (f.last == m.last || f.lost == m.last) && !f.hurt && m.skipped(dir, zxid) {
			return dir
		}
	}
	return -1
}

// skipped reports whether the folder goes on with the first transaction of a later epoch than
// zxid's, and no snapshot explains that it lacks zxid. A folder without snapshots proves nothing.
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

// survived reports whether the folder of one of the group's sources goes on with the first
// transaction of a later epoch. Then the transaction was committed: otherwise the next leader would
// have made the server truncate its log first. With a snapshot from the next leader, the log proves
// nothing, because the server does not truncate it.
func (m *merge) survived(zxid int64, group []*source) bool {
	return slices.ContainsFunc(group, func(s *source) bool {
		next := &m.folders[s.dir].nextEpoch
		if Epoch(*next) <= Epoch(zxid) {
			*next = m.nextEpoch(s.dir, Epoch(zxid))
		}
		return counter(*next) == 1 && !slices.ContainsFunc(m.log.snaps, func(snap *Snapshot) bool {
			return snap.dir == s.dir && Epoch(snap.Zxid) > Epoch(zxid) && snap.Zxid < *next
		})
	})
}

// nextEpoch returns the first zxid after an epoch in a folder; math.MaxInt64 if there is none.
func (m *merge) nextEpoch(dir int, epoch int64) int64 {
	var next int64
	files := m.log.logs
	for i, f := range files {
		later := slices.IndexFunc(files[i+1:], func(g *logFile) bool { return g.dir == dir })
		if f.dir != dir || later >= 0 && Epoch(files[i+1+later].first) <= epoch {
			continue
		}
		f.scan(nil, func(e entry) bool {
			if Epoch(e.zxid) > epoch {
				next = e.zxid
			}
			return next == 0
		})
		if next != 0 {
			return next
		}
	}
	return math.MaxInt64
}

func (m *merge) has(group []*source, dir int) bool {
	return slices.ContainsFunc(group, func(s *source) bool { return s.dir == dir })
}

// confirm records a transaction that at most half of the folders have, and that nothing confirms:
// the other folders end in this epoch, or go on with a later one.
func (m *merge) confirm(zxid int64, group []*source) {
	if len(group) == len(m.folders) && m.unconfirmed == nil {
		return
	}
	have, lack := 0, 0
	for dir := range m.folders {
		f := &m.folders[dir]
		switch head := m.head(dir); {
		case f.foreign:
		case m.has(group, dir):
			have++
		case head == 0 && Epoch(f.last) == Epoch(zxid), Epoch(head) > Epoch(zxid) && f.last != 0:
			lack++
		case Epoch(head) == Epoch(zxid):
			have++ // what it lacks came in a snapshot, or is damaged
		}
	}
	if m.unconfirmed != nil && Epoch(m.unconfirmed.Until) != Epoch(zxid) {
		m.flush(&m.unconfirmed)
	}
	if lack == 0 || have > lack || m.survived(zxid, group) {
		// The transaction is committed, and so are the earlier ones of its epoch.
		m.unconfirmed = nil
		return
	}
	m.extend(&m.unconfirmed, ProblemUnconfirmed, zxid, group)
}
