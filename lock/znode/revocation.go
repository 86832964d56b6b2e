package znode

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Inbox is the name of the node below the root whose children are requests to release locks. Each
// child has the name of the entry that is asked. No lock can have this name.
const Inbox = ".revoke"

// MaxReason is the largest size of a [Revocation]'s reason, in bytes.
const MaxReason = 1 << 10

// Reserved reports whether the name is that of a node below the root that is no lock.
func Reserved(node string) bool { return node == EpochMark || node == Inbox }

// Revocation is the data of a child of [Inbox]: a request to release a lock.
type Revocation struct {
	Version int    `json:"holdfast"`         // version of the format
	Request string `json:"request"`          // random, unique
	Entry   string `json:"entry"`            // path of the asked entry, relative to the root
	Owner   string `json:"owner"`            // name of the program that asks
	Host    string `json:"host,omitempty"`   // its host
	PID     int    `json:"pid,omitempty"`    // its process id
	Reason  string `json:"reason,omitempty"` // for people
}

// Encode encodes the data in the current version.
func (r Revocation) Encode() []byte {
	r.Version = Version
	return encode(r)
}

// DecodeRevocation decodes the data of the child of [Inbox] with that name. Its errors match
// [ErrNewer], [ErrOlder] or [ErrForeign].
func DecodeRevocation(node string, data []byte) (Revocation, error) {
	var r Revocation
	if err := decode(data, &r, &r.Version); err != nil {
		return r, err
	}
	lock, entry := r.split()
	name, ok := Parse(entry)
	switch {
	case CheckName(lock) != nil:
		return r, fmt.Errorf("%w: entry %.40q: %v", ErrForeign, r.Entry, CheckName(lock))
	case !ok || !name.Ours() || entry != node:
		return r, fmt.Errorf("%w: entry %.40q does not have the name %.40q", ErrForeign, r.Entry, node)
	}
	if err := CheckReason(r.Reason); err != nil {
		return r, fmt.Errorf("%w: %v", ErrForeign, err)
	}
	return r, nil
}

// Lock returns the name of the requested lock.
func (r Revocation) Lock() string {
	lock, _ := r.split()
	return lock
}

func (r Revocation) split() (lock, entry string) {
	at := max(0, strings.LastIndexByte(r.Entry, '/'))
	return r.Entry[:at], strings.TrimPrefix(r.Entry[at:], "/")
}

// CheckReason returns an error if a [Revocation] cannot have that reason.
func CheckReason(reason string) error {
	switch {
	case len(reason) > MaxReason:
		return fmt.Errorf("reason %.40q… has %d bytes: at most %d are allowed", reason, len(reason), MaxReason)
	case !utf8.ValidString(reason):
		return fmt.Errorf("reason %.40q is not valid UTF-8", reason)
	}
	return nil
}
