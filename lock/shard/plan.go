package shard

import (
	"cmp"
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
	index, have := map[string]int{}, make([]int, len(members))
	for m, e := range members {
		index[e.id] = m
	}
	for _, owner := range owners {
		if m, ok := index[owner]; ok {
			have[m]++
		}
	}
	shares := divide(len(owners), members, have)
	next, left := make([]string, len(owners)), slices.Clone(shares)
	for i, owner := range owners { // an owner of more than its share keeps the first ones
		if m, ok := index[owner]; ok && left[m] > 0 {
			next[i] = owner
			left[m]--
		}
	}
	m := 0
	for i := range next { // the others get one after the other, in turn
		if next[i] == "" && len(members) > 0 {
			for ; left[m] == 0; m = (m + 1) % len(members) {
			}
			next[i] = members[m].id
			left[m]--
			m = (m + 1) % len(members)
		}
	}
	for m, e := range members {
		var taken []int // from other members
		for i, owner := range owners {
			if _, lives := index[owner]; e.fresh && lives && owner != e.id && next[i] == e.id {
				taken = append(taken, i)
			}
		}
		most := (shares[m]+3)/4 - (shares[m] - len(taken))
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
func divide(n int, members []entrant, have []int) []int {
	total, left := 0, n
	for _, e := range members {
		total += e.weight
	}
	shares := make([]int, len(members))
	var up []int // shares that may be rounded up
	for m, e := range members {
		shares[m] = n * e.weight / total
		left -= shares[m]
		if n*e.weight%total != 0 {
			up = append(up, m)
		}
	}
	keeps := func(m int) int {
		if have[m] > shares[m] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(up, func(a, b int) int {
		return cmp.Or(keeps(a)-keeps(b), cmp.Compare(n*members[b].weight%total, n*members[a].weight%total))
	})
	for _, m := range up[:min(left, len(up))] { // without members all are left
		shares[m]++
	}
	return shares
}
