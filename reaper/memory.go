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
// live locks, and the beginnings of the terms of ensemble time. Its times are on this process's own
// monotonic clock, except those of use.
//
// A lock is remembered if all of its children were live entries and anchors, until the first entry
// can be deleted, but for at most orphan_after. Until then sweeps skip the lock, and so find a new
// entry later. Nothing is deleted because of this memory: a sweep deletes only what it has read and
// judged itself. In a new term, earlier stamps count differently, so memory forgets all locks. Two
// locks whose names have the same hash count as one while both are live.
//
// A write in an earlier term is older than the beginning of the next one, whatever any server's
// clock shows. So expired entries are recognized even if leaders change faster than leases end.
type memory struct {
	seed maphash.Seed

	mu       sync.Mutex
	sessions int    // see [admin.Time]; in a new session, memory forgets everything
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

// use counts the live entries of a lock. The times are in Unix seconds, by the clock of ZooKeeper's
// leader; 0 for none.
type use struct {
	live    uint32 // number of live entries
	waiting uint32 // number of live entries without a recorded grant
	joined  uint32 // time at which the first waiting entry was created
	granted uint32 // time of the oldest recorded grant
}

func (u *use) add(e *znode.Entry) {
	u.live++
	if e.Record.Granted() {
		u.granted = earlier(u.granted, e.Record.AcquiredAt)
		return
	}
	u.waiting++
	u.joined = earlier(u.joined, e.Stat.Ctime)
}

// earlier returns the earlier of two times in Unix seconds. seconds is 0 for no time; ms is in Unix
// milliseconds.
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

// heir returns a new memory for other policies, with the terms and without the locks.
func (m *memory) heir() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	heir := newMemory()
	heir.sessions, heir.terms = m.sessions, slices.Clone(m.terms)
	return heir
}

// begin records the term of now, and forgets all locks, if the term is new. In a new session it also
// forgets all earlier terms. mono is a time at which now was known.
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
		m.terms = slices.Delete(m.terms, 0, 1) // writes of that term count from the next one
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

// since returns a lower bound of the age of a write: the time since the first term after the write
// began. It returns 0 for a write in the present term, and if now is of another session.
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

// saw remembers the use of a lock until the given monotonic time. It does nothing if the term in
// which the entries were judged is over, or if the memory is full.
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

// forget drops the locks that must be read again at the time mono.
func (m *memory) forget(mono time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.alive, func(_ uint64, s seenAlive) bool { return !s.lasts(mono) })
}

// lasts reports whether no entry of the lock can be deleted yet.
func (s seenAlive) lasts(mono time.Duration) bool {
	return mono < time.Duration(s.until)*time.Second
}
