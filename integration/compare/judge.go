package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// row has the findings on one workload of a system.
type row struct {
	System   string
	Workload string
	Attempts int // to take the lock
	Holds    int
	Acts     int
	// Overlaps counts the holds that the library still claimed after it had given the lock to
	// another client.
	Overlaps int
	// Outside counts the acts of clients after a later client had got the lock, which a lease alone
	// cannot prevent.
	Outside int
	Added   int // elements that the store accepted
	Lost    int // accepted elements that the store does not have at the end
	Refused int // acts that the fenced store refused
	// Fenced counts the violations of fencing: tokens that are not unique, or not higher than those
	// of earlier holds; writes accepted in another order than their tokens; lost elements.
	Fenced int
	// Errors counts the results of calls that were not a success, by call and class.
	Errors map[string]int
	// Idle is the longest time in which no client got the lock.
	Idle time.Duration

	examples []string // texts of up to five violations
}

// errors tells the results of calls that were not a success, by call and class.
func (v row) errors() string {
	known := map[string]int{}
	for key, n := range v.Errors {
		op, class, _ := strings.Cut(key, ": ")
		if !slices.Contains(classes, class) {
			class = "other"
		}
		known[op+": "+class] += n
	}
	var errs []string
	for _, key := range slices.Sorted(maps.Keys(known)) {
		errs = append(errs, fmt.Sprintf("%s %d×", key, known[key]))
	}
	if v.Refused > 0 {
		errs = append(errs, fmt.Sprintf("refused by the fenced store %d×", v.Refused))
	}
	return strings.Join(errs, ", ")
}

// hold is a hold, as its client saw it.
type hold struct {
	name  string
	token string
	grant *record
	acts  []*record
	begin instant // the hold was certainly valid from here on, by the library's claims
	end   instant // until here, by the claims and the unlock; if this is not after begin, no claim has a duration
}

// holdsOf returns the holds of a workload's records, sorted by begin.
func holdsOf(records []record) []*hold {
	byName := map[string]*hold{}
	var all []*hold
	for i := range records {
		r := &records[i]
		if r.Hold == "" {
			continue
		}
		h := byName[r.Hold]
		if h == nil {
			h = &hold{name: r.Hold, begin: math.MaxInt64}
			byName[r.Hold] = h
			all = append(all, h)
		}
		switch r.Op {
		case opGrant:
			h.grant, h.token = r, r.Token
		case opAct:
			h.acts = append(h.acts, r)
		case opLeave:
			h.end = min(h.end, r.Call) // claims from before the unlock do not count after it
		}
		if c := r.Claim; c != nil {
			if c.Until == c.From || c.To < c.Until {
				h.begin = min(h.begin, c.To)
			}
			h.end = max(h.end, c.Until)
		}
	}
	slices.SortFunc(all, func(a, b *hold) int { return cmp.Compare(a.begin, b.begin) })
	return all
}

// judge returns the findings in a workload's records. s is the workload's store, or nil. Idle is
// measured from start to stop.
func judge(system, workload string, records []record, s *store, start, stop instant) *row {
	v := &row{System: system, Workload: workload, Errors: map[string]int{}}
	var grants []instant
	for i := range records {
		r := &records[i]
		switch r.Op {
		case opTry:
			v.Attempts++
		case opGrant:
			v.Attempts++
			v.Holds++
			grants = append(grants, r.Return)
		case opAct:
			v.Acts++
		case opRefuse:
			v.Refused++
		}
		if r.Result != "" {
			v.Errors[r.Op+": "+r.Result]++
		}
	}
	v.Idle = longest(grants, start, stop)
	all := holdsOf(records)
	v.exclusion(all)
	if s != nil {
		v.store(s)
	}
	if workload == fencedWorkload {
		v.fencing(all, s.writes)
	}
	return v
}

// longest returns the longest time without any of the moments, from start to stop.
func longest(moments []instant, start, stop instant) time.Duration {
	slices.Sort(moments)
	var most instant
	last := start
	for _, m := range append(moments, stop) {
		m = min(max(m, start), stop)
		most, last = max(most, m-last), m
	}
	return time.Duration(most)
}

// note keeps the text of a violation, unless the row already has five texts.
func (v *row) note(format string, args ...any) {
	if len(v.examples) < 5 {
		v.examples = append(v.examples, v.System+", "+v.Workload+": "+fmt.Sprintf(format, args...))
	}
}

// exclusion counts Overlaps and Outside. The holds are sorted by their beginnings. If a library's
// claims have no end, a hold lasts from its first claim to its last.
func (v *row) exclusion(all []*hold) {
	var inside *hold // of those that began earlier, the one that ends last
	stale := map[*hold]bool{}
	type deed struct {
		*record
		by *hold
	}
	var acts []deed
	for _, h := range all {
		for _, a := range h.acts {
			acts = append(acts, deed{a, h})
		}
		if h.begin >= h.end {
			continue // no claim has a duration
		}
		if inside != nil && inside.end > h.begin && !stale[inside] {
			stale[inside] = true
			v.Overlaps++
			v.note("%s held the lock for another %v after %s had got it", inside.name, time.Duration(inside.end-h.begin), h.name)
		}
		if inside == nil || h.end > inside.end {
			inside = h
		}
	}
	slices.SortFunc(acts, func(a, b deed) int { return cmp.Compare(a.Call, b.Call) })
	var last *hold // the last one that began; it is enough, even if it has ended
	for _, a := range acts {
		for ; len(all) > 0 && all[0].begin <= a.Call; all = all[1:] {
			last = all[0]
		}
		if last != nil && last.begin > a.by.begin {
			v.Outside++
			v.note("%s acted %v after %s had got the lock", a.by.name, time.Duration(a.Call-last.begin), last.name)
		}
	}
}

// store counts the elements that the store accepted, and the accepted elements that it does not
// have at the end.
func (v *row) store(s *store) {
	has := map[int64]bool{}
	for _, e := range s.set {
		has[e] = true
	}
	v.Added = len(s.writes)
	for _, w := range s.writes {
		if !has[w.Added] {
			v.Lost++
		}
	}
}

// fencing counts the violations of fencing in v.Fenced. It does not rely on the store's refusals.
func (v *row) fencing(all []*hold, writes []write) {
	wrong := func(format string, args ...any) {
		v.Fenced++
		v.note(format, args...)
	}
	if v.Lost > 0 {
		v.Fenced += v.Lost
		v.note("%d elements of the fenced store were lost", v.Lost)
	}
	for i := 1; i < len(writes); i++ {
		if writes[i].Token < writes[i-1].Token {
			wrong("a write with token %s was accepted after one with %s", writes[i].Token, writes[i-1].Token)
		}
	}
	granted := slices.DeleteFunc(slices.Clone(all), func(h *hold) bool { return h.grant == nil })
	by := map[string]*hold{}
	for _, h := range granted {
		if other := by[h.token]; other != nil {
			wrong("%s and %s had the same token %s", h.name, other.name, h.token)
		}
		by[h.token] = h
	}
	// If a grant was requested after another grant had returned, the token of the later grant must
	// be higher.
	returned := slices.Clone(granted)
	slices.SortFunc(returned, func(a, b *hold) int { return cmp.Compare(a.grant.Return, b.grant.Return) })
	slices.SortFunc(granted, func(a, b *hold) int { return cmp.Compare(a.grant.Call, b.grant.Call) })
	var highest *hold
	for _, h := range granted {
		for len(returned) > 0 && returned[0].grant.Return < h.grant.Call {
			if highest == nil || returned[0].token > highest.token {
				highest = returned[0]
			}
			returned = returned[1:]
		}
		if highest != nil && h.token < highest.token {
			wrong("%s had token %s, after %s had %s", h.name, h.token, highest.name, highest.token)
		}
	}
}
