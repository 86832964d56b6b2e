package status

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/reaper"
)

// Problem is a problem that needs an operator's attention.
type Problem struct {
	Level string `json:"level"`
	Root  string `json:"root"`
	Text  string `json:"text"`
	Lock  string `json:"lock,omitempty"` // its lock, or the first of several
}

// The levels of problems.
const (
	bad  = "bad"  // locks are not cleaned up
	warn = "warn" // some locks are not cleaned up
)

// problems returns all problems, the worse ones first.
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

// absent returns a text if there is no session.
func (r RootState) absent(now time.Time) []string {
	if r.Session.Connected {
		return nil
	}
	return []string{fmt.Sprintf("no session with ZooKeeper for %v", max(0, now.Sub(r.Session.Since)).Round(time.Second))}
}

// overdue returns a text about a schedule with an overdue sweep.
func overdue(g reaper.Schedule) string {
	return fmt.Sprintf("sweeps of %s are overdue by %v", strings.Join(g.Policies, ", "), seconds(g.Late))
}

// late returns texts about overdue sweeps, and what they wait for.
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

// incomplete returns the problems that sweeps have met.
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

// blocks returns a text about the locks that n nodes block.
func blocks(n int, first string) string {
	if n == 1 {
		return "it blocks its lock" + suchAs(n, first)
	}
	return "they block their locks" + suchAs(n, first)
}

// suchAs returns the lock of a single node, or the first lock of several.
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

// healthy fails if sweeps are overdue: then a restart may help. A reaper that stands by has no
// sweeps, and at the beginning of an outage none is overdue. The answer does not say what a sweep
// waits for: that may include the name of a lock, which only the page may show.
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

// answer answers a probe: with 503 and the problems, one in each line, or with 200.
func answer(w http.ResponseWriter, wrong []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(wrong) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, strings.Join(wrong, "\n"))
		return
	}
	fmt.Fprintln(w, "ok")
}
