package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// maxDifferences limits the number of logged differences of two configurations.
const maxDifferences = 50

// comparedKeys are the keys of a policy except its name.
var comparedKeys = []struct {
	key   string
	value func(policy.Rule) any
}{
	{"match", func(p policy.Rule) any { return p.Match }},
	{"ttl", func(p policy.Rule) any { return p.TTL }},
	{"max_ttl", func(p policy.Rule) any { return p.MaxTTL }},
	{"grace", func(p policy.Rule) any { return p.Grace }},
	{"max_hold", func(p policy.Rule) any { return p.MaxHold }},
	{"keep_parent", func(p policy.Rule) any { return p.KeepParent }},
	{"local_window", func(p policy.Rule) any { return app.Window(p.LocalWindow) }},
	{"orphan_after", func(p policy.Rule) any { return p.OrphanAfter }},
	{"schedule", func(p policy.Rule) any { return cmp.Or(p.Schedule, "the reaper's") }},
}

// differences returns a text for each change of a root's policies, schedule and limits.
func differences(old, next *config.Config) (all []string) {
	add := func(key string, now, before any) {
		if now != before {
			all = append(all, fmt.Sprintf("%s: %v, was %v", key, now, before))
		}
	}
	a, b := old.Reaper, next.Reaper
	add("reaper.schedule", cmp.Or(b.Schedule, reaper.DefaultSchedule), cmp.Or(a.Schedule, reaper.DefaultSchedule))
	add("reaper.concurrency", cmp.Or(b.Concurrency, reaper.DefaultConcurrency), cmp.Or(a.Concurrency, reaper.DefaultConcurrency))
	add("reaper.batch", cmp.Or(b.Batch, reaper.DefaultBatch), cmp.Or(a.Batch, reaper.DefaultBatch))
	add("reaper.max_deletes_per_second", limit(b.MaxDeletesPerSecond), limit(a.MaxDeletesPerSecond))
	before, now := old.Policies.All(), next.Policies.All()
	find := func(list []policy.Rule, name string) int {
		return slices.IndexFunc(list, func(p policy.Rule) bool { return p.Name == name })
	}
	for _, p := range before {
		if find(now, p.Name) < 0 {
			all = append(all, fmt.Sprintf("policy %s (%s): removed", p.Name, p.Match))
		}
	}
	last, moved := -1, false
	for _, p := range now {
		i := find(before, p.Name)
		if i < 0 {
			all = append(all, fmt.Sprintf("policy %s (%s): added", p.Name, p.Match))
			continue
		}
		for _, k := range comparedKeys {
			add("policy "+p.Name+": "+k.key, k.value(p), k.value(before[i]))
		}
		moved, last = moved || i < last, i
	}
	if moved {
		all = append(all, "policies: another order")
	}
	return all
}

// limit returns a limit as a text.
func limit(n int) string {
	if n == 0 {
		return "unlimited"
	}
	return strconv.Itoa(n)
}
