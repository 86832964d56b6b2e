package reaper

import (
	"strings"
	"sync"
)

// names is the list of child nodes that a sweep still has to visit. There can be a million. So names
// beyond namesAtOnce are joined into texts of namesAtOnce names each, which take half of the memory
// of separate strings. A text is freed when its names have been taken.
type names struct {
	mu   sync.Mutex
	now  []string // next names
	rest []string // texts of namesAtOnce names each, separated by slashes
}

// namesAtOnce is the number of names in one text.
const namesAtOnce = 1024

// newNames takes ownership of the names.
func newNames(all []string) *names {
	if len(all) <= namesAtOnce {
		return &names{now: all}
	}
	n := &names{rest: make([]string, 0, len(all)/namesAtOnce+1)}
	for at := 0; at < len(all); at += namesAtOnce {
		some := all[at:min(at+namesAtOnce, len(all))]
		n.rest = append(n.rest, strings.Join(some, "/"))
		clear(some)
	}
	return n
}

// take returns the next name, "" if there is none, and whether there are more.
func (n *names) take() (name string, more bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.now) == 0 && len(n.rest) > 0 {
		n.now = strings.Split(n.rest[0], "/")
		n.rest[0] = ""
		n.rest = n.rest[1:]
	}
	if len(n.now) == 0 {
		return "", false
	}
	name = n.now[0]
	n.now = n.now[1:]
	return name, len(n.now)+len(n.rest) > 0
}
