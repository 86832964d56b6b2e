// Package shard shares work among the replicas of a service: each of n shards, such as the
// partitions of a queue, tenants or watchers, has exactly one owner at a time. Shards are spread
// evenly, and move when replicas come, go or die.
//
//	err := shard.Run(ctx, locks, "orders/partitions", 64, func(ctx context.Context, s shard.Owned) error {
//		return consume(ctx, s.Index, s.Token())
//	}, shard.Options{})
//
// SHARDS.md, in the folder of package lock, is the guide: when to use shards, what happens when, and
// what to do when something goes wrong.
//
// # What is promised
//
//   - A shard never has two owners: its owner holds the mutex <group>/<index>. Nothing else
//     excludes. What package lock promises of a Mutex holds for a shard, tokens included.
//   - A process never runs two functions for one shard: a shard is given back, and queued for again,
//     only when its function has returned. A function that does not return keeps its shard.
//   - Each member's share of the shards is its exact weighted share, rounded up or down. A plan
//     moves as few shards as that allows.
//   - A shard whose owner leaves in order has its next owner as soon as its function has returned. A
//     shard whose owner dies has its next one some seconds after TTL and grace.
//
// # How it works
//
// Each member is a candidate of the [lock.Election] <group>/plan. The leader watches the
// candidates, and proclaims a plan: which member is to own which shard. It plans five seconds
// after the last change, and at most 15 seconds after the first; at once if a member has expired.
// Each member follows the plan. If a shard is not its own any more, the context of the function
// ends with [ErrMoved]; when the function has returned, the mutex is unlocked. If a shard is its
// own now, the member queues for the mutex. Members may see different plans for a moment: then a
// shard waits for its next owner, and has one owner nevertheless.
//
// A new member gets shards without an owner, and a quarter of its share from other members; the
// rest follows a third of the TTL later. If a member of a host has expired in the last ten minutes,
// a new one of the same host ([lock.WithOwner] and host name) gets shards only after 30 seconds,
// and after up to eight minutes if that happens again. So a crash loop does not stop a part of the
// shards again and again. The leader of the group remembers that; the next leader begins anew, and a
// crash loop then stops a quarter of a share once more.
//
// The number of shards is part of the group: it stands in each candidate's value, and in the
// metadata of each shard's hold. A plan has room for [MaxShards], and for as many members as [Room]
// says.
package shard
