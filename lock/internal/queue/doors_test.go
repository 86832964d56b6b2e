package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// lone returns a queue that is asked for nothing that takes a connection.
func lone(hints string) *Queue {
	return New(Options{Root: "/locks", Hints: hints, Random: bubble.Random()})
}

// TestDoorsAreBounded: those that nobody uses go, the longest unused first, and those in
// use stay.
func TestDoorsAreBounded(t *testing.T) {
	q := lone("")
	used := q.openDoor("used")
	name := func(i int) string { return fmt.Sprint("x", i) }
	for i := range 3 * maxDoors {
		q.closeDoor(q.openDoor(name(i)))
	}
	again := q.openDoor(name(2*maxDoors + 1)) // of those left the second longest unused
	q.closeDoor(again)
	q.closeDoor(q.openDoor("one more"))
	all := q.doors
	if len(all.byLock) != maxDoors+1 || all.idle != maxDoors {
		t.Errorf("%d doors are kept, %d of them unused", len(all.byLock), all.idle)
	}
	for lock, want := range map[string]bool{
		"used": true, "one more": true, name(3*maxDoors - 1): true,
		name(2*maxDoors + 1): true, name(2 * maxDoors): false, name(2*maxDoors + 2): true, name(0): false,
	} {
		if all.byLock[lock] != nil != want {
			t.Errorf("%s is kept: %v", lock, !want)
		}
	}
	if q.openDoor("used") != used || used.users != 2 {
		t.Error("one in use was forgotten")
	}
	if q.openDoor(name(2*maxDoors+1)) != again {
		t.Error("one that was used again was forgotten")
	}
	ring := 0
	for d := all.ends.next; d != &all.ends; d = d.next {
		if ring++; d.users != 0 || d.next.prev != d || all.byLock[d.name] != d {
			t.Fatalf("%s is in the ring, with %d users", d.name, d.users)
		}
	}
	if ring != all.idle {
		t.Errorf("%d are in the ring, and %d are counted", ring, all.idle)
	}
}

// TestForgottenDoorHasAnotherNumber, so that its entries are not taken for the new one's.
func TestForgottenDoorHasAnotherNumber(t *testing.T) {
	q := lone("")
	first := q.openDoor("x")
	e := &Entry{}
	first.enter(e)
	q.closeDoor(first)
	for i := range maxDoors {
		q.closeDoor(q.openDoor(fmt.Sprint(i)))
	}
	d := q.openDoor("x")
	if d == first || d.number == first.number {
		t.Fatal("the door was not forgotten")
	}
	other := &Entry{}
	d.enter(other)
	if !d.others(e) || d.others(other) {
		t.Error("the forgotten door's entry is counted, or stands alone")
	}
	if d.exit(e, 0, false) || d.below != 1 {
		t.Errorf("the last one out beside one that is counted; %d below", d.below)
	}
	if !d.exit(other, 0, false) || d.below != 0 {
		t.Errorf("not the last one out; %d below", d.below)
	}
	if stray := (&Entry{}); !d.exit(stray, 0, false) || d.below != 0 {
		t.Error("one that nobody counts, and nobody else is there: it looks after the parent")
	}
}

// placed is an entry of that incarnation of the parent.
func placed(incarnation int64, path string) *Entry {
	e := &Entry{incarnation: incarnation}
	e.Path = path
	return e
}

func parentOf(czxid int64, version int32) facts {
	return facts{exists: true, czxid: czxid, version: version}
}

// TestWitness is an entry of ours that stands below the very parent that the facts are
// about.
func TestWitness(t *testing.T) {
	d := lone("").openDoor("x")
	d.see(parentOf(5, 1))
	witness := func() *Entry {
		_, e := d.look()
		return e
	}
	unknown, first, second, other := placed(0, "u"), placed(5, "a"), placed(5, "b"), placed(4, "c")
	if d.enter(unknown); witness() != nil {
		t.Error("one whose parent is not known")
	}
	if d.enter(first); witness() != first {
		t.Error("not the one that joined")
	}
	if d.enter(second); witness() != second {
		t.Error("not the last one")
	}
	if d.enter(other); witness() != nil {
		t.Error("one of another incarnation")
	}
	if d.testify(first); witness() != first {
		t.Error("not the one that was made the witness")
	}
	if d.exit(second, 0, false); witness() != first {
		t.Error("somebody else has left")
	}
	if d.exit(first, 0, false); witness() != nil {
		t.Error("one that has left")
	}
	if d.testify(first); witness() != nil {
		t.Error("one that is not counted")
	}
	third := placed(5, "d")
	d.enter(third)
	if d.dismiss("somebody else's", false); witness() != third {
		t.Error("dismissed with another one")
	}
	if d.dismiss("d", false); witness() != nil || d.isUnchecked() {
		t.Error("one that was not there")
	}
	d.testify(third)
	if d.dismiss("x", true); witness() != nil || !d.isUnchecked() {
		t.Error("one that the ACL does not let us check")
	}
	if d.below != 3 {
		t.Errorf("%d below", d.below)
	}
}

// TestExit: what the account says of the parent when somebody leaves.
func TestExit(t *testing.T) {
	const now = time.Minute
	tail := znode.Prefix("0123456789abcdef", znode.Exclusive)
	for _, tt := range []struct {
		name                          string
		incarnation                   int64
		isTail, others, stays         bool
		last, proven, tailLeft, stale bool
	}{
		{name: "the last one", incarnation: 5, isTail: true, last: true, tailLeft: true, stale: true},
		{name: "and the parent lingers", incarnation: 5, isTail: true, stays: true, last: true, proven: true, tailLeft: true},
		{name: "beside others", incarnation: 5, isTail: true, others: true, tailLeft: true},
		{name: "not the tail", incarnation: 5, others: true},
		{name: "the last one, not the tail", incarnation: 5, last: true},
		{name: "of another parent", incarnation: 4, last: true},
		{name: "of one that is not known", last: true},
	} {
		d := lone("").openDoor("x")
		f := parentOf(5, 1)
		f.data.Tail = tail
		d.see(f)
		e := placed(tt.incarnation, "e")
		if tt.isTail {
			e.Path = "/locks/x/" + tail + "0000000001"
		}
		if d.enter(e); tt.others {
			d.enter(placed(5, "o"))
		}
		if last := d.exit(e, now, tt.stays); last != tt.last {
			t.Errorf("%s: last %v", tt.name, last)
		}
		if f, _ := d.look(); f.proven == now != tt.proven || f.tailLeft != tt.tailLeft || f.stale != tt.stale {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

func TestUsable(t *testing.T) {
	const left = time.Minute // an entry of ours was there until then
	good := parentOf(5, 1)
	with := func(change func(*facts)) facts {
		f := good
		change(&f)
		return f
	}
	for _, tt := range []struct {
		name    string
		f       facts
		at      time.Duration
		witness bool
		want    bool
	}{
		{"young, and others are about", with(func(f *facts) { f.version, f.proven, f.othersAt = oldEnough-1, left, left }), left, false, false},
		{"left, and others are about", with(func(f *facts) { f.version, f.proven, f.othersAt = oldEnough, left, left }), left + factsLast, false, true},
		{"nothing", facts{}, 0, true, false},
		{"an entry is checked", good, time.Hour, true, true},
		{"nobody was ever there", good, 0, false, false},
		{"just left", with(func(f *facts) { f.proven = left }), left, false, true},
		{"left a while ago", with(func(f *facts) { f.proven = left }), left + factsLast, false, true},
		{"left too long ago", with(func(f *facts) { f.proven = left }), left + factsLast + 1, false, false},
		{"changed since", with(func(f *facts) { f.stale = true }), 0, true, false},
		{"changed since, and believed to be as it was", with(func(f *facts) { f.stale = true }).current(), 0, true, true},
		{"at version 0, which a stranger's begins with", with(func(f *facts) { f.version, f.proven = 0, left }), left, true, false},
	} {
		if got := tt.f.usable(tt.at, tt.witness, false); got != tt.want {
			t.Errorf("%s: usable %v", tt.name, got)
		}
	}
}

func TestLastJoined(t *testing.T) {
	tail := znode.Prefix("0123456789abcdef", znode.Exclusive)
	for _, tt := range []struct {
		name  string
		f     facts
		want  string
		there bool
	}{
		{"the last of many", facts{children: 2, created: 8, data: znode.Parent{Tail: tail}}, tail + "0000000007", true},
		{"nobody is there", facts{created: 8, data: znode.Parent{Tail: tail}}, tail + "0000000007", false},
		{"nobody has written the parent", facts{children: 2, created: 8}, "", false},
		{"nobody has ever come", facts{data: znode.Parent{Tail: tail}}, "", false},
		{"it has left", facts{children: 2, created: 8, data: znode.Parent{Tail: tail}, tailLeft: true}, tail + "0000000007", false},
		{"what stands there is no tail", facts{children: 2, created: 8, data: znode.Parent{Tail: "../x"}}, "", false},
	} {
		if got, there := tt.f.lastJoined(); got != tt.want || there != tt.there {
			t.Errorf("%s: %q, %v", tt.name, got, there)
		}
	}
}

// TestSee: facts are of a reply, and older ones do not displace younger. What proves the
// incarnation is kept within it, and not beyond.
func TestSee(t *testing.T) {
	d := lone("").openDoor("x")
	f := parentOf(5, 3)
	f.proven = time.Second
	for _, tt := range []struct {
		name    string
		see     facts
		czxid   int64
		version int32
		proven  time.Duration
	}{
		{"the first", f, 5, 3, time.Second},
		{"an older version", parentOf(5, 2), 5, 3, time.Second},
		{"the same again", parentOf(5, 3), 5, 3, time.Second},
		{"a younger version", parentOf(5, 4), 5, 4, time.Second},
		{"an older incarnation", parentOf(4, 9), 5, 4, time.Second},
		{"a younger incarnation", parentOf(6, 1), 6, 1, 0},
	} {
		d.see(tt.see)
		if f, _ := d.look(); f.czxid != tt.czxid || f.version != tt.version || f.proven != tt.proven {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
	if d.doubt(); !d.parent.stale {
		t.Error("not stale")
	}
	if d.see(parentOf(6, 2)); d.parent.stale {
		t.Error("stale after another look")
	}
	if d.missed(); d.parent != (facts{}) {
		t.Errorf("it was not there: %+v", d.parent)
	}
	if d.see(parentOf(3, 1)); !d.parent.exists {
		t.Error("a parent that is there is not seen")
	}
	if d.isReadOnly() {
		t.Error("cannot be written from the start")
	}
	if d.denied(); !d.isReadOnly() {
		t.Error("denied, and tried again")
	}
}

// TestParentCleanup: one has the duty at a time, and begins anew when another has left.
func TestParentCleanup(t *testing.T) {
	var p parentCleanup
	if !p.start(time.Second) || p.start(2*time.Second) {
		t.Error("not the first one has the duty, or two do")
	}
	if got := p.remaining(2*time.Second + lingerTime/2); got != lingerTime/2 {
		t.Errorf("%v are missing", got)
	}
	if p.remaining(2*time.Second+lingerTime) > 0 {
		t.Error("it is not over")
	}
	if p.stop(); !p.start(time.Minute) {
		t.Error("nobody has the duty any more")
	}
}

// TestQuarantine is bounded by age; and an id that is added again is as old as it was.
func TestQuarantine(t *testing.T) {
	var s quarantine
	id := func(i int) string { return znode.FormatID(uint64(i)) }
	node := func(i int) znode.Name {
		n, _ := znode.Parse(znode.Prefix(id(i), znode.Exclusive) + "0000000001")
		return n
	}
	all := []znode.Name{node(1), node(2), node(3)}
	if got := s.among(all); got != nil {
		t.Errorf("%v from the start", got)
	}
	s.add(id(1), 0)
	s.add(id(2), quarantineTime/2)
	s.add(id(1), quarantineTime/2)
	if got := s.among(all); len(got) != 2 || got[0] != all[0] || got[1] != all[1] {
		t.Errorf("%v are not wanted", got)
	}
	s.add(id(9), quarantineTime+1)
	if got := s.among(all); len(got) != 1 || got[0] != all[1] {
		t.Errorf("after an hour %v are not wanted", got)
	}
	for i := range 10_000 {
		s.add(id(100+i), time.Duration(i)*quarantineTime/10*3)
	}
	if len(s.since) > 5 || len(s.order) != len(s.since) {
		t.Errorf("%d are remembered, %d by age", len(s.since), len(s.order))
	}
}

// TestStrangersAmong: a child that was counted when one of ours left may be ours, and have left
// since; then nobody else looks after the parent.
func TestStrangersAmong(t *testing.T) {
	for name, test := range map[string]struct {
		children int32
		more     func(d *door, other *Entry) // what happens before the one who leaves is counted no more
		other    bool                        // that one is there when it leaves
		want     bool
	}{
		"beside the only one of ours each child is a stranger's": {children: 1, want: true},
		"none is none":                   {children: 0},
		"the other one of ours":          {children: 1, other: true},
		"one of ours that has come":      {children: 1, more: func(d *door, other *Entry) { d.enter(other) }},
		"the other one, that has left":   {children: 1, other: true, more: func(d *door, other *Entry) { d.exit(other, 0, false) }},
		"one that was never counted":     {children: 1, more: func(d *door, other *Entry) { d.exit(new(Entry), 0, false) }},
		"one of ours that came and went": {children: 1, more: func(d *door, other *Entry) { d.enter(other); d.exit(other, 0, false) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := &door{number: 1, hints: &learnedHints{}}
			e, other := new(Entry), new(Entry)
			d.enter(e)
			if test.other {
				d.enter(other)
			}
			asked := d.count()
			if test.more != nil {
				test.more(d, other)
			}
			d.exit(e, 0, false)
			if got := d.strangersAmong(test.children, asked); got != test.want {
				t.Errorf("a stranger is there: %v, want %v", got, test.want)
			}
		})
	}
}
