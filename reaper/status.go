package reaper

import (
	"time"
)

// State is what a reaper does for a root.
type State string

// The states.
const (
	Disconnected State = "disconnected" // there is no session with ZooKeeper
	Standby      State = "standby"      // another reaper is the active one
	Active       State = "active"       // it sweeps
)

// About says what a reaper is: it stands in its first line in the log, and in its
// [Status].
type About struct {
	Name    string   `json:"name,omitempty"` // of the root, where a process has several
	Version string   `json:"version,omitempty"`
	File    string   `json:"configuration,omitempty"` // "" without one
	Servers []string `json:"servers,omitempty"`
	Root    string   `json:"root"`
}

// Status is what a reaper knows of itself at one moment. It asks no server.
type Status struct {
	About
	Started time.Time `json:"started"`
	State   State     `json:"state"`
	Since   time.Time `json:"since"` // when the state began
	// ActiveSince is when this reaper became the active one; zero while it stands by. What
	// sweeps have found that began before is not known to be so any more.
	ActiveSince time.Time `json:"active_since,omitzero"`
	// NoRoot says that there was no root when the reaper began, and that no sweep has seen a
	// lock since: perhaps the root is another one than that of the programs. LocksSeen says
	// that a sweep has seen one.
	NoRoot    bool `json:"no_root,omitempty"`
	LocksSeen bool `json:"locks_seen"`
	// ActiveReaper is the active reaper, as this one last saw it while standing by.
	ActiveReaper string  `json:"active_reaper,omitempty"`
	Session      Session `json:"session"`
	// Schedules are the groups of policies that are swept together, by their schedules.
	Schedules []Schedule `json:"schedules"`
	// Reports are the last sweeps, the oldest first: [KeptReports] at most, with no more
	// than the counts of them; they are shared, and to be read only.
	Reports []Report `json:"reports"`
	Sweeps  uint64   `json:"sweeps"`  // that have ended since the start, the failed ones too
	Failed  uint64   `json:"failed"`  // of those, the incomplete
	Skipped uint64   `json:"skipped"` // times that a sweep was not begun, the one before being under way
	// LastFailure is the last thing that has failed; nil if nothing has. InARow is 0 if
	// it has succeeded since.
	LastFailure *Failure `json:"last_failure,omitempty"`
	// Reloads are how often a configuration was put in force, the first not included.
	Reloads uint64 `json:"reloads"`
	// Refused is the last configuration that was not put in force, if none was since.
	Refused *Failure `json:"refused,omitempty"`
}

// Overdue returns the groups whose sweep is overdue: see [Schedule].
func (s Status) Overdue() []Schedule {
	var late []Schedule
	for _, g := range s.Schedules {
		if g.Overdue {
			late = append(late, g)
		}
	}
	return late
}

// Session is what is known of the session with ZooKeeper.
type Session struct {
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"`        // when it came, or went
	ID        string    `json:"id,omitempty"` // the present one's, or the last one's, in hexadecimal
	Losses    uint64    `json:"losses"`       // times that it was gone, since the start
	// Away is for how long there was none, in seconds, the present outage included.
	Away float64 `json:"away_seconds"`
}

// Schedule is a group of policies that are swept together.
type Schedule struct {
	Schedule string   `json:"schedule"`
	Policies []string `json:"policies"`
	// Last is when the last sweep that was complete began, and Next when the next one
	// is due; zero if there was, or will be, none: Next is while the reaper is active.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`
	// Overdue says that this reaper is the active one and should have completed a sweep
	// by now, and that none is getting on: not only slow. Late is by how many seconds.
	Overdue bool      `json:"overdue"`
	Late    float64   `json:"late_seconds"`
	Skipped int       `json:"skipped"`           // sweeps in a row that were not begun, the one before being under way
	Failed  int       `json:"failed"`            // sweeps in a row that failed
	Running *Progress `json:"running,omitempty"` // nil: none is under way
}

// Progress is how far a sweep is that is under way.
type Progress struct {
	Began time.Time `json:"began"`
	Found int       `json:"found"` // nodes that are to be visited, as far as is known by now
	Done  int       `json:"done"`  // of these, visited
	// WaitsFor is what it has waited for longest, such as "the list of /locks/a": a
	// request, a session, or its turn to delete. Waits is for how many seconds.
	WaitsFor string  `json:"waits_for,omitempty"`
	Waits    float64 `json:"waits_seconds"`
}

// Failure is something that failed, perhaps again and again.
type Failure struct {
	Error  string    `json:"error"`
	First  time.Time `json:"first"` // when it failed first, of this row
	Last   time.Time `json:"last"`  // and last
	InARow int       `json:"in_a_row"`
}

// KeptReports is how many reports a [Status] has.
const KeptReports = 60
