package reaper

import (
	"hash/maphash"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Limits of the memory: the numbers of locks, which take about 50 bytes each, and of terms.
const (
	maxAlive = 1 << 20
	maxTerms = 1000
)

// memory is a reaper's memory of its sweeps, in this process and under one set of policies: the
// locks that were seen alive, and the beginnings of the terms of ensemble time. All of its times
// are on this process's own monotonic clock.
//
// A lock is remembered if all of its children were entries with running leases, until the first of
// them may be deleted. Until then sweeps skip it. Nothing is deleted because of this memory: a
// sweep deletes only what it has read and judged itself. A new entry at the lock, perhaps with a
// shorter lease, is found later, so a lock is remembered for at most orphan_after. A new term makes
// earlier stamps count anew, so it clears the locks. Two locks whose names have the same hash count
// as one while both live.
//
// A write in an earlier term is older than the beginning of the next one, whatever any server's
// clock shows. So expired entries are recognized even if leaders change faster than leases end.
type memory struct {
	seed maphash.Seed

	mu       sync.Mutex
	sessions int    // see [admin.Time]; a new session forgets everything
	terms    []term // known terms in order; the last one is the present term
	alive    map[uint64]seenAlive
}

// term is a term of ensemble time; see [admin.Time].
type term struct {
	first int64         // first transaction of the term
	begun time.Duration // monotonic time by which the term had surely begun
}

// seenAlive is a remembered lock.
type seenAlive struct {
	until uint32 // monotonic time in seconds before which no entry can be deleted
	use
}

// use is how a lock is used, by its live entries. The times are in Unix seconds, by the clock of
// ZooKeeper's leader; 0 for none.
type use struct {
	live    uint32 // number of live entries
	waiting uint32 // number of live entries without a recorded grant
	joined  uint32 // when the first waiting entry was created
	granted uint32 // time of the oldest recorded grant
}

// add adds a live entry.
func (u *use) add(e *znode.Entry) {
	u.live++
	if e.Record.Granted() {
		u.granted = earlier(u.granted, e.Record.AcquiredAt)
		return
	}
	u.waiting++
	u.joined = earlier(u.joined, e.Stat.Ctime)
}

// earlier returns the earlier one of a time in seconds, 0 for none, and one in milliseconds.
func earlier(seconds uint32, ms int64) uint32 {
	other := uint32(ms / 1000)
	if seconds == 0 {
		return other
	}
	return min(seconds, other)
}

func newMemory() *memory {
	return &memory{seed: maphash.MakeSeed(), alive: map[uint64]seenAlive{}}
}

// heir returns the memory for other policies, with the terms and without the locks.
func (m *memory) heir() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	heir := newMemory()
	heir.sessions, heir.terms = m.sessions, slices.Clone(m.terms)
	return heir
}

// begin records a new term, from ensemble time that was known at mono or before.
func (m *memory) begin(now admin.Time, mono time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case now.Sessions > m.sessions:
		m.sessions, m.terms = now.Sessions, nil
	case now.Sessions < m.sessions, now.Term <= m.present():
		return
	}
	if len(m.terms) == maxTerms {
		m.terms = slices.Delete(m.terms, 0, 1) // older entries count as of the next term
	}
	m.terms = append(m.terms, term{now.Term, mono})
	clear(m.alive)
}

// present returns the first transaction of the present term; m.mu is held.
func (m *memory) present() int64 {
	if len(m.terms) == 0 {
		return 0
	}
	return m.terms[len(m.terms)-1].first
}

// since returns a lower bound of the age of a write: the time since the first term after it began.
// It is 0 for a write in the present term.
func (m *memory) since(mzxid int64, now instant) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sessions != m.sessions {
		return 0
	}
	next := sort.Search(len(m.terms), func(i int) bool { return m.terms[i].first > mzxid })
	if next == len(m.terms) {
		return 0
	}
	return now.mono - m.terms[next].begun
}

// live returns the remembered use of the lock if none of its entries can be deleted yet; otherwise
// the zero value.
func (m *memory) live(name string, mono time.Duration) use {
	key := maphash.String(m.seed, name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.alive[key]; s.lasts(mono) {
		return s.use
	}
	return use{}
}

// saw remembers the use of a lock. Its entries, judged in that term, are all live until the time until.
func (m *memory) saw(name string, seen use, until time.Duration, term int64) {
	key := maphash.String(m.seed, name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if term != m.present() {
		return
	}
	if _, known := m.alive[key]; known || len(m.alive) < maxAlive {
		m.alive[key] = seenAlive{uint32(until / time.Second), seen}
	}
}

// forget drops the locks that must be read again.
func (m *memory) forget(mono time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.alive, func(_ uint64, s seenAlive) bool { return !s.lasts(mono) })
}

// lasts reports whether no entry of the lock can have expired yet.
func (s seenAlive) lasts(mono time.Duration) bool {
	return mono < time.Duration(s.until)*time.Second
}
