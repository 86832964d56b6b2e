package status

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/reaper"
)

// Problem is something that an operator should look at.
type Problem struct {
	Level string `json:"level"`
	Root  string `json:"root"`
	Text  string `json:"text"`
	Lock  string `json:"lock,omitempty"` // the lock that it is about, or the first of several
}

// The levels of problems.
const (
	bad  = "bad"  // locks are not cleaned up
	warn = "warn" // some are not
)

// problems tells what is wrong, what is worse first.
func (s Snapshot) problems() []Problem {
	worse, worth := []Problem{}, []Problem{}
	for _, r := range s.Roots {
		for _, text := range append(r.absent(s.Now), r.late()...) {
			worse = append(worse, Problem{Level: bad, Root: r.Label, Text: text})
		}
		worth = append(worth, r.incomplete()...)
	}
	return append(worse, worth...)
}

// absent tells of a session that is not there.
func (r RootState) absent(now time.Time) []string {
	if r.Session.Connected {
		return nil
	}
	return []string{fmt.Sprintf("no session with ZooKeeper for %v", max(0, now.Sub(r.Session.Since)).Round(time.Second))}
}

// overdue tells of a schedule whose sweep is overdue.
func overdue(g reaper.Schedule) string {
	return fmt.Sprintf("sweeps of %s are overdue by %v", strings.Join(g.Policies, ", "), seconds(g.Late))
}

// late tells of sweeps that are overdue, and what they wait for.
func (r RootState) late() []string {
	var late []string
	for _, g := range r.Overdue() {
		text := overdue(g)
		if g.Running != nil && g.Running.WaitsFor != "" {
			text += fmt.Sprintf("; the one under way has waited for %v for %s", seconds(g.Running.Waits), g.Running.WaitsFor)
		}
		late = append(late, text)
	}
	return late
}

// incomplete tells of what sweeps could not do.
func (r RootState) incomplete() []Problem {
	var wrong []Problem
	about := func(lock, text string) {
		wrong = append(wrong, Problem{Level: warn, Root: r.Label, Text: text, Lock: lock})
	}
	add := func(format string, args ...any) { about("", fmt.Sprintf(format, args...)) }
	if r.Refused != nil {
		add("the configuration was not reloaded, the one before is in force: %s", r.Refused.Error)
	}
	if r.NoRoot {
		add("%s was not there when this reaper began, and no lock was seen below it since: it is another root than that of the programs, or none of them has taken a lock yet", r.Root)
	}
	switch f := r.LastFailure; {
	case f == nil || f.InARow == 0:
	case f.InARow == 1:
		add("failed: %s", f.Error)
	default:
		add("failed %d times in a row: %s", f.InARow, f.Error)
	}
	for _, p := range r.Policies {
		if p.Last == nil {
			continue
		}
		if n := p.Last.Undecodable; n > 0 {
			about(p.damaged, fmt.Sprintf("%s of %s: damaged or of a newer version; %s", nodes(n), p.Name, blocks(n, p.damaged)))
		}
		if n := p.Last.Format1; n > 0 {
			about(p.format1, fmt.Sprintf("%s of %s: of format 1, from before the first release; %s", nodes(n), p.Name, blocks(n, p.format1)))
		}
		if n := p.Last.Denied; n > 0 {
			about(p.denied, fmt.Sprintf("%s of %s: denied to the reaper by ACL%s", nodes(n), p.Name, suchAs(n, p.denied)))
		}
	}
	return wrong
}

// blocks says what so many nodes block.
func blocks(n int, first string) string {
	if n == 1 {
		return "it blocks its lock" + suchAs(n, first)
	}
	return "they block their locks" + suchAs(n, first)
}

// suchAs names the lock of one node, or the first lock of several.
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

// healthy fails when sweeps are overdue: then a restart may help. A reaper that stands by
// has none to do, and in an outage none is overdue at first. What a sweep waits for may be the
// name of a lock, which is for the page alone.
func (s *Server) healthy(w http.ResponseWriter, _ *http.Request) {
	var wrong []string
	for _, r := range s.shown() {
		for _, g := range r.Monitor.Status().Overdue() {
			wrong = append(wrong, r.label()+": "+overdue(g))
		}
	}
	answer(w, wrong)
}

// ready fails while there is a root without a session.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	var wrong []string
	for _, r := range s.shown() {
		state := RootState{Status: r.Monitor.Status(), Label: r.label()}
		if state.State == reaper.Disconnected || !state.Session.Connected {
			wrong = append(wrong, fmt.Sprintf("%s: no session with ZooKeeper for %v", state.Label, time.Since(state.Session.Since).Round(time.Second)))
		}
	}
	answer(w, wrong)
}

// answer answers a probe: 503 with what is wrong, one in each line, or 200.
func answer(w http.ResponseWriter, wrong []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(wrong) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, strings.Join(wrong, "\n"))
		return
	}
	fmt.Fprintln(w, "ok")
}
