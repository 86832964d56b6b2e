package status

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/reaper"
)

// Problem is a problem that needs an operator's attention.
type Problem struct {
	Level string `json:"level"` // "bad" or "warn"
	Root  string `json:"root"`
	Text  string `json:"text"`
	Lock  string `json:"lock,omitempty"` // the lock with the problem, or the first of several
}

// The levels of problems.
const (
	bad  = "bad"  // there is no session, or sweeps are overdue
	warn = "warn" // any other problem
)

// problems returns all problems, the worse ones first.
func (s Snapshot) problems() []Problem {
	all := []Problem{}
	for _, r := range s.Roots {
		all = append(all, r.problems(s.Now)...)
	}
	// The text "bad" sorts before "warn".
	slices.SortStableFunc(all, func(p, q Problem) int { return strings.Compare(p.Level, q.Level) })
	return all
}

func (r RootState) problems(now time.Time) []Problem {
	var found []Problem
	about := func(level, lock, format string, args ...any) {
		found = append(found, Problem{Level: level, Root: r.Label, Text: fmt.Sprintf(format, args...), Lock: lock})
	}
	if !r.Session.Connected {
		about(bad, "", "%s", noSession(r.Session, now))
	}
	for _, g := range r.Overdue() {
		text := overdue(g)
		if g.Running != nil && g.Running.WaitsFor != "" {
			text += fmt.Sprintf("; the one under way has waited for %v for %s", seconds(g.Running.Waits), g.Running.WaitsFor)
		}
		about(bad, "", "%s", text)
	}
	if r.Refused != nil {
		about(warn, "", "configuration: not reloaded since %s, the one before is in force: %s", r.Refused.First.UTC().Format(time.RFC3339), r.Refused.Error)
	}
	if l := r.Leader; l != nil && l.Late && r.Session.Connected {
		about(warn, "", "%s, the active reaper, has not renewed its lease for %v, and renews each third of %v: nothing may be swept; another reaper takes over when the lease and the grace have ended", leaderName(l), seconds(l.LeaseAge), seconds(l.TTL))
	}
	if r.NoRoot && !r.seen {
		about(warn, "", "%s was not there when this reaper began, and no lock was seen below it since: it is another root than that of the programs, or none of them has taken a lock yet", r.Root)
	}
	switch f := r.LastFailure; {
	case f == nil || f.InARow == 0:
	case f.InARow == 1:
		about(warn, "", "failed: %s", f.Error)
	default:
		about(warn, "", "failed %d times in a row: %s", f.InARow, f.Error)
	}
	for _, p := range r.Policies {
		if p.Last == nil {
			continue
		}
		if n := p.Last.Undecodable; n > 0 {
			about(warn, p.damaged, "%s of %s: damaged or of a newer version; %s", nodes(n), p.Name, blocks(n, p.damaged))
		}
		if n := p.Last.Denied; n > 0 {
			about(warn, p.denied, "%s of %s: denied to the reaper by ACL%s", nodes(n), p.Name, suchAs(n, p.denied))
		}
	}
	return found
}

// leaderName names the active reaper, with its host and process.
func leaderName(l *reaper.Leader) string {
	switch {
	case l.Self:
		return "this reaper"
	case l.Owner == "":
		return "another library's or release's entry"
	}
	return fmt.Sprintf("%s (host %s, pid %d)", l.Owner, l.Host, l.PID)
}

// noSession returns a text that says how long there has been no session.
func noSession(s reaper.Session, now time.Time) string {
	text := fmt.Sprintf("no session with ZooKeeper for %v", max(0, now.Sub(s.Since)).Round(time.Second))
	if s.LastFailure != "" {
		text += "; last failure: " + s.LastFailure
	}
	return text
}

// overdue returns a text with the policies of an overdue schedule, and the delay.
func overdue(g reaper.Schedule) string {
	return fmt.Sprintf("sweeps of %s are overdue by %v", strings.Join(g.Policies, ", "), seconds(g.Late))
}

// blocks returns a text that says that n nodes block their locks, and names the first lock.
func blocks(n int, first string) string {
	if n == 1 {
		return "it blocks its lock" + suchAs(n, first)
	}
	return "they block their locks" + suchAs(n, first)
}

// suchAs returns a text that names the lock of one node, or the first lock of several; "" if the name
// is unknown.
func suchAs(n int, first string) string {
	switch {
	case first == "":
		return ""
	case n == 1:
		return fmt.Sprintf(", %q", first)
	}
	return fmt.Sprintf(", such as %q", first)
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// healthy answers /healthz. It fails if sweeps are overdue, because a restart may help. A reaper that
// stands by has no sweeps, and at the beginning of an outage none is overdue. The answer does not say
// what a sweep waits for: the text may include the name of a lock, which /healthz must not show.
func (s *Server) healthy(w http.ResponseWriter, _ *http.Request) {
	var wrong []string
	for _, r := range s.shown() {
		for _, g := range r.Monitor.Status().Overdue() {
			wrong = append(wrong, r.label()+": "+overdue(g))
		}
	}
	answer(w, wrong)
}

// ready answers /readyz. It fails while a root has no session.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	var wrong []string
	for _, r := range s.shown() {
		if session := r.Monitor.Status().Session; !session.Connected {
			wrong = append(wrong, r.label()+": "+noSession(session, time.Now()))
		}
	}
	answer(w, wrong)
}

// answer answers a probe: with 503 and the problems, one on each line, or with 200 if there is none.
func answer(w http.ResponseWriter, wrong []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(wrong) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, strings.Join(wrong, "\n"))
		return
	}
	fmt.Fprintln(w, "ok")
}
