package queue

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// attempt is one transaction that makes an entry.
type attempt struct {
	parent  facts         // as the request takes it to be
	witness string        // an entry that is checked first, which proves that the parent is that one still; "" if none can
	own     bool          // it is one of ours
	read    bool          // the parent was read just before
	write   bool          // the parent is written: it tells the next one who joined last, and us how many are there
	claim   bool          // it is written later, when the entry is there
	version int32         // to write it under if nothing else proves which parent it is; a wrong one is refused
	last    string        // who joined last, as far as is known; "": not known
	chosen  time.Duration // monotonic time at which the facts were found good enough
}

// dropWitness is the attempt without its check of an entry that has probably left by now,
// where the write needs none.
func (j *joining) dropWitness(a attempt, now time.Duration) attempt {
	without := a
	without.witness = ""
	needed := !a.parent.usable(now, false, j.KeepParent)
	if a.read {
		needed = j.mayGo(without)
	}
	if a.own || needed {
		return a
	}
	return without
}

// onFacts is an attempt on what is known of the parent, with an entry to check that is
// known to stand below it: one of ours, or the one that joined last.
func (j *joining) onFacts(read bool) attempt {
	f, own := j.door.look()
	last, there := j.door.lastJoined(f)
	a := attempt{parent: f, read: read, version: f.version, last: last}
	if own != nil {
		a.witness, a.own = own.Path, true
	} else if there && !j.door.isUnchecked() {
		if path := j.parent + "/" + last; path != j.notThere {
			a.witness = path
		}
	}
	return a
}

// under is the version that the parent is written under: any, if nothing in its data but
// what the write is about can have changed. So nobody who joins meanwhile is in the way.
func (a attempt) under(kind znode.Kind) int32 {
	if a.anyVersion(kind) {
		return -1
	}
	return a.version
}

// anyVersion reports whether the version of the parent is of no account: the check of an
// entry proves which parent it is, its kind never changes while one is there, nor does the
// number of permits of a lock that has none; and either it is adopted, for good, or never
// becomes so.
func (a attempt) anyVersion(kind znode.Kind) bool {
	f := a.parent
	return f.exists && a.witness != "" && f.data.Kind == kind && kind != znode.Semaphore && (f.ours || f.data.Adopted)
}

// checks reports whether the first operation is the check of the witness.
func (a attempt) checks() bool { return a.parent.exists && a.write && a.witness != "" }

// blind reports whether the parent is written without proof that it is the one that the
// facts are about: the reply's Czxid tells, if there is one.
func (a attempt) blind() bool { return a.parent.exists && a.write && a.witness == "" }
