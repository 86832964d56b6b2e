package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

const (
	// version is the version of the record's format.
	version = 1
	// maxRuns is the number of runs that a record keeps.
	maxRuns = 16
	// maxError limits the length of a run's error, in bytes.
	maxError = 1 << 10
)

// Outcome is the state or result of a run.
type Outcome string

// The outcomes.
const (
	Running    Outcome = "running"    // the run has not ended
	Done       Outcome = "done"       // the function returned nil
	Failed     Outcome = "failed"     // the function returned an error
	Unfinished Outcome = "unfinished" // the replica crashed, lost its hold, or was interrupted
	NotRun     Outcome = "skipped"    // the tick never runs; only for Options.Report
)

// Run is the run of one tick. Times are ensemble time.
type Run struct {
	Tick    time.Time `json:"tick"`
	Attempt int       `json:"attempt"` // 1, or one more than that of the last run of the same tick
	Outcome Outcome   `json:"outcome"`
	Error   string    `json:"error,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"` // zero while the run goes on; for a crashed run, when another replica noticed the crash
	Owner   string    `json:"owner"`          // the client's owner, as in the entries of locks
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Token   string    `json:"token"` // token of the run's hold
	Lock    string    `json:"lock"`  // lock of the run's hold
}

// Reason says why ticks were skipped.
type Reason string

// The reasons.
const (
	Missing     Reason = "missed"      // no replica could start them in time
	Overlapped  Reason = "overlap"     // they came due during an earlier run
	Rescheduled Reason = "rescheduled" // the schedule has changed, and they lie before the change
)

// Skipped says that the ticks from First to Last never run.
type Skipped struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Why   Reason    `json:"why"`
}

// Status is the record of a job, as its node stores it. Times are ensemble time.
type Status struct {
	Job     string    `json:"job"`
	Upto    time.Time `json:"upto"`               // ticks up to this time never run again; zero: there is no record
	Next    time.Time `json:"next,omitzero"`      // the first tick after Upto; zero: there is none
	Skipped *Skipped  `json:"skipped,omitempty"`  // the last ticks that were skipped; nil: none
	Runs    []Run     `json:"runs,omitempty"`     // the last runs, the newest first
	Path    string    `json:"path,omitempty"`     // path of the node
	Version int       `json:"holdfast,omitempty"` // version of the format
}

// Last returns the last run, or false if there was none.
func (s Status) Last() (Run, bool) {
	if len(s.Runs) == 0 {
		return Run{}, false
	}
	return s.Runs[0], true
}

// notRun returns the skipped ticks as a run for Options.Report; now is the time of the decision.
func (s Skipped) notRun(now time.Time, late time.Duration) Run {
	ticks := "the tick of " + s.Last.Format(time.RFC3339)
	if !s.First.Equal(s.Last) {
		ticks = fmt.Sprintf("the ticks from %s to %s", s.First.Format(time.RFC3339), s.Last.Format(time.RFC3339))
	}
	why := fmt.Sprintf("%s: %s came during an earlier run", s.Why, ticks)
	if s.Why == Missing {
		why = fmt.Sprintf("%s: %s could not start within %v; it is %s now", s.Why, ticks, late, now.Format(time.RFC3339))
	}
	return Run{Tick: s.Last, Outcome: NotRun, Error: why}
}

// record is the record of a job. Its methods do no I/O.
type record struct {
	Status
	planned bool // Next is the tick after Upto, by the schedule with which the record was written
}

var errFormat = errors.New("not the record of a job")

// decode decodes the data of a job's node. Without data, the node is an ancestor of other jobs'
// nodes, and the record is zero.
func decode(data []byte) (record, error) {
	var r record
	if len(data) == 0 {
		return r, nil
	}
	switch err := json.Unmarshal(data, &r.Status); {
	case err != nil:
		return record{}, fmt.Errorf("%w: %w", errFormat, err)
	case r.Version > version:
		return record{}, fmt.Errorf("%w: it is of version %d, which a newer release wrote", errFormat, r.Version)
	case r.Version < 1 || r.Upto.IsZero():
		return record{}, errFormat
	}
	r.planned = true
	return r, nil
}

func (r *record) encode() ([]byte, error) {
	r.Version = version
	return json.Marshal(r.Status)
}

// last returns the last run; the zero Run if there was none.
func (r *record) last() Run {
	run, _ := r.Last()
	return run
}

// settle adapts the record if a replica with AtLeastOnce wrote it and this replica is without
// AtLeastOnce: a tick that the other replica has started never runs again. settle reports whether
// it has changed the record.
func (r *record) settle(atLeastOnce bool) bool {
	started := r.last().Tick
	if atLeastOnce || !started.After(r.Upto) || r.Upto.IsZero() {
		return false
	}
	r.Upto, r.planned = r.after(started), false
	return true
}

// after returns the new Upto when a tick has run: the tick, or the end of skipped ticks that follow
// it.
func (r *record) after(tick time.Time) time.Time {
	if s := r.Skipped; s != nil && s.Last.After(tick) {
		return s.Last
	}
	return tick
}

// skip records skipped ticks. tick is the tick to run now; zero: none. If tick lies before the
// skipped ticks, Upto changes only when tick has run.
func (r *record) skip(s *Skipped, tick time.Time) {
	if s == nil {
		return
	}
	if r.Skipped = s; tick.IsZero() || tick.After(s.Last) {
		r.Upto = s.Last
	}
}

// start adds a run to the record, sets its outcome to Running and its attempt, and returns the run.
// Without atLeastOnce the tick then never runs again.
func (r *record) start(run Run, atLeastOnce bool) Run {
	run.Outcome, run.Attempt = Running, 1
	if last := r.last(); last.Tick.Equal(run.Tick) {
		run.Attempt = last.Attempt + 1
	}
	r.Runs = slices.Insert(r.Runs, 0, run)
	r.Runs = r.Runs[:min(len(r.Runs), maxRuns)]
	if !atLeastOnce {
		r.Upto = run.Tick
	}
	return run
}

// finish replaces a run in the record by the same run after its end. If the record no longer has
// the run, finish adds no run. In both cases the tick never runs again, unless the run is
// Unfinished.
func (r *record) finish(run Run) {
	if run.Outcome != Unfinished && run.Tick.After(r.Upto) {
		r.Upto = r.after(run.Tick)
	}
	i := slices.IndexFunc(r.Runs, func(known Run) bool {
		return known.Tick.Equal(run.Tick) && known.Token == run.Token
	})
	if i >= 0 {
		r.Runs[i] = run
	}
}

// textOf returns the text of an error, cut to maxError bytes.
func textOf(err error) string {
	text := err.Error()
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}

// entryToken parses the token of a run's hold, without the number of local handoffs, which the
// entry in ZooKeeper does not show.
func entryToken(text string) (lock.Token, error) {
	token, err := lock.ParseToken(text)
	return admin.EntryToken(token), err
}
