package queue

import (
	"math"
	"math/rand/v2"
	"time"
)

// hints guess, from what happened at a lock before, which request is the cheapest to
// try first: a wrong guess costs a failed transaction, or a request that could have
// been saved. They supply no byte that is written, and let nobody in. The one thing
// of theirs that ZooKeeper sees is a foretold version of the parent, which it compares
// with the true one. The simulation runs with those that learn, with none, and with
// hostile ones. They are guarded by their door.
type hints interface {
	// What happened, in order.
	joined(now time.Duration, before facts, version int32) // one of ours has written the parent, from what it was before to this version
	met(now time.Duration)                                 // others are at the lock
	missed()                                               // the parent was not there
	foundThere()                                           // it was there, where it was to be made
	held(d time.Duration)                                  // for so long one of ours held the lock
	left(now time.Duration, others bool)                   // one of ours has left, and somebody was there still
	lingered(now time.Duration)                            // one of ours has left, and the parent was left for a moment
	crowded()                                              // somebody joined since, where nobody was thought to be
	announced(told bool, now time.Duration)                // a release was to be told in the parent, and was it?
	checked(found bool, now time.Duration)                 // one was looked for there, and was there one that helped?

	// readFirst: is the parent to be read although usable facts are known?
	readFirst(f facts, now time.Duration) bool
	// predictVersion is the version that the parent probably has by now.
	predictVersion(f facts, now time.Duration) (version int32, likely bool)
	// skipTail: after so many collisions with other joiners, is it cheaper to join
	// without writing the parent, and to list?
	skipTail(collisions int, f facts) bool
	// turnsFast: do this process and others take turns so fast that who was last in the
	// queue a moment ago has probably left it?
	turnsFast(f facts, now time.Duration) bool
	// stillAlone: is one that joined alone, leaving the parent at that version,
	// probably alone still?
	stillAlone(f facts, version int32) bool
	// likelyToReturn: will this process probably be back soon, so that the parent had
	// better stay for a moment, and are others about, who change it meanwhile? Alone
	// says that the entry joined alone.
	likelyToReturn(now time.Duration, alone bool) (likely, others bool)
	// announceRelease: is it worth while to tell a release in the parent?
	announceRelease(now time.Duration) bool
	// checkRelease: is it worth while to look there for one?
	checkRelease(now time.Duration) bool
	// recordGrantAfter is how long to wait before a grant is recorded, so that who is
	// behind is told in time, and a short hold saves the write.
	recordGrantAfter() time.Duration
}

// newHints returns the hints of a new door.
func (q *Queue) newHints() hints {
	switch q.Hints {
	case "none":
		return noHints{}
	case "hostile":
		return hostileHints{noHints{}, q.Random}
	}
	return &learnedHints{}
}

const (
	joinTries   = 40  // collisions with other joiners of a long queue before one joins without the tail, and lists
	shortQueue  = 128 // entries, at most; to list them costs less than to collide again
	fewToList   = 16
	fewEntries  = 4                     // to list so few costs no more than to look at the parent
	shortHold   = time.Millisecond      // saves the write that records its grant
	lingerTime  = 50 * time.Millisecond // within what time one is back that takes a lock again and again
	oftenEnough = 2                     // times in a row that one was back within that time
	muteTime    = 10 * time.Second      // for how long releases are not told after that was in vain
	mostCredit  = 8                     // how often in a row something may be in vain that has always worked
)

// micros is a time in microseconds, rounded up; of more than half an hour it is known that
// it was long.
type micros int32

func microsOf(d time.Duration) micros {
	return micros(min((d+time.Microsecond-1)/time.Microsecond, math.MaxInt32))
}

func (m micros) duration() time.Duration { return time.Duration(m) * time.Microsecond }

// learnedHints expect what was there the last times. The zero value knows nothing. They are
// small: a client may have very many doors.
type learnedHints struct {
	mutedUntil time.Duration // monotonic time until which no release is told
	checkAt    time.Duration // monotonic time until which none is looked for
	checks     int8          // how often one was found when it was looked for, more than not, within bounds
	contended  bool          // others were there when the last of us left
	steady     bool          // step is what it was the time before that
	found      int8          // how often the parent was there when it was to be made, more than it was not, within bounds
	returned   int8          // joins in a row that came soon after one of ours had left, as far as it matters
	own        int32         // the version that our last join left
	step       int32         // by how much others had moved it on since the one before
	joinedAt   time.Duration // monotonic time of that join
	pace       micros        // how long it took from one write of others to the next then; 0: there was none
	lasted     micros        // the last hold of ours; 0: there was none
	leftAt     time.Duration // monotonic time at which one of ours left last; 0: never
	othersAt   time.Duration // monotonic time at which other processes were seen there last
}

func (h *learnedHints) joined(now time.Duration, before facts, version int32) {
	if h.leftAt == 0 || now-h.leftAt >= lingerTime {
		h.returned = 0
	} else if h.returned < oftenEnough {
		h.returned++
	}
	if version == 1 { // we have made it
		h.found = max(0, h.found-1)
	}
	over := version - 1
	if before.exists && before.version != over {
		h.othersAt = now
	}
	step := over - h.own
	if h.pace = 0; step > 0 && h.own != 0 {
		h.pace = microsOf((now - h.joinedAt) / time.Duration(step))
	}
	h.joinedAt = now
	h.own, h.step, h.steady = version, step, step == h.step && h.own != 0
}

func (h *learnedHints) met(now time.Duration) { h.othersAt = now }
func (h *learnedHints) missed()               { h.own, h.step, h.steady, h.pace = 0, 0, false, 0 }
func (h *learnedHints) foundThere()           { h.found = min(h.found+1, oftenEnough) }
func (h *learnedHints) held(d time.Duration)  { h.lasted = microsOf(d) }
func (h *learnedHints) crowded()              { h.contended = true }

func (h *learnedHints) left(now time.Duration, others bool) { h.contended, h.leftAt = others, now }

func (h *learnedHints) lingered(now time.Duration) { h.leftAt = now }

// announced: to tell one in vain costs whoever is next a round trip, so once is enough.
func (h *learnedHints) announced(told bool, now time.Duration) {
	if !told {
		h.mutedUntil = now + muteTime
	}
}

// checked: where none was found twice in a row none is looked for for a while; more often
// where it has been found before.
func (h *learnedHints) checked(found bool, now time.Duration) {
	if found {
		h.checks = min(h.checks+1, mostCredit-2)
		return
	}
	if h.checks--; h.checks == -2 {
		h.checks, h.checkAt = 0, now+muteTime
	}
}

// readFirst: the parent is probably there although it was not before; or somebody else has
// written it since it was seen, and a list of those there would cost more than to look at it.
func (h *learnedHints) readFirst(f facts, now time.Duration) bool {
	if !f.exists {
		return h.found >= oftenEnough
	}
	return f.children > fewToList && h.pace != 0 && now-f.seenAt > h.pace.duration()/2
}

// predictVersion: as many have joined since as did the last two times.
func (h *learnedHints) predictVersion(f facts, now time.Duration) (int32, bool) {
	return h.own + h.step, h.isBusy(now) && h.steady && f.children <= fewEntries
}

// isBusy reports whether one of ours has left just now, and others were there.
func (h *learnedHints) isBusy(now time.Duration) bool {
	return h.leftAt != 0 && now-h.leftAt < lingerTime && h.othersAt != 0 && now-h.othersAt < lingerTime
}

func (h *learnedHints) turnsFast(f facts, now time.Duration) bool {
	return h.isBusy(now) && h.lasted.duration() < shortHold && f.children <= fewEntries
}

func (h *learnedHints) skipTail(collisions int, f facts) bool {
	return collisions > 0 && f.children <= shortQueue || collisions >= joinTries
}

func (h *learnedHints) stillAlone(f facts, version int32) bool {
	return !h.contended && (!f.exists || f.version == version)
}

func (h *learnedHints) likelyToReturn(now time.Duration, alone bool) (likely, others bool) {
	others = h.isBusy(now)
	return others || alone && h.returned >= oftenEnough, others
}

func (h *learnedHints) announceRelease(now time.Duration) bool { return now >= h.mutedUntil }
func (h *learnedHints) checkRelease(now time.Duration) bool    { return now >= h.checkAt }

func (h *learnedHints) recordGrantAfter() time.Duration {
	switch {
	case h.lasted == 0:
		return shortHold / 5
	case h.lasted.duration() < shortHold:
		return shortHold
	}
	return 0
}

// noHints guess nothing: everything is looked at first.
type noHints struct{}

func (noHints) joined(time.Duration, facts, int32)                       {}
func (noHints) met(time.Duration)                                        {}
func (noHints) missed()                                                  {}
func (noHints) foundThere()                                              {}
func (noHints) held(time.Duration)                                       {}
func (noHints) left(time.Duration, bool)                                 {}
func (noHints) lingered(time.Duration)                                   {}
func (noHints) crowded()                                                 {}
func (noHints) announced(bool, time.Duration)                            {}
func (noHints) checked(bool, time.Duration)                              {}
func (noHints) readFirst(facts, time.Duration) bool                      { return true }
func (noHints) predictVersion(facts, time.Duration) (int32, bool)        { return 0, false }
func (noHints) turnsFast(facts, time.Duration) bool                      { return false }
func (noHints) skipTail(collisions int, _ facts) bool                    { return collisions >= joinTries }
func (noHints) stillAlone(facts, int32) bool                             { return false }
func (noHints) likelyToReturn(time.Duration, bool) (likely, others bool) { return false, false }
func (noHints) announceRelease(time.Duration) bool                       { return false }
func (noHints) checkRelease(time.Duration) bool                          { return false }
func (noHints) recordGrantAfter() time.Duration                          { return 0 }

// hostileHints guess anything.
type hostileHints struct {
	noHints
	random *rand.Rand
}

func (h hostileHints) turnsFast(facts, time.Duration) bool { return h.coin() }
func (h hostileHints) coin() bool                          { return h.random.IntN(2) == 0 }
func (h hostileHints) readFirst(facts, time.Duration) bool { return h.coin() }

func (h hostileHints) predictVersion(f facts, _ time.Duration) (int32, bool) {
	return max(0, f.version+int32(h.random.IntN(4))-1), h.coin()
}

func (h hostileHints) skipTail(collisions int, _ facts) bool {
	return h.random.IntN(4) == 0 || collisions >= joinTries
}
func (h hostileHints) stillAlone(facts, int32) bool { return h.coin() }
func (h hostileHints) likelyToReturn(time.Duration, bool) (likely, others bool) {
	return h.coin(), h.coin()
}
func (h hostileHints) announceRelease(time.Duration) bool { return h.coin() }
func (h hostileHints) checkRelease(time.Duration) bool    { return h.coin() }
func (h hostileHints) recordGrantAfter() time.Duration {
	return time.Duration(h.random.Int64N(int64(2 * shortHold)))
}

// What follows asks a door's hints, or tells them, under the door's lock.

func (d *door) met(now time.Duration, before facts, version int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !before.exists || before.version != version {
		d.parent.othersAt = now
		d.hints.met(now)
	}
}

// joined notes the parent as one of ours has just written it as it joined.
func (d *door) joined(f facts, now time.Duration) {
	d.mu.Lock()
	before := d.parent
	d.hints.joined(now, before, f.version)
	if before.exists && (f.czxid != before.czxid || f.version != before.version+1) || f.children > d.below {
		d.parent.othersAt = now
	}
	d.mu.Unlock()
	d.see(f)
}

func (d *door) hint(f func(hints)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.hints)
}

func (d *door) recordGrantAfter() (after time.Duration) {
	d.hint(func(h hints) { after = h.recordGrantAfter() })
	return after
}
