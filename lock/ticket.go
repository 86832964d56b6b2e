package lock

import (
	"fmt"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Ticket lets a client continue a hold in another process or after a restart: see [Hold.Detach],
// [Hold.Ticket] and [Client.Attach]. It is a small value that can be stored, sent and copied. If
// several clients attach with it, one succeeds. Any process that has it can take the lock over, so
// keep it secret like a key. The zero Ticket is for no lock.
type Ticket struct {
	root, lock string
	kind       znode.Kind
	permits    int32 // the semaphore's total, as given to Client.Semaphore; 0: no semaphore
	left       queue.Left
}

// ticketMark begins the text of a ticket; ticketVersion, the version of the format, follows.
const ticketMark, ticketVersion = "holdfast-ticket", "1"

// permitsMark stands between the kind and the number of permits in a semaphore's ticket.
const permitsMark = "="

// ticket returns a ticket for the hold. lasts is the length of the entry's lease, which begins now;
// 0 if the hold is not detached.
func (h *hold) ticket(lasts time.Duration) Ticket {
	c, e := h.client, h.e
	t := Ticket{
		root: c.cfg.root, lock: e.Lock(), kind: e.Kind, permits: h.permits,
		left: queue.Left{Node: e.Name().Node, Incarnation: e.Incarnation},
	}
	if lasts != 0 {
		t.left.Until = c.clock.Millis(c.clock.Local()) + lasts.Milliseconds()
	}
	return t
}

// IsZero reports whether t is the zero Ticket.
func (t Ticket) IsZero() bool { return t == Ticket{} }

// Name returns the name of the lock.
func (t Ticket) Name() string { return t.lock }

// Kind returns the kind of the lock: "mutex", "rw" or "semaphore"; "" for the zero Ticket.
func (t Ticket) Kind() string { return string(t.kind) }

// EntryPath returns the path of the entry in ZooKeeper, for logs.
func (t Ticket) EntryPath() string {
	if t.IsZero() {
		return ""
	}
	return t.root + "/" + t.lock + "/" + t.left.Node
}

// Expires returns the time, in ensemble time, by which a client must attach. After that time and
// the grace, a waiter behind the entry or the reaper purges it. The time is an estimate from when
// the ticket was made. It is zero if the ticket is of a hold that was not detached.
func (t Ticket) Expires() time.Time {
	if t.left.Until == 0 {
		return time.Time{}
	}
	return time.UnixMilli(t.left.Until).UTC()
}

// String returns the text of the ticket: one line of printable ASCII without blanks, with a
// version and a checksum. [ParseTicket] reads it. The text of the zero Ticket is "".
func (t Ticket) String() string {
	if t.IsZero() {
		return ""
	}
	text := strings.Join([]string{
		ticketMark, ticketVersion, t.kindText(), escape(t.root), escape(t.lock), t.left.Node,
		strconv.FormatInt(int64(t.left.Incarnation), 10), strconv.FormatInt(t.left.Until, 10),
	}, ":")
	return text + ":" + checksum(text)
}

// kindText returns the kind of the lock, with the number of permits if it is a semaphore.
func (t Ticket) kindText() string {
	if t.kind == znode.Semaphore {
		return string(t.kind) + permitsMark + strconv.Itoa(int(t.permits))
	}
	return string(t.kind)
}

func escape(path string) string {
	return strings.ReplaceAll((&url.URL{Path: path}).EscapedPath(), ":", "%3A")
}

func checksum(text string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) }

// ParseTicket parses a text of [Ticket.String]; it ignores white space around it. Any other text
// is an [ErrInvalid] with the reason.
func ParseTicket(text string) (Ticket, error) {
	text = strings.TrimSpace(text)
	parts := strings.Split(text, ":")
	last := len(parts) - 1
	switch {
	case text == "":
		return Ticket{}, invalid("ticket", `""`, "is empty")
	case parts[0] != ticketMark:
		return Ticket{}, badTicket(text, "must begin with %q", ticketMark+":")
	case last > 0 && parts[1] != ticketVersion && isNumber(parts[1]):
		return Ticket{}, badTicket(text, "is of version %s, and this release knows version %s: use a newer one", parts[1], ticketVersion)
	case last != 8:
		return Ticket{}, badTicket(text, "has %d fields, not 9: it is incomplete, or has additional text", last+1)
	}
	if sum := checksum(text[:len(text)-len(parts[last])-1]); sum != parts[last] {
		return Ticket{}, badTicket(text, "is damaged: its checksum is %s, but it contains %.20q", sum, parts[last])
	}
	kind, permits, hasPermits := strings.Cut(parts[2], permitsMark)
	t := Ticket{kind: znode.Kind(kind), left: queue.Left{Node: parts[5]}}
	root, err1 := url.PathUnescape(parts[3])
	name, err2 := url.PathUnescape(parts[4])
	incarnation, err3 := strconv.ParseInt(parts[6], 10, 32)
	until, err4 := strconv.ParseInt(parts[7], 10, 64)
	t.root, t.lock, t.left.Incarnation, t.left.Until = root, name, int32(incarnation), until
	node, isEntry := znode.Parse(t.left.Node)
	for _, err := range []error{err1, err2, err3, err4, znode.CheckRoot(root), znode.CheckName(name)} {
		if err != nil {
			return Ticket{}, badTicket(text, "%v", err)
		}
	}
	if n, err := strconv.ParseInt(permits, 10, 32); t.kind == znode.Semaphore || hasPermits {
		if err != nil || n < 1 || n > MaxPermits || t.kind != znode.Semaphore {
			return Ticket{}, badTicket(text, "%q is not a semaphore of 1..%d permits", parts[2], MaxPermits)
		}
		t.permits = int32(n)
	}
	switch {
	case !isEntry || !node.Ours():
		return Ticket{}, badTicket(text, "%q is not the name of an entry", t.left.Node)
	case incarnation < 0 || until < 0:
		return Ticket{}, badTicket(text, "incarnation %d and end %d must not be negative", incarnation, until)
	}
	return t, nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 32)
	return err == nil
}

func badTicket(text, rule string, args ...any) error {
	return invalid("ticket", fmt.Sprintf("%.60q", text), rule, args...)
}

// MarshalText returns the text of the ticket, as [Ticket.String] does.
func (t Ticket) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses the text as [ParseTicket] does; an empty text gives the zero Ticket.
func (t *Ticket) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*t = Ticket{}
		return nil
	}
	parsed, err := ParseTicket(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}
