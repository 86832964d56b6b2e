package znode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ValueKey is the metadata key of a candidate's value.
const ValueKey = "election.value"

// Version is the version of the format that this package writes.
const Version = 2

// Limits of an entry. Data beyond maxData, maxTime or maxTTL is foreign.
const (
	MaxOwner    = 256                         // bytes of an owner's name
	MaxMetadata = 4 << 10                     // bytes of all keys and values together
	MaxPairs    = 64                          // pairs in the metadata
	maxData     = 32 << 10                    // bytes of a node's data
	maxTime     = 1<<53 - 1                   // Unix ms; every JSON parser has numbers this large
	maxTTL      = 10 * 365 * 24 * 3600 * 1000 // ms
)

// Errors of this package's Decode functions. Clients wait for an entry whose data causes one of
// these errors, and refuse a lock's node whose data does.
var (
	// ErrForeign says that the data is not Holdfast's, or damaged.
	ErrForeign = errors.New("not Holdfast's data")
	// ErrNewer says that the data is of a later version of the format.
	ErrNewer = errors.New("data of a newer version of Holdfast")
)

// Record is the data of an entry. Times are Unix milliseconds in ensemble time.
type Record struct {
	Version int    `json:"holdfast"`       // version of the format
	Owner   string `json:"owner"`          // name of the program, or another name it chose
	Host    string `json:"host,omitempty"` // host of the program
	PID     int    `json:"pid,omitempty"`  // process id of the program
	TTL     int64  `json:"ttl_ms"`         // length of the lease after each write, in ms
	// ExpiresAt is an estimate for people; it is wrong after a change of the leader. 0: the owner
	// did not know the time. AcquiredAt is the time of the grant; 0: none is recorded.
	ExpiresAt  int64 `json:"expires_at"`
	AcquiredAt int64 `json:"acquired_at,omitempty"`
	// Shared says that a writer was downgraded: it only reads, so readers may enter. It is never
	// reset.
	Shared  bool   `json:"shared,omitempty"`
	Attempt string `json:"attempt,omitempty"` // random, unique to the request that created the entry
	// Incarnation counts the attaches. Detached says that no process has the entry, and that a
	// client may attach with its ticket. Attachment is random; a client that attaches recognizes
	// its own writes by it.
	Incarnation int32             `json:"incarnation,omitempty"`
	Detached    bool              `json:"detached,omitempty"`
	Attachment  string            `json:"attachment,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"` // pairs that the owner chose
	Broken      *Broken           `json:"broken,omitempty"`   // nil: the hold was not force-released
}

// Broken says which client force-released a hold, and why. That client writes Broken into the
// record of the hold; the hold's owner never does.
type Broken struct {
	Owner  string `json:"owner"` // owner in that client's own records
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// String returns a text that is safe on a terminal.
func (b *Broken) String() string {
	s := fmt.Sprintf("by %s (host %s, pid %d)", printable(b.Owner), printable(b.Host), b.PID)
	if b.Reason != "" {
		s += ": " + printable(b.Reason)
	}
	return s
}

// printable quotes another client's text if it could disturb a terminal.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Granted reports whether the record shows a grant.
func (r *Record) Granted() bool { return r.AcquiredAt > 0 }

// Encode encodes the record in the current version, whatever r.Version is. The bytes are those of
// encoding/json, with blanks before the last brace: see room. Encode avoids reflection, except for
// Metadata and Broken, because it runs for each lock and each renewal.
func (r *Record) Encode() []byte {
	b := make([]byte, 0, 256)
	b = appendInt(b, `{"holdfast":`, Version)
	b = appendString(b, `,"owner":`, r.Owner)
	if r.Host != "" {
		b = appendString(b, `,"host":`, r.Host)
	}
	if r.PID != 0 {
		b = appendInt(b, `,"pid":`, int64(r.PID))
	}
	b = appendInt(b, `,"ttl_ms":`, r.TTL)
	b = appendInt(b, `,"expires_at":`, r.ExpiresAt)
	if r.AcquiredAt != 0 {
		b = appendInt(b, `,"acquired_at":`, r.AcquiredAt)
	}
	if r.Shared {
		b = append(b, `,"shared":true`...)
	}
	if r.Attempt != "" {
		b = appendString(b, `,"attempt":`, r.Attempt)
	}
	if r.Incarnation != 0 {
		b = appendInt(b, `,"incarnation":`, int64(r.Incarnation))
	}
	if r.Detached {
		b = append(b, `,"detached":true`...)
	}
	if r.Attachment != "" {
		b = appendString(b, `,"attachment":`, r.Attachment)
	}
	if len(r.Metadata) > 0 {
		b = append(append(b, `,"metadata":`...), encode(r.Metadata)...)
	}
	if r.Broken != nil {
		b = append(append(b, `,"broken":`...), encode(r.Broken)...)
	}
	for range r.room() {
		b = append(b, ' ')
	}
	return append(b, '}')
}

// room returns the number of bytes that the times will take once they are known. Encode fills it, so that
// a grant and the renewals after it keep the record's length: where a quota of bytes is used up, a
// server refuses any other length, and the lease would end.
func (r *Record) room() (n int) {
	const digits = 13 // of the time in ms, until the year 2286
	n = max(0, digits-len(strconv.FormatInt(r.ExpiresAt, 10)))
	if r.AcquiredAt == 0 {
		n += len(`,"acquired_at":`) + digits
	}
	return n
}

// DecodeRecord decodes the data of an entry. Its errors match [ErrNewer] or
// [ErrForeign]. With an error it still returns the fields that it could read.
func DecodeRecord(data []byte) (Record, error) {
	var r Record
	if err := decode(data, &r, &r.Version); err != nil {
		return r, err
	}
	return r, r.check()
}

func (r *Record) check() error {
	switch {
	case r.TTL <= 0 || r.TTL > maxTTL:
		return fmt.Errorf("%w: ttl_ms %d is not within 1..%d", ErrForeign, r.TTL, int64(maxTTL))
	case r.ExpiresAt < 0 || r.ExpiresAt > maxTime:
		return fmt.Errorf("%w: expires_at %d is not within 0..%d", ErrForeign, r.ExpiresAt, int64(maxTime))
	case r.AcquiredAt < 0 || r.AcquiredAt > maxTime:
		return fmt.Errorf("%w: acquired_at %d is not within 0..%d", ErrForeign, r.AcquiredAt, int64(maxTime))
	case r.Attempt != "" && (len(r.Attempt) != idLength || !isID(r.Attempt)):
		return fmt.Errorf("%w: attempt %.40q is no id", ErrForeign, r.Attempt)
	case r.Incarnation < 0:
		return fmt.Errorf("%w: incarnation %d is negative", ErrForeign, r.Incarnation)
	}
	return nil
}

// CheckOwner returns an error if a record cannot have that owner.
func CheckOwner(owner string) error {
	switch {
	case owner == "":
		return errors.New("owner is empty")
	case len(owner) > MaxOwner:
		return fmt.Errorf("owner %.40q… has %d bytes: at most %d are allowed", owner, len(owner), MaxOwner)
	case !utf8.ValidString(owner):
		return fmt.Errorf("owner %q is not valid UTF-8", owner)
	}
	return nil
}

// CheckMetadata returns an error if a record cannot have that metadata.
func CheckMetadata(m map[string]string) error {
	if len(m) > MaxPairs {
		return fmt.Errorf("metadata has %d pairs: at most %d are allowed", len(m), MaxPairs)
	}
	size := 0
	for k, v := range m {
		switch {
		case k == "":
			return fmt.Errorf("metadata has an empty key with the value %q", v)
		case !utf8.ValidString(k) || !utf8.ValidString(v):
			return fmt.Errorf("metadata %q: %q is not valid UTF-8", k, v)
		}
		size += len(k) + len(v)
	}
	if size > MaxMetadata {
		return fmt.Errorf("metadata has %d bytes: at most %d are allowed", size, MaxMetadata)
	}
	return nil
}

// Kind is the kind of a lock, or of another node of Holdfast.
type Kind string

// The kinds.
const (
	Dir        Kind = "dir"    // an ancestor of locks
	Mark       Kind = "epoch"  // the node [EpochMark]
	Asked      Kind = "asked"  // the node [Inbox]
	AnchorKind Kind = "anchor" // the anchor of a lock's parent
	Mutex      Kind = "mutex"  // one holder
	RW         Kind = "rw"     // many readers, or one writer

	Semaphore Kind = "semaphore" // as many holders as there are permits
)

// IsLock reports whether k is the kind of a lock's parent.
func (k Kind) IsLock() bool { return k == Mutex || k == RW || k == Semaphore }

// Parent is the data of a lock's parent, or of an ancestor. The data of a parent does not change
// while its anchor, of its generation, exists.
type Parent struct {
	Version int  `json:"holdfast"` // version of the format
	Kind    Kind `json:"kind"`     // kind of the lock, or Dir
	// Generation is random, new for the request that created or adopted the parent. It is part of
	// the names of the anchor and the entries.
	Generation string `json:"generation,omitempty"`
	// Adopted says that Holdfast did not create the node, which had no data. The last client to
	// leave deletes an adopted node only if the node's counter is at its end.
	Adopted bool `json:"adopted,omitempty"`
}

// Encode encodes the data in the current version, as [Record.Encode] does.
func (p Parent) Encode() []byte {
	b := make([]byte, 0, 96)
	b = appendInt(b, `{"holdfast":`, Version)
	b = appendString(b, `,"kind":`, string(p.Kind))
	if p.Generation != "" {
		b = appendString(b, `,"generation":`, p.Generation)
	}
	if p.Adopted {
		b = append(b, `,"adopted":true`...)
	}
	return append(b, '}')
}

// DecodeParent decodes the data of a lock's parent or of an ancestor. Empty data gives the zero
// Parent. Its errors match [ErrNewer] or [ErrForeign].
func DecodeParent(data []byte) (Parent, error) {
	if len(data) == 0 {
		return Parent{}, nil
	}
	var p Parent
	if err := decode(data, &p, &p.Version); err != nil {
		return p, err
	}
	switch {
	case p.Kind == "":
		return p, fmt.Errorf("%w: no kind", ErrForeign)
	case p.Generation != "" && (len(p.Generation) != idLength || !isID(p.Generation)):
		return p, fmt.Errorf("%w: generation %.40q is no id", ErrForeign, p.Generation)
	}
	return p, nil
}

// AnchorData is the data of an anchor. It has the number of permits if the lock is a semaphore.
type AnchorData struct {
	Version int   `json:"holdfast"`          // version of the format
	Kind    Kind  `json:"kind"`              // AnchorKind
	Permits int32 `json:"permits,omitempty"` // original number of a semaphore's permits
	Resized int32 `json:"resized,omitempty"` // present number of permits; 0: the original one
	Single  bool  `json:"single,omitempty"`  // each contender that has joined asks for one permit
}

// Capacity returns the present number of a semaphore's permits.
func (a AnchorData) Capacity() int32 {
	if a.Resized != 0 {
		return a.Resized
	}
	return a.Permits
}

// Encode encodes the data in the current version, whatever a.Version and a.Kind are.
func (a AnchorData) Encode() []byte {
	a.Version, a.Kind = Version, AnchorKind
	return encode(a)
}

// DecodeAnchor decodes the data of an anchor. It fails as [DecodeParent] does.
func DecodeAnchor(data []byte) (AnchorData, error) {
	var a AnchorData
	if err := decode(data, &a, &a.Version); err != nil {
		return a, err
	}
	switch {
	case a.Kind != AnchorKind:
		return a, fmt.Errorf("%w: kind %.40q, not that of an anchor", ErrForeign, a.Kind)
	case a.Permits < 0 || a.Permits > MaxPermits || a.Resized < 0 || a.Resized > MaxPermits:
		return a, fmt.Errorf("%w: a semaphore of %d permits, resized to %d: not within 0..%d", ErrForeign, a.Permits, a.Resized, MaxPermits)
	}
	return a, nil
}

func appendInt(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(append(b, key...), n, 10)
}

func appendString(b []byte, key, s string) []byte {
	b = append(b, key...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, encode(s)...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings, numbers and a map of strings always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// decode decodes data into v. version points to the field of v for the format's version.
func decode(data []byte, v any, version *int) error {
	if len(data) > maxData {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrForeign, len(data), maxData)
	}
	if json.Unmarshal(data, v) == nil && *version == Version {
		return nil
	}
	// Read the version alone: a later one may have changed the type of any field.
	var marker struct {
		Version int `json:"holdfast"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&marker); err != nil {
		return fmt.Errorf("%w: %.200v", ErrForeign, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: more than one value", ErrForeign)
	}
	switch {
	case marker.Version < Version:
		return fmt.Errorf("%w: no marker of a version that a release has written", ErrForeign)
	case marker.Version > Version:
		*version = marker.Version
		return fmt.Errorf("%w: version %d, this release knows %d", ErrNewer, marker.Version, Version)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %.200v", ErrForeign, err)
	}
	return nil
}
