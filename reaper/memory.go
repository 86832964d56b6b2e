package reaper

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"
)

// maxSeen bounds how many locks are remembered: they take about 30 bytes each.
const maxSeen = 1 << 20

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
// Times are ensemble time, compared with an estimate of the moment, exactly as a
// lease is when it is judged: a change of the leader, or of its clock, changes
// both alike. The memory is the process's own and begins empty, so it never
// outlives the policies that it rests on. It holds hashes of names, with a seed of
// its own: two locks with the same one are taken for one while both live.
type memory struct {
	seed maphash.Seed

	mu   sync.Mutex
	seen map[uint64]sight
}

// sight is a lock as it was seen.
type sight struct {
	until uint32 // Unix time in seconds before which no entry can be deleted
	live  uint32 // entries
}

func newMemory() *memory {
	return &memory{seed: maphash.MakeSeed(), seen: map[uint64]sight{}}
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

// saw remembers that the lock has that many entries, all of them live until then.
func (m *memory) saw(name string, live int, until time.Time) {
	key := maphash.String(m.seed, name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.seen[key]; known || len(m.seen) < maxSeen {
		m.seen[key] = sight{uint32(until.Unix()), uint32(live)}
	}
}

// forget drops what has lost its meaning by now.
func (m *memory) forget(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.seen, func(_ uint64, s sight) bool { return !s.lasts(now) })
}

// lasts reports whether nothing that was seen can be past its end yet.
func (s sight) lasts(now time.Time) bool { return !now.After(time.Unix(int64(s.until), 0)) }
