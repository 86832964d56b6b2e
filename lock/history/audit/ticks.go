package audit

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"
)

// job is the record of a job, as package lock/schedule describes it.
type job struct {
	Version int       `json:"holdfast"`
	Job     string    `json:"job"`
	Upto    time.Time `json:"upto"`
	Runs    []run     `json:"runs"`
}

type run struct {
	Tick    time.Time `json:"tick"`
	Attempt int       `json:"attempt"`
	Outcome string    `json:"outcome"`
	Token   string    `json:"token"`
}

// none is the record of a job that has none.
var none job

// jobOf returns the record of a job; nil if the data is none.
func jobOf(data []byte) *job {
	if !bytes.Contains(data, []byte(`"upto"`)) {
		return nil
	}
	var j job
	if json.Unmarshal(data, &j) != nil || j.Job == "" || j.Version < 1 || j.Upto.IsZero() {
		return nil
	}
	return &j
}

// recorded judges a write of a job's record.
func (a *Audit) recorded(n *node, was *job) {
	is, holder := n.job, ""
	if isHeld(a.txn.Ops) {
		holder = path.Dir(a.txn.Ops[0].Path)
	}
	takes, runs := strings.HasSuffix(holder, "/jobs/"+is.Job), strings.HasSuffix(path.Dir(holder), "/ticks/"+is.Job)
	a.judge(Tick, takes || runs, n, n, "the record of a job is written, and not in a transaction of its holder")
	a.judge(Tick, !is.Upto.Before(was.Upto), n, n, "the recorded ticks go back from %v to %v", was.Upto, is.Upto)
	for i, r := range is.Runs {
		if slices.ContainsFunc(was.Runs, func(o run) bool { return o.Tick.Equal(r.Tick) && o.Token == r.Token }) {
			continue
		}
		ok := takes && i == 0 && r.Tick.After(was.Upto)
		if before := slices.IndexFunc(is.Runs[1:], func(o run) bool { return o.Tick.Equal(r.Tick) }); before >= 0 {
			ok = ok && is.Runs[1+before].Outcome == "unfinished" && is.Runs[1+before].Attempt == r.Attempt-1
		}
		a.judge(Tick, ok, n, n, "attempt %d of the tick %v begins, after ticks up to %v were recorded, or beside another", r.Attempt, r.Tick, was.Upto)
	}
}
