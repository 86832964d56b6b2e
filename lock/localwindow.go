package lock

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/rule"
)

// WithLocalWindow sets the time from an entry's grant for which goroutines of this client hand it
// off among themselves: see [Policy]. The goroutines must request the same lock with the same
// settings. A local handoff costs no request, and the next hold has its own token. After that time,
// and always with [NoLocalWindow], Unlock deletes the entry, and the same transaction creates the next
// goroutine's entry, at the end of the queue. Default [DefaultLocalWindow].
//
// A hold is never handed off locally if it
//
//   - is for reading, or a [Leadership],
//   - was extended or downgraded,
//   - has a [Hold.Ticket], or
//   - got a request by [Client.Revoke].
//
// Unless the policy has a max_hold, readers of an [RWMutex] share an entry if they wait when the
// entry is granted, or arrive within the window. Each reader has a hold of its own. [Stats] and
// observers count each of these holds.
func WithLocalWindow(d time.Duration) LockOption {
	var err error
	if broken := rule.Window(d); broken != "" {
		err = invalid("local_window", d, "%s", broken)
	}
	return policyOption(func(p *Policy) { p.LocalWindow = d }, err)
}
