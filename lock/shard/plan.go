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
//     its share from other members. The other members share the rest.
//
// Without members no shard has an owner.
func assign(owners []string, members []entrant) []string {
	members = slices.SortedFunc(slices.Values(members), func(a, b entrant) int { return cmp.Compare(a.id, b.id) })
	index, have, free := map[string]int{}, make([]int, len(members)), len(owners)
	for m, e := range members {
		index[e.id] = m
	}
	for _, owner := range owners {
		if m, ok := index[owner]; ok {
			have[m]++
			free--
		}
	}
	shares := divide(len(owners), have, free, members)
	next := make([]string, len(owners))
	for i, owner := range owners { // an owner of more than its share keeps the first ones
		if m, ok := index[owner]; ok && shares[m] > 0 {
			next[i] = owner
			shares[m]--
		}
	}
	m := 0
	for i := range next {
		for m < len(members) && shares[m] == 0 {
			m++
		}
		if next[i] == "" && m < len(members) {
			next[i] = members[m].id
			shares[m]--
		}
	}
	return next
}

// divide returns how many of n shards each member is to have. Of these it has some, and free ones have no
// owner.
func divide(n int, have []int, free int, members []entrant) []int {
	weights, fresh := make([]int, len(members)), make([]int, len(members))
	for m, e := range members {
		if weights[m] = e.weight; e.fresh {
			fresh[m] = e.weight
		}
	}
	shares, ofFree := apportion(n, weights, have), apportion(free, fresh, have)
	limits, rest, others := slices.Clone(shares), n, false
	for m, e := range members {
		if limit := max(have[m]+ofFree[m], (shares[m]+3)/4); e.fresh && limit < shares[m] {
			limits[m], weights[m] = limit, 0
			rest -= limit
		} else {
			others = true
		}
	}
	if !others {
		return shares
	}
	for m, share := range apportion(rest, weights, have) {
		if weights[m] > 0 {
			limits[m] = share
		}
	}
	return limits
}

// apportion divides n by the weights. Each part is rounded up or down, so that large owners
// lose as little as possible. If all weights are 0, all parts are 0.
func apportion(n int, weights, have []int) []int {
	parts, total := make([]int, len(weights)), 0
	for _, w := range weights {
		total += w
	}
	if total == 0 {
		return parts
	}
	left := n
	var up []int // parts that may be rounded up
	for m, w := range weights {
		parts[m] = n * w / total
		left -= parts[m]
		if n*w%total != 0 {
			up = append(up, m)
		}
	}
	keeps := func(m int) int {
		if have[m] > parts[m] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(up, func(a, b int) int {
		return cmp.Or(keeps(a)-keeps(b), cmp.Compare(n*weights[b]%total, n*weights[a]%total))
	})
	for _, m := range up[:left] {
		parts[m]++
	}
	return parts
}
