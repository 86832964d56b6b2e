package lock

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Detach ends the hold in this process and leaves its entry to the client that attaches with the
// ticket, see [Client.Attach]. If that client attaches in time, no other contender enters before
// it. The hold and all its handles end at once with [ErrDetached], which is no loss; [Mutex.Do]
// returns it too.
//
// The entry stays for ttl and the grace; a ttl of 0 means the TTL of the hold. If no client
// attaches in time, the entry is purged like a dead holder's.
//
// Detach fails with [ErrInvalid], and the hold goes on, if
//
//   - ttl is not within [MinTTL] and the policy's MaxTTL,
//   - the hold is a leadership, or
//   - other readers of this client share the entry (see [WithLocalWindow]). After this error no
//     other goroutine joins the entry.
//
// Detach waits until ZooKeeper has acknowledged the write. If ctx had ended before the call, Detach
// returns the context's error, and the hold goes on. If ctx ends while Detach waits, Detach returns
// the ticket and an [UnlockError], and retries the write in the background until the entry must
// have expired. If ZooKeeper refuses the write, Detach returns the ticket and an UnlockError too.
// If no write succeeds, a client that attaches waits until the lease has ended. If the hold has
// already ended, or its entry was removed, Detach returns the reason and no ticket. If ctx is a
// context of the hold, which ends now, only its deadline counts.
func (h *Hold) Detach(ctx context.Context, ttl time.Duration) (Ticket, error) {
	if err := h.check(ctx, "detach"); err != nil {
		return Ticket{}, err
	}
	if err := h.mayMove(); err != nil {
		return Ticket{}, err
	}
	c, e := h.client, h.e
	if ttl != 0 {
		if err := checkDuration("ttl", ttl, MinTTL, MaxTime); err != nil {
			return Ticket{}, err
		}
		if most := c.cfg.policyOf(e.Lock()).MaxTTL; ttl > most {
			return Ticket{}, invalid("ttl", ttl, "must be at most max_ttl, which is %v", most)
		}
	}
	if ttl == 0 {
		ttl = e.NextTTL()
	}
	if !h.t.alone() {
		return Ticket{}, h.cannot("shares its entry with other readers of this client, and cannot be detached: take it with WithLocalWindow(NoLocalWindow)")
	}
	ticket := h.ticket(ttl) // before the write: the lease lasts at least as long as the ticket says
	begun := c.clock.Mono()
	done, err := c.queue.Detach(e, ttl, e.Incarnation)
	if err != nil {
		return Ticket{}, h.t.own(err)
	}
	if carried, _ := ctx.Value(reentry{c, e.Lock()}).(*queue.Entry); carried == e { // ctx has just ended with the hold
		end, limited := ctx.Deadline()
		if ctx = context.WithoutCancel(ctx); limited {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, end)
			defer cancel()
		}
	}
	bound, release := c.bind(ctx)
	defer release()
	select {
	case err = <-done:
	case <-bound.Done():
		err = zkconn.ContextError(bound)
	}
	switch {
	// The entry was removed because a lease had ended: the hold's, or the one written for the ticket.
	case (errors.Is(err, ErrRemoved) || errors.Is(err, lease.ErrWentSince)) && (e.Lapsed() || e.IsOver() || c.clock.Mono()-begun >= ttl):
		return Ticket{}, h.t.own(lossOf(e, ErrExpired))
	case errors.Is(err, ErrRemoved), errors.Is(err, ErrTaken), errors.Is(err, ErrBroken):
		return Ticket{}, h.t.own(lossOf(e, err))
	case err != nil:
		err = &UnlockError{Lock: e.Lock(), Entry: e.Path, Err: zkconn.Reveal(err)}
	}
	return ticket, err
}

// Ticket returns a ticket for the hold while it lasts. Store it in case this process dies. A client
// that attaches with it waits until the lease and the grace have ended. Then it continues with the
// same entry, unless a waiter or the reaper has purged it. While the hold lasts, no client can
// attach. From the call on the entry is not handed off locally. If the hold has ended, Ticket
// returns the reason; for a leadership it returns an [ErrInvalid].
func (h *Hold) Ticket() (Ticket, error) {
	if err := h.ended(); err != nil { // not Err, which is nil while another handle lasts
		return Ticket{}, err
	}
	if err := h.mayMove(); err != nil {
		return Ticket{}, err
	}
	h.e.Pin() // the entry must stay for the ticket
	// Check again: the entry may have been handed off locally just before.
	if err := h.Err(); err != nil {
		return Ticket{}, err
	}
	return h.ticket(0), nil
}

// mayMove returns an error if the hold cannot continue in another process.
func (h *hold) mayMove() error {
	if h.leads() {
		return h.cannot("is a leadership, which cannot go on in another process: resign, and campaign there")
	}
	return nil
}

// cannot returns an ErrInvalid with the rule that forbids a call for this hold.
func (h *hold) cannot(rule string, args ...any) error {
	return invalid("hold of", fmt.Sprintf("%q", h.Name()), rule, args...)
}

// Attach continues a hold with the same entry: a detached one at once. The incarnation of the token
// rises by one. The number of permits stays the same. If this client dies, the entry expires as any
// other does.
//
// The options are those of [Client.Mutex], for the ticket's lock. After the attach, the TTL is that
// of the options or the policy, and max_hold counts from the attach. A hold for writing that was
// downgraded stays one for reading, even with an earlier ticket: see [RWMutex.Reads].
//
// If several clients attach with one ticket, one succeeds. The other clients, and later ones, get
// [ErrAttached]. If the entry was unlocked or force-released, or no client attached in time, the
// error is [ErrRemoved]. If the hold was not detached, see [Hold.Ticket], Attach waits until its
// lease and the grace have surely ended. The hold ends for its holder before that. Attach also
// fails as [Mutex.Lock] does, and with [ErrInvalid] for a ticket of another root.
//
// If ctx ends before the grant, or the client closes, a write in the background restores the entry,
// with the same lease. After the write the same ticket works again. [Client.Close] waits for the
// write. If the client closes at the moment of the grant, the hold ends like all other holds.
func (c *Client) Attach(ctx context.Context, t Ticket, opts ...LockOption) (*Hold, error) {
	switch {
	case t.IsZero():
		return nil, invalid("ticket", `""`, "is for nothing")
	case t.root != c.cfg.root:
		return nil, invalid("ticket", t, "is for a lock below %s, and the client's root is %s", t.root, c.cfg.root)
	case !t.kind.IsLock():
		return nil, fmt.Errorf("%w: the ticket is for a %s, which this release does not know", ErrKind, t.kind)
	}
	if err := checkContext(ctx, "attach", t.lock); err != nil {
		return nil, err
	}
	s, err := c.cfg.settingsFor(t.lock, opts)
	if err != nil {
		return nil, err
	}
	node, _ := znode.Parse(t.left.Node)
	return c.takeNew(ctx, queue.Request{
		Lock: t.lock, Kind: t.kind, Role: node.Role, Permits: node.Permits, Capacity: t.permits,
		Terms: s.terms(), KeepParent: s.KeepParent,
	}, func(q *queue.Queue, ctx context.Context, r queue.Request) (*queue.Entry, error) {
		return q.Attach(ctx, r, t.left)
	})
}

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
