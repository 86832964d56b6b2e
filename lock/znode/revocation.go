package znode

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Inbox is the name of the node below the root whose children are requests to release locks. Each
// child has the name of an entry whose release is requested. No lock can have this name.
const Inbox = ".revoke"

// MaxReason is the largest size of a [Revocation]'s reason, in bytes.
const MaxReason = 1 << 10

// Reserved reports whether the name is [EpochMark] or [Inbox], which no lock can have.
func Reserved(node string) bool { return node == EpochMark || node == Inbox }

// Revocation is the data of a child of [Inbox]: a request to release a lock.
type Revocation struct {
	Version int    `json:"holdfast"`         // version of the format
	Request string `json:"request"`          // random, unique to the request
	Entry   string `json:"entry"`            // path of the entry to release, relative to the root
	Owner   string `json:"owner"`            // owner of the client that requests
	Host    string `json:"host,omitempty"`   // host of that client
	PID     int    `json:"pid,omitempty"`    // process id of that client
	Reason  string `json:"reason,omitempty"` // for people
}

// Encode encodes the data in the current version, whatever r.Version is.
func (r Revocation) Encode() []byte {
	r.Version = Version
	return encode(r)
}

// DecodeRevocation decodes the data of the child of [Inbox] with that name. Its errors match
// [ErrNewer] or [ErrForeign].
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

// Lock returns the name of the lock to release.
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
