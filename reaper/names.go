package reaper

import (
	"strings"
	"sync"
)

// names are those of the nodes that are to be visited below another one. There can be a
// million: then they wait as a few long texts, which take half of the memory that so many
// strings do, and each of these is let go when its names were taken.
type names struct {
	mu   sync.Mutex
	now  []string // to be taken next
	rest []string // of so many names each, with slashes between them
}

// namesAtOnce is how many names stand in one text.
const namesAtOnce = 1024

// newNames takes over the names.
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

// take returns the next one, and whether there are more; none is "".
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
