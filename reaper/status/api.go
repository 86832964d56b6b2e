package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/admin/jsonout"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Limits of one answer.
const (
	defaultRows = 100
	maxRows     = 500
	askTime     = 10 * time.Second // time limit of reading a single lock
)

func (s *Server) apiStatus(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.snapshot())
}

// locksAnswer is the answer of /api/v1/locks.
type locksAnswer struct {
	Complete  bool    `json:"complete"`  // each root's pass has ended without an error
	Truncated bool    `json:"truncated"` // there are more nodes than a pass visits
	Age       int64   `json:"age_ms"`    // time since the first of the locks was read, in milliseconds; 0 if none was read
	Error     string  `json:"error,omitempty"`
	Counts    []Count `json:"counts"`   // counts of all locks but the reapers', by root and policy
	Reapers   []Lock  `json:"reapers"`  // the locks of the active reapers, one for each root
	Matching  int     `json:"matching"` // number of locks that match the request
	Offset    int     `json:"offset"`
	Locks     []Lock  `json:"locks"` // the requested part of the matching locks
}

// Count has the numbers of locks and entries of one policy.
type Count struct {
	Root    string         `json:"root"`
	Policy  string         `json:"policy"`
	Locks   int            `json:"locks"`
	Held    int            `json:"held"`    // entries that hold their lock, without expired ones
	Waiting int            `json:"waiting"` // entries that wait
	Blocked int            `json:"blocked"` // locks with a waiter behind an expired or damaged entry
	States  map[string]int `json:"states"`  // locks by state
}

// blocked reports whether a waiter is behind an expired or damaged entry.
func (l *Lock) blocked() bool { return l.Waiting > 0 && (l.State == Expired || l.State == Damaged) }

// states are the values of the parameter state: the states of a lock's first entry, Waiting for
// locks with waiters, and "blocked" for locks with waiters behind an entry that blocks them.
var states = []string{Free, Held, Waiting, Entering, Expired, Foreign, Damaged, Denied, "blocked"}

// ask has the parameters of a request.
type ask struct {
	root, policy, state, text, order string
	offset, limit                    int
}

// parse parses the query of a request. It refuses unknown parameters: otherwise a typing mistake
// would show all locks.
func (a *ask) parse(query url.Values) error {
	a.order, a.limit = "policy", defaultRows
	for key, values := range query {
		value, err := values[len(values)-1], error(nil)
		switch key {
		case "root":
			a.root = value
		case "policy":
			a.policy = value
		case "state":
			a.state = value
			if value != "" && !slices.Contains(states, value) {
				err = fmt.Errorf("must be %s or %s", strings.Join(states[:len(states)-1], ", "), states[len(states)-1])
			}
		case "q":
			a.text = strings.ToLower(value)
		case "sort":
			a.order = value
			if !slices.Contains([]string{"policy", "name", "left", "queue"}, value) {
				err = fmt.Errorf("must be policy, name, left or queue")
			}
		case "offset":
			a.offset, err = number(value, 0, math.MaxInt32)
		case "limit":
			a.limit, err = number(value, 1, maxRows)
		default:
			err = errors.New("there is no such parameter: root, policy, state, q, sort, offset, limit")
		}
		if err != nil {
			return fmt.Errorf("%s %q: %w", key, value, err)
		}
	}
	return nil
}

func number(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("must be a number from %d to %d", least, most)
	}
	return n, nil
}

// wants reports whether a lock matches the request.
func (a *ask) wants(l *Lock) bool {
	state := a.state == "" || a.state == l.State || a.state == "blocked" && l.blocked() || a.state == Waiting && l.Waiting > 0
	return state && (a.root == "" || a.root == l.Root) && (a.policy == "" || a.policy == l.Policy) &&
		(a.text == "" || strings.Contains(strings.ToLower(l.Name), a.text))
}

// sort sorts locks in the requested order. "policy" means by root, then by the policy's name. Locks
// that are equal in this order stay in the order of their roots and names.
func (a *ask) sort(locks []*Lock) {
	slices.SortStableFunc(locks, func(l, m *Lock) int {
		switch a.order {
		case "policy":
			return cmp.Or(cmp.Compare(l.Root, m.Root), cmp.Compare(l.Policy, m.Policy))
		case "queue":
			return cmp.Compare(m.Waiting, l.Waiting)
		case "left":
			return cmp.Compare(l.left(), m.left())
		}
		return 0
	})
}

// left returns the rest of the lease of the lock's first entry, in milliseconds; the maximum if it is
// unknown.
func (l *Lock) left() int64 {
	if len(l.Entries) == 0 || l.Entries[0].Left == nil {
		return math.MaxInt64
	}
	return *l.Entries[0].Left
}

func (s *Server) apiLocks(w http.ResponseWriter, r *http.Request) {
	var a ask
	if err := a.parse(r.URL.Query()); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	answer := locksAnswer{Complete: true, Counts: []Count{}, Reapers: []Lock{}, Locks: []Lock{}, Offset: a.offset}
	var found []*Lock
	for _, root := range s.shown() {
		pass, err := s.look(r.Context(), root)
		if err != nil {
			answer.Error = err.Error()
		}
		if pass == nil {
			answer.Complete = false
			continue
		}
		locks, complete, truncated := pass.view()
		if i := slices.IndexFunc(locks, func(l *Lock) bool { return l.Name == root.Lock }); i >= 0 { // not listed
			answer.Reapers = append(answer.Reapers, locks[i].at(time.Now()))
			locks = slices.Delete(locks, i, i+1)
		}
		answer.Complete = answer.Complete && complete
		answer.Truncated = answer.Truncated || truncated
		answer.Age = max(answer.Age, time.Since(pass.since(locks)).Milliseconds())
		answer.Counts = append(answer.Counts, count(pass.label, locks)...)
		for _, l := range locks {
			if a.wants(l) {
				found = append(found, l)
			}
		}
	}
	a.sort(found)
	answer.Matching = len(found)
	from := min(a.offset, len(found))
	now := time.Now()
	for _, l := range found[from:min(len(found), from+a.limit)] {
		answer.Locks = append(answer.Locks, l.at(now))
	}
	writeJSON(w, http.StatusOK, answer)
}

// since returns when the first of the locks was read; the beginning of the pass if there is none.
func (r *reading) since(locks []*Lock) time.Time {
	first := r.begun
	for i, l := range locks {
		if i == 0 || l.read.Before(first) {
			first = l.read
		}
	}
	return first
}

// at returns a copy of the lock, with the time since it was read. It does not count the leases down,
// because they may have been renewed since.
func (l *Lock) at(now time.Time) Lock {
	shown := *l
	shown.Age = now.Sub(l.read).Milliseconds()
	return shown
}

// count returns the counts of each policy that has locks, sorted by the policies' names.
func count(root string, locks []*Lock) []Count {
	byPolicy := map[string]*Count{}
	for _, l := range locks {
		c := byPolicy[l.Policy]
		if c == nil {
			c = &Count{Root: root, Policy: l.Policy, States: map[string]int{}}
			byPolicy[l.Policy] = c
		}
		c.Locks++
		c.Held += l.Held
		c.Waiting += l.Waiting
		c.States[l.State]++
		if l.blocked() {
			c.Blocked++
		}
	}
	var counts []Count
	for _, policy := range slices.Sorted(maps.Keys(byPolicy)) {
		counts = append(counts, *byPolicy[policy])
	}
	return counts
}

// apiLock answers with the present state of one lock and the first maxQueue entries of its queue. It
// reads the lock, so it also finds locks that a pass leaves out.
func (s *Server) apiLock(w http.ResponseWriter, r *http.Request) {
	name, root := r.URL.Query().Get("name"), r.URL.Query().Get("root")
	if err := znode.CheckName(name); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	code, notFound := http.StatusNotFound, fmt.Errorf("lock %q: not found", name)
	for _, known := range s.shown() {
		if root != "" && root != known.label() {
			continue
		}
		reader, ok := s.reader(known.Root)
		if !ok { // it may be there
			code, notFound = http.StatusServiceUnavailable, errNoClient
			continue
		}
		ctx, cancel := context.WithTimeout(r.Context(), askTime)
		defer cancel()
		l, _, err := reader.lock(ctx, name, maxQueue)
		if err == nil && l != nil {
			err = reader.requests(ctx, l)
		}
		switch {
		case err != nil:
			writeError(w, http.StatusServiceUnavailable, err)
			return
		case l != nil:
			writeJSON(w, http.StatusOK, l.at(time.Now()))
			return
		}
	}
	writeError(w, code, notFound)
}

func writeError(w http.ResponseWriter, code int, err error) {
	writeJSON(w, code, struct {
		Error string `json:"error"`
	}{err.Error()})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = jsonout.Line(w, v, true) // an error means that the viewer has disconnected
}
