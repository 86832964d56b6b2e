package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// record is a job's record, which package schedule writes, with the fields needed here.
type record struct {
	Version int    `json:"holdfast"`
	Job     string `json:"job"`
	Skipped *struct {
		First time.Time `json:"first"`
		Last  time.Time `json:"last"`
		Why   string    `json:"why"`
	} `json:"skipped"`
	Runs []run `json:"runs"`
}

type run struct {
	Tick    time.Time `json:"tick"`
	Attempt int       `json:"attempt"`
	Outcome string    `json:"outcome"`
	Error   string    `json:"error"`
	Owner   string    `json:"owner"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Token   string    `json:"token"`
	Lock    string    `json:"lock"`
}

// job reports whether the node is a job's. If the record shows runs, outcomes or skipped ticks that
// the job's last record did not show, job emits a Tick for each.
func (m *Machine) job(op *txnlog.Op) bool {
	name, ok := m.jobOf(op.Path)
	if !ok {
		return false
	}
	var now, before record
	if !m.matchesJob(name) || json.Unmarshal(op.Data, &now) != nil || now.Version != 1 {
		return true
	}
	if json.Unmarshal(m.jobs[name], &before) != nil {
		before = record{} // this is the job's first known record
	}
	m.jobs[name] = append(m.jobs[name][:0], op.Data...)
	if s := now.Skipped; s != nil && (before.Skipped == nil || *before.Skipped != *s) {
		e := m.event(Tick, "jobs/"+name)
		e.By = m.by()
		e.Reason = fmt.Sprintf("ticks from %s until %s never run: %s", s.First.UTC().Format(time.RFC3339), s.Last.UTC().Format(time.RFC3339), s.Why)
		m.emit(e)
	}
	for _, r := range now.Runs {
		if !before.has(r) {
			e := m.event(Tick, r.Lock)
			e.Who = Client{r.Owner, r.Host, r.PID}
			e.Reason = r.String()
			m.emit(e)
		}
	}
	return true
}

// jobOf returns the name of the job whose record is at the path; false if no job's is.
func (m *Machine) jobOf(path string) (string, bool) {
	if m.o.Jobs == "" {
		return "", false
	}
	return strings.CutPrefix(path, m.o.Jobs+"/")
}

// matchesJob reports whether the job is selected, by its name or by that of its lock.
func (m *Machine) matchesJob(name string) bool { return m.o.Match(name) || m.o.Match("jobs/"+name) }

func (r record) has(what run) bool {
	for _, known := range r.Runs {
		if known.Tick.Equal(what.Tick) && known.Token == what.Token && known.Outcome == what.Outcome {
			return true
		}
	}
	return false
}

// String describes the run in one line.
func (r run) String() string {
	s := fmt.Sprintf("tick %s: %s", r.Tick.UTC().Format(time.RFC3339), r.Outcome)
	if r.Attempt > 1 {
		s += fmt.Sprintf(", attempt %d", r.Attempt)
	}
	if r.Error != "" {
		s += ": " + r.Error
	}
	return s
}

// revoke handles a request to release a lock.
func (m *Machine) revoke(node string, op *txnlog.Op) {
	r, err := znode.DecodeRevocation(node, op.Data)
	if err != nil || !m.o.Match(r.Lock()) {
		return
	}
	e := m.event(RevokeAsked, r.Lock())
	e.Entry, e.By, e.Reason = node, Client{r.Owner, r.Host, r.PID}, r.Reason
	m.identify("", e.By)
	if q := m.locks[r.Lock()]; q != nil {
		if i := q.find(node); i >= 0 {
			e.Who, e.In = q.entries[i].client(), q.entries[i].in
		}
	}
	m.emit(e)
}
