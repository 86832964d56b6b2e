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
		add("policy "+p.Name+": match", p.Match, before[i].Match)
		was := app.Settings(before[i], "the reaper's")
		for j, s := range app.Settings(p, "the reaper's") {
			add("policy "+p.Name+": "+s.Key, s.Value, was[j].Value)
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
