package reaper

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/admin"
)

// maxSeen bounds how many locks are remembered: they take about 30 bytes each.
const maxSeen = 1 << 20

// knownFor is for how long an entry is remembered that no sweep has read again.
const knownFor = 24 * time.Hour

// memory is what the sweeps of a reaper remember of locks that they saw alive: of
// a lock all of whose children were entries with a lease that ran, when the first
// of these may be deleted. Until then reading them again can tell nothing that
// matters, and a later sweep passes over the lock.
//
// Nothing is deleted for what is remembered, so it cannot be wrong in a way that
// harms: whatever is deleted was read and judged by the same sweep. All that can
// happen is that what has come to the lock since is found later than it might be:
// the entry of another holder with a shorter lease, or one that was shortened; an
// empty parent; a lock nested below. So a lock is remembered for orphan_after at
// most, for which the policy lets what is left behind stand anyway.
//
// Times are ensemble time of one term: with a new leader, or a step of the leader's
// clock, they mean nothing any more, and all of it is forgotten. The memory is the
// process's own and begins empty, so it never outlives the policies that it rests on.
// It holds hashes of names, with a seed of its own: two locks with the same one are
// taken for one while both live.
//
// Beside that stands since when this process has known entries that no renewal has
// given a stamp of the present term: by its own clock they expire even where elections
// follow each other faster than leases end.
type memory struct {
	seed maphash.Seed

	mu    sync.Mutex
	term  int64 // that the times belong to
	seen  map[uint64]seenAlive
	known map[uint64]knownSince
}

// seenAlive is a lock as it was seen.
type seenAlive struct {
	until uint32 // Unix time in seconds before which no entry can be deleted
	live  uint32 // entries
}

// knownSince is an entry whose last write was seen to be of an earlier term.
type knownSince struct {
	mzxid int64
	first time.Duration // monotonic time at which this version was read first
	last  time.Duration // and last
}

func newMemory() *memory {
	return &memory{seed: maphash.MakeSeed(), seen: map[uint64]seenAlive{}, known: map[uint64]knownSince{}}
}

// begin forgets what was seen in another term than that of now.
func (m *memory) begin(now admin.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.term < now.Term { // another walker may know of it already
		m.term = now.Term
		clear(m.seen)
	}
}

// since returns for how long this version of an entry has been known, and remembers it
// if its last write is of an earlier term.
func (m *memory) since(path string, mzxid int64, now admin.Time, mono time.Duration) time.Duration {
	if mzxid >= now.Term {
		return 0
	}
	key := maphash.String(m.seed, path)
	m.mu.Lock()
	defer m.mu.Unlock()
	k, known := m.known[key]
	if !known && len(m.known) >= maxSeen {
		return 0
	}
	if k.mzxid != mzxid {
		k = knownSince{mzxid: mzxid, first: mono}
	}
	k.last = mono
	m.known[key] = k
	return mono - k.first
}

// live returns how many live entries the lock was seen with, if none of them can
// be deleted yet, and otherwise 0.
func (m *memory) live(name string, now time.Time) int {
	key := maphash.String(m.seed, name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.seen[key]; s.lasts(now) {
		return int(s.live)
	}
	return 0
}

// saw remembers that the lock has that many entries, all of them live until then, which
// is a time of that term.
func (m *memory) saw(name string, live int, until time.Time, term int64) {
	key := maphash.String(m.seed, name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if term != m.term {
		return
	}
	if _, known := m.seen[key]; known || len(m.seen) < maxSeen {
		m.seen[key] = seenAlive{uint32(until.Unix()), uint32(live)}
	}
}

// forget drops what has lost its meaning by now.
func (m *memory) forget(now time.Time, mono time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.seen, func(_ uint64, s seenAlive) bool { return !s.lasts(now) })
	maps.DeleteFunc(m.known, func(_ uint64, k knownSince) bool { return mono-k.last > knownFor })
}

// lasts reports whether nothing that was seen can be past its end yet.
func (s seenAlive) lasts(now time.Time) bool { return !now.After(time.Unix(int64(s.until), 0)) }
