package reaper

import "time"

// State is the state of a reaper.
type State string

// The states.
const (
	Disconnected State = "disconnected" // no session with ZooKeeper
	Standby      State = "standby"      // another reaper is the active one
	Active       State = "active"       // this reaper sweeps
)

// About describes a reaper in its first log line, and in its [Status].
type About struct {
	Name    string   `json:"name,omitempty"` // name of the root, if a process has several
	Version string   `json:"version,omitempty"`
	File    string   `json:"configuration,omitempty"` // path of the configuration file; "" if there is none
	Servers []string `json:"servers,omitempty"`
	Root    string   `json:"root"`
}

// Status is the status of a reaper at one moment. No request is needed to get it.
type Status struct {
	About
	Started time.Time `json:"started"`
	State   State     `json:"state"`
	Since   time.Time `json:"since"` // start of the state
	// ActiveSince is the time at which this reaper became the active one; zero while it stands by.
	// Results of sweeps before that time may be out of date.
	ActiveSince time.Time `json:"active_since,omitzero"`
	// NoRoot is true if this is the active reaper, the root was missing when it started, and no sweep
	// has found a lock since. Perhaps the programs use another root. LocksSeen is true if a sweep has
	// found a lock.
	NoRoot    bool `json:"no_root,omitempty"`
	LocksSeen bool `json:"locks_seen"`
	// ActiveReaper is the last known active reaper while this one stands by; otherwise "".
	ActiveReaper string `json:"active_reaper,omitempty"`
	// Leader is the reaper that holds the lock of the active reaper, this one or another, by the last
	// read; nil if there is none, or none is known since the session or the role has changed.
	Leader  *Leader `json:"leader,omitempty"`
	Session Session `json:"session"`
	// Schedules are the groups of policies that are swept together; none while this reaper does not
	// hold the lock of the active reaper.
	Schedules []Schedule `json:"schedules"`
	// Reports are the last sweeps, the oldest first: at most [KeptReports]. They have no paths of
	// nodes. Do not change their maps, which are shared.
	Reports []Report `json:"reports"`
	Sweeps  uint64   `json:"sweeps"`  // sweeps that have ended since the start, failed ones included
	Failed  uint64   `json:"failed"`  // incomplete sweeps since the start
	Skipped uint64   `json:"skipped"` // sweeps skipped because the last one was still running
	// LastFailure is the last failure of a sweep, of Run or of Dial; nil if there was none. Its
	// InARow is 0 if a sweep or a Dial has succeeded since, or this reaper is no longer active.
	LastFailure *Failure `json:"last_failure,omitempty"`
	// Reloads is the number of configurations put in force, without the first.
	Reloads uint64 `json:"reloads"`
	// Refused says why the last configuration was refused; nil if it was accepted.
	Refused *Failure `json:"refused,omitempty"`
}

// Overdue returns the groups with an overdue sweep: see [Schedule].
func (s Status) Overdue() []Schedule {
	var late []Schedule
	for _, g := range s.Schedules {
		if g.Overdue {
			late = append(late, g)
		}
	}
	return late
}

// Session is the state of the session with ZooKeeper.
type Session struct {
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"`        // start of the present state
	ID        string    `json:"id,omitempty"` // id of the present or last session, in hexadecimal
	Losses    uint64    `json:"losses"`       // losses of the session since the start
	// LastFailure says why the last attempt to connect has failed; "" if there is a session, or no
	// attempt has failed since there was one.
	LastFailure string `json:"last_failure,omitempty"`
	// Away is the total time without a session, in seconds, the present outage included.
	Away float64 `json:"away_seconds"`
}

// Schedule is a group of policies that are swept together.
type Schedule struct {
	Schedule string   `json:"schedule"`
	Policies []string `json:"policies"`
	// Last is the start of the last complete sweep since the schedule came into force or this reaper
	// became the active one, and Next the due time of the next sweep. Each is zero if there is none.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`
	// Overdue is true if no sweep has completed within the allowed delay, and no running sweep makes
	// progress. A slow sweep is not overdue. The allowed delay is the time between two sweeps, but at
	// least a minute and at most an hour. Late is the delay beyond it, in seconds.
	Overdue bool      `json:"overdue"`
	Late    float64   `json:"late_seconds"`
	Skipped int       `json:"skipped"`           // sweeps skipped in a row, because one was still running
	Failed  int       `json:"failed"`            // failed sweeps in a row
	Running *Progress `json:"running,omitempty"` // the running sweep; nil if there is none
}

// Progress is the progress of a running sweep.
type Progress struct {
	Began time.Time `json:"began"`
	Found int       `json:"found"` // known nodes to visit
	Done  int       `json:"done"`  // visited nodes
	// WaitsFor is what the sweep has waited for longest, such as "the list of /locks/a"; "" if it does
	// not wait. Waits is how long this wait has lasted, in seconds.
	WaitsFor string  `json:"waits_for,omitempty"`
	Waits    float64 `json:"waits_seconds"`
}

// Failure has the last failure, and the number of failures in a row.
type Failure struct {
	Error  string    `json:"error"`
	First  time.Time `json:"first"`    // first failure in the row
	Last   time.Time `json:"last"`     // last failure
	InARow int       `json:"in_a_row"` // number of failures since the last success
}

// then returns the failure after another error; f is nil if there was none before.
func (f *Failure) then(err error) *Failure {
	next := &Failure{Error: err.Error(), Last: time.Now(), InARow: 1}
	if next.First = next.Last; f != nil && f.InARow > 0 {
		next.First, next.InARow = f.First, f.InARow+1
	}
	return next
}

// over returns the failure after a success; nil if there was none.
func (f *Failure) over() *Failure {
	next := f.clone()
	if next != nil {
		next.InARow = 0
	}
	return next
}

func (f *Failure) clone() *Failure {
	if f == nil {
		return nil
	}
	c := *f
	return &c
}

// KeptReports is the largest number of reports in a [Status].
const KeptReports = 60
