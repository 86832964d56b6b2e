// When the leader plans, and for which members.

package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// script plays a leader: each call of at sees the members and returns the ones of the plan that is
// due, "" if none is.
type script struct {
	p     *planner
	begun time.Time
}

func newScript(shards int) *script {
	p := &planner{self: "a", third: 10 * time.Second, last: &plan{owners: make([]string, shards)}, strikes: map[string]strike{}}
	return &script{p, time.Now()}
}

func (s *script) at(second int, members string, expired ...string) string {
	now := s.begun.Add(time.Duration(second) * time.Second)
	var present []candidate
	for _, id := range members {
		present = append(present, candidate{Member: Member{ID: string(id), Weight: 1, Owner: string(id), Host: "host"}})
	}
	hosts := map[string]string{}
	for _, id := range expired {
		hosts[id] = id + "@host"
	}
	s.p.see(now, present, hosts)
	next := s.p.next(now)
	if next == nil {
		return ""
	}
	s.p.proclaimed(now, next)
	owns := map[string]int{}
	for _, owner := range next.owners {
		owns[owner]++
	}
	return fmt.Sprint(owns)[len("map"):]
}

// play compares the plans at each second with those that are expected.
func (s *script) play(t *testing.T, from, to int, members string, want map[int]string) {
	t.Helper()
	for second := from; second < to; second++ {
		if got := s.at(second, members); got != want[second] {
			t.Errorf("second %d: %q, want %q", second, got, want[second])
		}
	}
}

func TestWhenToPlan(t *testing.T) {
	s := newScript(12)
	s.play(t, 0, 3, "a", nil)
	s.play(t, 3, 20, "ab", map[int]string{8: "[a:6 b:6]"}) // five seconds after the last change
	s.play(t, 20, 40, "abc", map[int]string{25: "[a:5 b:6 c:1]", 35: "[a:4 b:4 c:4]"})
	s.play(t, 40, 60, "ab", map[int]string{45: "[a:6 b:6]"})
	for second := range 16 { // a change each second: 15 seconds after the first
		members := []string{"ab", "abc"}[second%2]
		if got := s.at(99+second, members); (got != "") != (second == 16) {
			t.Errorf("second %d: %q", second, got)
		}
	}
	s = newScript(12)
	s.play(t, 0, 10, "ab", map[int]string{5: "[a:6 b:6]"})
	s.play(t, 10, 13, "abc", nil)
	s.play(t, 13, 17, "ac", nil)
	s.play(t, 17, 30, "acd", map[int]string{19: "[a:6 c:2 d:4]", 29: "[a:4 c:4 d:4]"}) // six seconds after b has left
}

func TestExpiredMember(t *testing.T) {
	s := newScript(12)
	s.play(t, 0, 10, "abc", map[int]string{5: "[a:4 b:4 c:4]"})
	for second, waits := range map[int]int{100: 30} {
		if got := s.at(second, "ab", "c"); got != "[a:6 b:6]" { // at once
			t.Errorf("second %d: %q", second, got)
		}
		s.play(t, second+1, second+120, "abc", map[int]string{second + 1 + waits: "[a:5 b:6 c:1]", second + 11 + waits: "[a:4 b:4 c:4]"})
	}
	for second, waits := 300, 60; second < 3000; second, waits = second+waits+60, min(2*waits, 480) {
		s.at(second, "ab", "c")
		planned := 0
		for ; s.at(second+1+planned, "abc") == ""; planned++ {
		}
		s.at(second+1+planned+10, "abc")
		if planned != waits {
			t.Errorf("second %d: it waited for %d seconds, want %d", second, planned, waits)
		}
	}
	if s.at(3700, "ab"); len(s.p.strikes) > 0 {
		t.Errorf("%d hosts are remembered after ten minutes", len(s.p.strikes))
	}
	s.at(4000, "ab", "c")
	s.play(t, 4000, 4700, "ab", nil)
	s.play(t, 4700, 4720, "abc", map[int]string{4705: "[a:5 b:6 c:1]", 4715: "[a:4 b:4 c:4]"}) // ten minutes later
	s = newScript(4)
	s.play(t, 0, 6, "ab", map[int]string{5: "[a:2 b:2]"})
	now := s.begun.Add(8 * time.Second) // b has panicked: it has left, and owns nothing
	s.p.see(now, s.p.present[:1], map[string]string{"b": ""})
	if next := s.p.next(now); next == nil || s.p.strikes["b@host"].wait != 0 {
		t.Errorf("a panic: %v, %v", next, s.p.strikes["b@host"].wait)
	}
	s = newScript(4)
	s.play(t, 0, 6, "ab", map[int]string{5: "[a:2 b:2]"})
	s.at(10, "a", "b")
	if got := s.at(11, "b", "a"); got != "[b:4]" { // the only one
		t.Errorf("the only member: %q", got)
	}
}

func TestLeaderLeaves(t *testing.T) {
	s := newScript(4)
	s.play(t, 0, 6, "abc", map[int]string{5: "[a:2 b:1 c:1]"})
	s.p.leaving = true
	s.play(t, 7, 9, "abc", map[int]string{7: "[b:2 c:2]"})
	s.play(t, 9, 12, "ac", map[int]string{9: "[c:4]"})
	s.play(t, 12, 14, "a", map[int]string{12: "[:4]"})
}

// TestNewLeader: a new leader goes on from the last plan, which it proclaims if all members of it are there.
// Those that are not there have left or expired: then it proclaims the next one only.
func TestNewLeader(t *testing.T) {
	before := &plan{members: []string{"a", "b", "c"}, owners: []string{"a", "b", "c", "a", "b", "c"}}
	s := newScript(6)
	s.p.last = before
	s.play(t, 0, 10, "abc", map[int]string{0: "[a:2 b:2 c:2]"})
	s = newScript(6)
	s.p.last = before
	if missing := s.p.missing([]candidate{{Member: Member{ID: "a"}}, {Member: Member{ID: "b"}}}); !slices.Equal(missing, []string{"c"}) {
		t.Errorf("missing are %v", missing)
	}
	if got := s.at(0, "ab", "c"); got != "[a:3 b:3]" {
		t.Errorf("%q", got)
	}
}

// TestNoRoom: if there is no room for all, members stay, and the first new ones come in.
func TestNoRoom(t *testing.T) {
	s := newScript(MaxShards)
	room := Room(MaxShards)
	var present []candidate
	for m := range room + 20 {
		present = append(present, candidate{Member: Member{ID: fmt.Sprintf("member%02x", 255-m), Weight: 1}})
	}
	for second, members := range [][]candidate{present[10:], present} {
		now := s.begun.Add(time.Duration(second) * time.Minute)
		s.p.see(now, members, nil)
		next := s.p.next(now.Add(quiet))
		if second == 0 {
			if len(next.members) != room {
				t.Errorf("%d members, want %d", len(next.members), room)
			}
			s.p.proclaimed(now, next)
		} else if next != nil && !slices.Equal(next.members, s.p.last.members) {
			t.Error("new members have replaced old ones")
		}
	}
}
