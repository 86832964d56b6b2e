package znode

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Inbox is the name of a node below the root. Its children ask holders to give up their
// locks: one child for each entry that is asked, of the same name. No lock can have that
// name.
const Inbox = ".revoke"

// MaxReason is how many bytes the reason of a [Revocation] has at most.
const MaxReason = 1 << 10

// Reserved reports whether a name is that of a node below the root that is no lock.
func Reserved(node string) bool { return node == EpochMark || node == Inbox }

// Revocation is the data of a child of [Inbox]: a client asks for a lock.
type Revocation struct {
	Version int    `json:"holdfast"`         // of the format
	Request string `json:"request"`          // random; no other has it
	Entry   string `json:"entry"`            // path of the entry that is asked, relative to the root
	Owner   string `json:"owner"`            // of the client that asks: name of the program
	Host    string `json:"host,omitempty"`   // that it runs on
	PID     int    `json:"pid,omitempty"`    // of its process there
	Reason  string `json:"reason,omitempty"` // for people
}

// Encode returns the data as it is written, in the current version.
func (r Revocation) Encode() []byte {
	r.Version = Version
	return encode(r)
}

// DecodeRevocation decodes the data of a child of [Inbox] that has that name. It fails
// with an error that is [ErrNewer] or [ErrForeign].
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
		return r, fmt.Errorf("%w: entry %.40q is not the one of the name %.40q", ErrForeign, r.Entry, node)
	}
	if err := CheckReason(r.Reason); err != nil {
		return r, fmt.Errorf("%w: %v", ErrForeign, err)
	}
	return r, nil
}

// Lock is the name of the lock that is asked for.
func (r Revocation) Lock() string {
	lock, _ := r.split()
	return lock
}

func (r Revocation) split() (lock, entry string) {
	at := max(0, strings.LastIndexByte(r.Entry, '/'))
	return r.Entry[:at], strings.TrimPrefix(r.Entry[at:], "/")
}

// CheckReason reports why reason cannot stand in a [Revocation], or nil.
func CheckReason(reason string) error {
	switch {
	case len(reason) > MaxReason:
		return fmt.Errorf("reason %.40q… has %d bytes: at most %d are allowed", reason, len(reason), MaxReason)
	case !utf8.ValidString(reason):
		return fmt.Errorf("reason %.40q is not valid UTF-8", reason)
	}
	return nil
}
