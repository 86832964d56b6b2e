package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// none is the zero record: the first record of a job is compared with it.
var none job

// jobOf decodes the record of a job; nil if the data is not one.
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
	is, holder, token := n.lock.job, "", ""
	if isHeld(a.txn.Ops) {
		holder = path.Dir(a.txn.Ops[0].Path)
		if e := a.nodes[a.txn.Ops[0].Path]; e != nil && e.entry != nil && !e.hidden && e.entry.czxid != 0 {
			token = fmt.Sprintf("%016x", e.entry.czxid)
		}
	}
	takes, runs := strings.HasSuffix(holder, "/jobs/"+is.Job), strings.HasSuffix(path.Dir(holder), "/ticks/"+is.Job)
	a.judge(Tick, takes || runs, n, n, "the record of a job is written, and not in a transaction of its holder")
	a.judge(Tick, !is.Upto.Before(was.Upto), n, n, "the recorded ticks go back from %v to %v", was.Upto, is.Upto)
	for i, r := range is.Runs {
		if known := slices.IndexFunc(was.Runs, func(o run) bool { return o.Tick.Equal(r.Tick) && o.Token == r.Token }); known >= 0 {
			o := was.Runs[known]
			ended := o.Outcome == "running" && (r.Outcome == "unfinished" || strings.HasPrefix(r.Token, token))
			a.judge(Tick, r.Outcome == o.Outcome || ended, n, n, "the run %s of the tick %v was %s, and is recorded as %s by another hold, or again", r.Token, r.Tick, o.Outcome, r.Outcome)
			continue
		}
		ok := takes && i == 0 && r.Tick.After(was.Upto)
		if before := slices.IndexFunc(is.Runs[1:], func(o run) bool { return o.Tick.Equal(r.Tick) }); before >= 0 {
			ok = ok && is.Runs[1+before].Outcome == "unfinished" && is.Runs[1+before].Attempt == r.Attempt-1
		}
		a.judge(Tick, ok, n, n, "attempt %d of the tick %v begins, after ticks up to %v were recorded, or beside another", r.Attempt, r.Tick, was.Upto)
	}
}
