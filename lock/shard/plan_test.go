// The plan as a pure function: even, stable, minimal, the same on every machine; its text.

package shard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestPlanIsEvenAndMinimal changes groups at random. After each change every share is the exact one
// rounded up or down, and no result with such shares moves fewer shards.
func TestPlanIsEvenAndMinimal(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		owners := make([]string, 1+random.IntN(300))
		var members []entrant
		for step := range 12 {
			members = change(random, members, step, 1+random.IntN(3)*random.IntN(400))
			next := assign(owners, members)
			if again := assign(owners, shuffled(random, members)); !slices.Equal(next, again) {
				t.Fatalf("another order of the members gives another plan: %v", members)
			}
			if again := assign(next, members); !slices.Equal(next, again) {
				t.Fatalf("the plan is not stable: %v of %v", members, next)
			}
			if !even(next, members) {
				t.Fatalf("the shares are not even: %v of %v", next, members)
			}
			if got, want := moves(owners, next), fewestMoves(owners, members); got != want {
				t.Fatalf("%d moves instead of %d among %v", got, want, members)
			}
			owners = next
		}
	}
}

func change(random *rand.Rand, members []entrant, step, weight int) []entrant {
	members = slices.Clone(members)
	switch {
	case len(members) > 1 && random.IntN(3) == 0:
		at := random.IntN(len(members))
		members = slices.Delete(members, at, at+1)
	case len(members) > 1 && random.IntN(3) == 0: // joined and left in one plan
		members[random.IntN(len(members))] = entrant{id: fmt.Sprintf("member%02d", step), weight: weight}
	default:
		members = append(members, entrant{id: fmt.Sprintf("member%02d", step), weight: weight})
	}
	return members
}

func shuffled(random *rand.Rand, members []entrant) []entrant {
	members = slices.Clone(members)
	random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return members
}

// even reports whether each member owns its exact share, rounded up or down.
func even(next []string, members []entrant) bool {
	total := 0
	for _, m := range members {
		total += m.weight
	}
	return !slices.ContainsFunc(members, func(m entrant) bool {
		d := owns(next, m.id)*total - len(next)*m.weight
		return d <= -total || d >= total
	})
}

// owns returns how many shards a member owns.
func owns(owners []string, id string) (n int) {
	for _, owner := range owners {
		if owner == id {
			n++
		}
	}
	return n
}

// moves returns how many shards go from one member to another, or have got an owner.
func moves(before, after []string) (n int) {
	for i := range before {
		if before[i] != after[i] {
			n++
		}
	}
	return n
}

// fewestMoves tries all ways of rounding that matter: by how much each member loses.
func fewestMoves(owners []string, members []entrant) int {
	total, floors, ups := 0, 0, 0
	for _, m := range members {
		total += m.weight
	}
	lost, spared, free := 0, 0, len(owners)
	for _, m := range members {
		have := owns(owners, m.id)
		free -= have
		floor := len(owners) * m.weight / total
		floors += floor
		lost += max(0, have-floor)
		if len(owners)*m.weight%total != 0 {
			ups++
			if have > floor {
				spared++
			}
		}
	}
	return free + lost - min(spared, len(owners)-floors)
}

// TestFewestMoves compares fewestMoves with all divisions of small groups.
func TestFewestMoves(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		members := []entrant{{id: "member00", weight: 1 + random.IntN(4)}, {id: "member01", weight: 1 + random.IntN(4)}, {id: "member02", weight: 1 + random.IntN(4)}}
		owners := make([]string, 1+random.IntN(6))
		for i := range owners {
			owners[i] = fmt.Sprintf("member%02d", random.IntN(4)) // the last one has gone
		}
		least := len(owners) + 1
		for all := range pow(3, len(owners)) {
			next := make([]string, len(owners))
			for i := range next {
				next[i], all = members[all%3].id, all/3
			}
			if even(next, members) {
				least = min(least, moves(owners, next))
			}
		}
		if got := fewestMoves(owners, members); got != least {
			t.Fatalf("%d, but all divisions give %d: %v, %v", got, least, owners, members)
		}
	}
}

func pow(a, n int) int {
	r := 1
	for range n {
		r *= a
	}
	return r
}

// TestFreshMember: a fresh member takes a quarter of its share from others, and its whole share of
// shards without an owner.
func TestFreshMember(t *testing.T) {
	old := []entrant{{id: "a", weight: 1}, {id: "b", weight: 1}, {id: "c", weight: 1}}
	owners := assign(make([]string, 120), old)
	fresh := append(slices.Clone(old), entrant{id: "d", weight: 1, fresh: true})
	first := assign(owners, fresh)
	if got := owns(first, "d"); got != 8 {
		t.Errorf("the fresh member gets %d shards of 30, want 8", got)
	}
	if !slices.Equal(first, assign(first, fresh)) {
		t.Error("the first step is not stable")
	}
	fresh[3].fresh = false
	if second := assign(first, fresh); owns(second, "d") != 30 || moves(first, second) != 22 {
		t.Errorf("then it gets %d shards by %d moves, want 30 by 22", owns(second, "d"), moves(first, second))
	}
	fresh[3].fresh = true
	if instead := assign(owners, fresh[1:]); owns(instead, "d") != 40 || moves(owners, instead) != 40 {
		t.Errorf("instead of one that left it gets %d shards by %d moves, want 40 by 40", owns(instead, "d"), moves(owners, instead))
	}
	grown := make([]string, 120)
	for n := range old { // each one's shards are side by side
		grown = assign(grown, old[:n+1])
	}
	next := assign(grown, fresh)
	for _, e := range old {
		if got := owns(next, e.id); got < 37 || got > 38 {
			t.Errorf("%s keeps %d shards of 40: the fresh member does not take from all alike", e.id, got)
		}
	}
	if alone := assign(owners, fresh[3:]); owns(alone, "d") != 120 {
		t.Errorf("alone it gets %d shards", owns(alone, "d"))
	}
	if none := assign(owners, nil); owns(none, "") != 120 {
		t.Errorf("without members %d shards have no owner", owns(none, ""))
	}
}

// TestFreshMembersAmongOthers: a fresh member takes at most a quarter of its share from other members, every
// other shard is where it was or where it is to be, and the plan is stable while members stay fresh.
func TestFreshMembersAmongOthers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		owners := make([]string, 1+random.IntN(200))
		var members []entrant
		for step := range 12 {
			members = change(random, members, step, 1+random.IntN(3))
			shares, took, present := map[string]int{}, map[string]int{}, map[string]bool{}
			for m := range members {
				members[m].fresh = false
				present[members[m].id] = true
			}
			full := assign(owners, members)
			for m := range members {
				members[m].fresh = random.IntN(3) == 0
			}
			next := assign(owners, members)
			for i, owner := range next {
				shares[full[i]]++
				if owner != full[i] && (owner != owners[i] || owner == "") {
					t.Fatalf("shard %d is owned by %q, and not by %q as before or %q as it is to be", i, owner, owners[i], full[i])
				}
				if owner != owners[i] && present[owners[i]] {
					took[owner]++
				}
			}
			for _, m := range members {
				if m.fresh && took[m.id] > (shares[m.id]+3)/4 {
					t.Fatalf("%v takes %d shards of %d from others", m, took[m.id], shares[m.id])
				}
			}
			if again := assign(next, members); !slices.Equal(next, again) {
				t.Fatalf("the plan is not stable: %v of %v, then %v", members, next, again)
			}
			owners = next
		}
	}
}

// TestValue: what encode writes decode reads; the largest plans have at most 3.5 kB.
func TestValue(t *testing.T) {
	for _, shards := range []int{1, 64, 950, MaxShards} {
		members := make([]entrant, Room(shards))
		p := &plan{at: time.Unix(1764365000, 0)}
		for m := range members {
			members[m] = entrant{id: fmt.Sprintf("member%02x", m), weight: 1 + m}
			p.members = append(p.members, members[m].id)
		}
		p.owners = assign(make([]string, shards), members)
		p.owners[shards-1] = ""
		r := record{Reads: format, ID: newID(), Shards: shards, Weight: 7, Name: "orders 1\n"}
		value := encode(r, p)
		if size := len(value) - len(encode(r, nil)); size > maxPlan+40 {
			t.Errorf("the plan of %d shards and %d members has %d bytes", shards, len(members), size)
		}
		gotRecord, got, err := decode(value)
		if err != nil || gotRecord != r || !got.at.Equal(p.at) || !slices.Equal(got.members, p.members) || !slices.Equal(got.owners, p.owners) {
			t.Errorf("%d shards: %v, %+v", shards, err, gotRecord)
		}
		if _, none, err := decode(encode(r, nil)); err != nil || none != nil {
			t.Errorf("without a plan: %v, %v", none, err)
		}
	}
}

// TestPlanWithoutMembers: the plan of a leader that leaves alone has no members, and can be read.
func TestPlanWithoutMembers(t *testing.T) {
	for _, shards := range []int{1, 2, MaxShards} {
		p := &plan{at: time.Unix(1764365000, 0), owners: make([]string, shards)}
		_, got, err := decode(encode(record{Reads: format, ID: newID(), Shards: shards, Weight: 1}, p))
		if err != nil || len(got.members) != 0 || !got.at.Equal(p.at) || !slices.Equal(got.owners, p.owners) {
			t.Errorf("%d shards: %v, %+v", shards, err, got)
		}
	}
}

// TestForeignValue: a value of another program, a damaged plan and a newer one are errors.
func TestForeignValue(t *testing.T) {
	for _, value := range []string{"", "10.0.0.1:80", "{}", `{"id":"abcdefgh","shards":0,"weight":1}`, `{"id":"abcdefgh","shards":1000000000000,"weight":1}`, `{"id":"abcdefgh","shards":1,"weight":1000000000000}`} {
		if _, _, err := decode(value); err == nil {
			t.Errorf("%q was read", value)
		}
	}
	good := encode(record{Reads: 1, ID: "abcdefgh", Shards: 2, Weight: 1}, &plan{members: []string{"abcdefgh"}, owners: []string{"abcdefgh", ""}})
	for _, change := range [][2]string{{"00ff", "00"}, {"00ff", "0000 "}, {"00ff", "01ff"}, {"00ff", "0~ff"}, {" abcdefgh ", " abcdefg "}, {`"1 -`, `"0 -`}, {`"1 -`, `"x -`}, {" -6", " x6"}} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if r, p, err := decode(bad); bad == good || err == nil || p != nil || r.ID != "abcdefgh" {
			t.Errorf("%q was read: %v", bad, err)
		}
	}
	newer := strings.Replace(good, `"1 `, `"2 9 8 7 `, 1)
	if r, _, err := decode(newer); !errors.Is(err, znode.ErrNewer) || r.Shards != 2 {
		t.Errorf("newer: %v", err)
	}
}

func FuzzValue(f *testing.F) {
	f.Add(encode(record{Reads: 1, ID: "abcdefgh", Shards: 2, Weight: 1}, &plan{members: []string{"abcdefgh"}, owners: []string{"abcdefgh", ""}}))
	f.Fuzz(func(t *testing.T, value string) {
		r, p, err := decode(value)
		if err != nil || p == nil {
			return
		}
		r2, p2, err := decode(encode(r, p))
		if err != nil || r2 != r || !slices.Equal(p.owners, p2.owners) {
			t.Errorf("%q: %v, %v", value, err, p2)
		}
	})
}
