package shard

import (
	"cmp"
	"maps"
	"slices"
)

// entrant is a member as the plan sees it.
type entrant struct {
	id     string
	weight int
	// fresh is true of a member that has not proved yet that it stays: it takes at most a quarter of
	// its share from other members.
	fresh bool
}

// assign returns the owner of each shard, from the owners until now. Owners are ids of members, ""
// for none. The result is the same on every machine, and in whatever order the members come:
//
//   - a member's share is its exact weighted share, rounded up or down;
//   - no other such result moves fewer shards;
//   - a fresh member gets shards without an owner up to its share, but takes at most a quarter of
//     its share from other members, which keep the rest until it is fresh no more.
//
// Without members no shard has an owner.
func assign(owners []string, members []entrant) []string {
	members = slices.SortedFunc(slices.Values(members), func(a, b entrant) int { return cmp.Compare(a.id, b.id) })
	have := map[string]int{}
	for _, owner := range owners {
		have[owner]++
	}
	shares := divide(len(owners), members, have)
	next, left := make([]string, len(owners)), maps.Clone(shares)
	for i, owner := range owners { // an owner of more than its share keeps the first ones
		if left[owner] > 0 {
			next[i] = owner
			left[owner]--
		}
	}
	m := 0
	for i := range next { // the others get one after the other, in turn
		for ; next[i] == "" && len(members) > 0; m = (m + 1) % len(members) {
			if id := members[m].id; left[id] > 0 {
				next[i] = id
				left[id]--
			}
		}
	}
	for _, e := range members {
		var taken []int // from other members
		for i, owner := range owners {
			if _, stays := shares[owner]; e.fresh && stays && owner != e.id && next[i] == e.id {
				taken = append(taken, i)
			}
		}
		most := (shares[e.id]+3)/4 - (shares[e.id] - len(taken))
		for n, i := range taken {
			if n%4 != 0 || n/4 >= most { // so it takes from all of them alike
				next[i] = owners[i]
			}
		}
	}
	return next
}

// divide divides n shards by the members' weights. Each share is rounded up or down, so that members that
// have more lose as little as possible.
func divide(n int, members []entrant, have map[string]int) map[string]int {
	total, left, shares := 0, n, map[string]int{}
	for _, e := range members {
		total += e.weight
	}
	var up []entrant // whose shares may be rounded up
	for _, e := range members {
		shares[e.id] = n * e.weight / total
		left -= shares[e.id]
		if n*e.weight%total != 0 {
			up = append(up, e)
		}
	}
	loses := func(e entrant) int { return min(1, max(0, have[e.id]-shares[e.id])) } // 1: one shard less if it is rounded up
	slices.SortStableFunc(up, func(a, b entrant) int {
		return cmp.Or(loses(b)-loses(a), cmp.Compare(n*b.weight%total, n*a.weight%total))
	})
	for _, e := range up[:min(left, len(up))] { // without members all are left
		shares[e.id]++
	}
	return shares
}
