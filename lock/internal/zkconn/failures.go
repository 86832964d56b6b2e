package zkconn

import (
	"slices"
	"strings"
	"sync"
)

// mostFailures is the number of failures that an error names.
const mostFailures = 3

// failedTry is why the last attempt to connect to an address has failed.
type failedTry struct {
	address string
	error
	reached bool // a server is there, and does not serve; or the login that it requires has failed
}

// failedTries has the last failure at each address of this round since there was a session, the latest
// first.
type failedTries struct {
	mu   sync.Mutex
	last []failedTry
}

func (f *failedTries) note(latest failedTry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = slices.DeleteFunc(f.last, func(old failedTry) bool { return old.address == latest.address })
	f.last = slices.Insert(f.last, 0, latest)
}

// keep forgets the failures at all other addresses.
func (f *failedTries) keep(addresses []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = slices.DeleteFunc(f.last, func(old failedTry) bool { return !slices.Contains(addresses, old.address) })
}

func (f *failedTries) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = nil
}

// err returns the failures, at most mostFailures; nil if there is none. Those of servers that were reached
// come first, because they say most, and then the latest.
func (f *failedTries) err() error {
	f.mu.Lock()
	told := slices.Clone(f.last)
	f.mu.Unlock()
	slices.SortStableFunc(told, func(a, b failedTry) int {
		switch {
		case a.reached == b.reached:
			return 0
		case a.reached:
			return -1
		}
		return 1
	})
	told = told[:min(len(told), mostFailures)]
	switch len(told) {
	case 0:
		return nil
	case 1:
		return told[0].error
	}
	errs := make(severalFailures, len(told))
	for i, each := range told {
		errs[i] = each.error
	}
	return errs
}

// severalFailures are the failures at several addresses, on one line.
type severalFailures []error

func (s severalFailures) Unwrap() []error { return s }

func (s severalFailures) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}
