package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

const (
	// version is the version of the record's format.
	version = 1
	// maxRuns is the number of runs that a record keeps.
	maxRuns = 16
	// maxError limits the length of a run's error, in bytes.
	maxError = 1 << 10
)

// Outcome is what came of a run.
type Outcome string

// The outcomes.
const (
	Running    Outcome = "running"
	Done       Outcome = "done"
	Failed     Outcome = "failed"     // the function returned an error
	Unfinished Outcome = "unfinished" // the replica crashed, lost its hold, or was interrupted
)

// Run is the run of one tick. Times are ensemble time.
type Run struct {
	Tick    time.Time `json:"tick"`
	Attempt int       `json:"attempt"` // 1, or more if earlier runs of the tick were not finished
	Outcome Outcome   `json:"outcome"`
	Error   string    `json:"error,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"` // if the run is unfinished: when another replica noticed
	Owner   string    `json:"owner"`          // the client's owner, as in the entries of locks
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Token   string    `json:"token"` // token of the run's hold
	Lock    string    `json:"lock"`  // lock of the run's hold
}

// Reason is why ticks were skipped.
type Reason string

// The reasons.
const (
	Missing     Reason = "missed"      // no replica could run them in time
	Overlapped  Reason = "overlap"     // an earlier run went on
	Rescheduled Reason = "rescheduled" // the schedule has changed, and the ticks lie before the change
)

// Skipped says that the ticks from First to Last never run.
type Skipped struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Why   Reason    `json:"why"`
}

// Status is the record of a job, as its node has it. Times are ensemble time.
type Status struct {
	Job     string    `json:"job"`
	Upto    time.Time `json:"upto"`               // ticks up to this time never run again
	Next    time.Time `json:"next,omitzero"`      // the first tick after Upto
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

// record is what a job's node holds. Its methods do no I/O.
type record struct{ Status }

var errFormat = errors.New("not the record of a job")

// decode reads the data of a job's node. A node without data is an ancestor of other jobs.
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

// settle handles a replica with AtLeastOnce beside this one without it. A tick that the other has
// started never runs again. settle reports whether the record has changed.
func (r *record) settle(atLeastOnce bool) bool {
	started := r.last().Tick
	if atLeastOnce || !started.After(r.Upto) || r.Upto.IsZero() {
		return false
	}
	r.Upto, r.Next = r.after(started), time.Time{} // Next belonged to the earlier Upto
	return true
}

// after returns the time until which no tick runs any more when that one has run. Those after it may
// have been skipped already.
func (r *record) after(tick time.Time) time.Time {
	if s := r.Skipped; s != nil && s.Last.After(tick) {
		return s.Last
	}
	return tick
}

// skip records ticks that never run. If the tick to run now is one before them, Upto follows when it
// has run.
func (r *record) skip(s *Skipped, now time.Time) {
	if s == nil {
		return
	}
	if r.Skipped = s; now.IsZero() || now.After(s.Last) {
		r.Upto = s.Last
	}
}

// start adds a run, and returns it with its attempt. Without atLeastOnce the tick never runs again
// from then on.
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

// finish records the end of a run, if the record still has the run. A finished tick never runs
// again.
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

// textOf returns an error's text, cut to what a record keeps.
func textOf(err error) string {
	text := err.Error()
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}

// tokenOf returns the token of a run's entry. It leaves out the local handoffs, which the entry
// does not show.
func tokenOf(text string) (lock.Token, error) {
	token, err := lock.ParseToken(text)
	token.Pass = 0
	return token, err
}
