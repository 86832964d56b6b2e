package znode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ValueKey is the key in the metadata of a candidate's entry under which its value stands.
const ValueKey = "election.value"

// Version is the version of the format that this package writes.
const Version = 2

// Limits of what an entry may hold. Data beyond them is not ours.
const (
	MaxOwner    = 256       // bytes of an owner's name
	MaxMetadata = 4 << 10   // bytes of all keys and values together
	MaxPairs    = 64        // pairs in the metadata
	maxData     = 32 << 10  // bytes of a node's data
	maxTime     = 1<<53 - 1 // Unix ms; what JSON numbers carry everywhere
	maxTTL      = 10 * 365 * 24 * 3600 * 1000
)

// What [DecodeRecord] and [DecodeParent] fail with.
var (
	// ErrForeign says that the data is not ours, or damaged.
	ErrForeign = errors.New("not Holdfast's data")
	// ErrNewer says that the data is of a later version of the format.
	ErrNewer = errors.New("data of a newer version of Holdfast")
	// ErrOlder says that the data is of format 1, which only versions before the first release wrote.
	ErrOlder = errors.New("data of format 1, from before the first release")
)

// Record is the data of an entry. Times are Unix milliseconds in ensemble time.
type Record struct {
	Version    int    `json:"holdfast"`              // of the format
	Owner      string `json:"owner"`                 // name of the program, or what it calls itself
	Host       string `json:"host,omitempty"`        // that it runs on
	PID        int    `json:"pid,omitempty"`         // of its process there
	TTL        int64  `json:"ttl_ms"`                // the lease that each write begins anew, in ms
	ExpiresAt  int64  `json:"expires_at"`            // for people, wrong after a change of the leader; 0: its owner did not know the time
	AcquiredAt int64  `json:"acquired_at,omitempty"` // 0: no grant recorded
	Shared     bool   `json:"shared,omitempty"`      // a writer's: it only reads since, and readers may enter; never taken back
	Attempt    string `json:"attempt,omitempty"`     // random, of the request that made the entry: no other has it
	// Incarnation counts how often the entry was handed to another process. Detached says that
	// no process has it, and that the holder of its ticket may attach. Attachment is random;
	// by it the client that attaches knows its own writes.
	Incarnation int32             `json:"incarnation,omitempty"`
	Detached    bool              `json:"detached,omitempty"`
	Attachment  string            `json:"attachment,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"` // the owner's own
	Broken      *Broken           `json:"broken,omitempty"`   // set by the client that force-released the hold; nil: its owner wrote it
}

// Broken says which client ended the hold of another, and why. It stands in the record of
// that hold, whose owner has not written that version.
type Broken struct {
	Owner  string `json:"owner"` // of the client that has broken it
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// String says it in words, harmless on a terminal.
func (b *Broken) String() string {
	s := fmt.Sprintf("by %s (host %s, pid %d)", printable(b.Owner), printable(b.Host), b.PID)
	if b.Reason != "" {
		s += ": " + printable(b.Reason)
	}
	return s
}

// printable quotes a text of another client if it could disturb a terminal.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Granted reports whether a grant was recorded: the entry's owner holds the lock.
func (r *Record) Granted() bool { return r.AcquiredAt > 0 }

// Encode returns the record as it is written, in the current version: the bytes that
// encoding/json makes of it, without its detour by reflection, because it is done for
// each lock and each renewal.
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
	return append(b, '}')
}

// DecodeRecord decodes the data of an entry. It fails with an error that is [ErrNewer],
// [ErrOlder] or [ErrForeign], and then returns what it could read all the same. With
// ErrOlder that is a sound record.
func DecodeRecord(data []byte) (Record, error) {
	var r Record
	err := decode(data, &r, &r.Version)
	if err != nil && !errors.Is(err, ErrOlder) {
		return r, err
	}
	return r, cmp.Or(r.check(), err)
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

// CheckOwner reports why owner cannot stand in a record, or nil.
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

// CheckMetadata reports why m cannot stand in a record, or nil.
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

// Kind is the kind of a lock, or [Dir].
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

// Parent is the data of a lock's parent, or of an ancestor. It does not change while an
// anchor of its generation is there.
type Parent struct {
	Version    int    `json:"holdfast"`             // of the format
	Kind       Kind   `json:"kind"`                 // of the lock, or Dir
	Generation string `json:"generation,omitempty"` // random, of the request that made the parent, or adopted it; names its anchor and entries
	Adopted    bool   `json:"adopted,omitempty"`    // found empty, not made by Holdfast: never deleted but at the counter's end
}

// Encode returns the data as it is written, in the current version, as
// [Record.Encode] does.
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

// DecodeParent decodes the data of a lock's parent or of an ancestor. Empty data
// has no owner and gives the zero Parent. Otherwise it fails with an error that is
// [ErrNewer], [ErrOlder] or [ErrForeign].
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

// AnchorData is the data of an anchor: the settings of the lock's kind.
type AnchorData struct {
	Version int   `json:"holdfast"`          // of the format
	Kind    Kind  `json:"kind"`              // AnchorKind
	Permits int32 `json:"permits,omitempty"` // that a semaphore was made with
	Resized int32 `json:"resized,omitempty"` // that it has instead; 0: as it was made
}

// Capacity is how many permits a semaphore has now.
func (a AnchorData) Capacity() int32 {
	if a.Resized != 0 {
		return a.Resized
	}
	return a.Permits
}

// Encode returns the data as it is written, as [Record.Encode] does.
func (a AnchorData) Encode() []byte {
	b := make([]byte, 0, 64)
	b = appendInt(b, `{"holdfast":`, Version)
	b = appendString(b, `,"kind":`, string(AnchorKind))
	if a.Permits != 0 {
		b = appendInt(b, `,"permits":`, int64(a.Permits))
	}
	if a.Resized != 0 {
		b = appendInt(b, `,"resized":`, int64(a.Resized))
	}
	return append(b, '}')
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

// decode decodes data into v, whose field version points into.
func decode(data []byte, v any, version *int) error {
	if len(data) > maxData {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrForeign, len(data), maxData)
	}
	if json.Unmarshal(data, v) == nil && *version == Version {
		return nil
	}
	// The version alone: a later one may have changed the type of any field.
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
	case marker.Version <= 0:
		return fmt.Errorf("%w: no marker", ErrForeign)
	case marker.Version < Version:
		*version = marker.Version
		return ErrOlder
	case marker.Version > Version:
		*version = marker.Version
		return fmt.Errorf("%w: version %d, this one knows %d", ErrNewer, marker.Version, Version)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %.200v", ErrForeign, err)
	}
	return nil
}
