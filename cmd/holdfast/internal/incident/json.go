package incident

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-io/holdfast/lock/admin/jsonout"
	"github.com/holdfast-io/holdfast/lock/history"
)

// Event is an event in the JSON output. Times are RFC 3339 with milliseconds, by the leader's
// clock. Unknown values are left out.
type Event struct {
	Kind    history.Kind `json:"event"`
	Time    string       `json:"time"`
	Zxid    string       `json:"zxid"`              // of a derived event, that of the write that it follows from
	Derived bool         `json:"derived,omitempty"` // it follows from the time, such as the end of a lease, and not from a transaction
	Session string       `json:"session,omitempty"`
	Lock    string       `json:"lock,omitempty"`
	Entry   string       `json:"entry,omitempty"`
	Client  *Client      `json:"client,omitempty"` // client that the entry names
	By      *Client      `json:"by,omitempty"`     // client that did it, if it is another one
	In      bool         `json:"in,omitempty"`     // the client held the lock, or was free to enter
	Lease   string       `json:"lease_until,omitempty"`
	TTL     int64        `json:"ttl_ms,omitempty"`
	Granted string       `json:"granted_at,omitempty"` // time of the grant, as the client recorded it
	Again   bool         `json:"joined_again,omitempty"`
	Late    bool         `json:"late,omitempty"`  // after the end of the lease
	Early   bool         `json:"early,omitempty"` // before the grace was over
	Reason  string       `json:"reason,omitempty"`
	Role    string       `json:"role,omitempty"`
	From    int32        `json:"permits_before,omitempty"`
	To      int32        `json:"permits,omitempty"`
	Of      string       `json:"kind,omitempty"` // of the lock
	Step    int64        `json:"step_ms,omitempty"`
	Before  string       `json:"stamp_before,omitempty"`
}

// Client is a client in the JSON output.
type Client struct {
	Owner string `json:"owner"`
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
}

// Moment is the state of locks at a moment, in the JSON output.
type Moment struct {
	Asked string          `json:"asked"`
	Where history.Where   `json:"where"`
	Zxid  string          `json:"zxid,omitempty"`
	Time  string          `json:"time,omitempty"` // stamp of that transaction
	Locks []LockAtAMoment `json:"locks"`
	Blind bool            `json:"others_unknown,omitempty"` // whether other locks were held is not known
}

// LockAtAMoment is a lock at a moment in the JSON output.
type LockAtAMoment struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Permits int32    `json:"permits,omitempty"`
	Holders []Holder `json:"holders"`          // granted entries whose leases had not ended
	Lapsed  []Holder `json:"lapsed,omitempty"` // granted entries whose leases had ended
	Waiters []Holder `json:"waiters"`          // in the order of their turn
	// Unknown: not all entries are known. Then Holders has those that recorded the grant, and Unclear
	// the others: each may have held or waited.
	Unknown bool     `json:"not_known,omitempty"`
	Unclear []Holder `json:"unclear,omitempty"`
}

// Holder is a contender at a moment in the JSON output.
type Holder struct {
	Entry    string  `json:"entry"`
	Client   *Client `json:"client,omitempty"` // nil: the entry is another library's
	Role     string  `json:"role,omitempty"`
	Since    string  `json:"granted_at,omitempty"`
	Granted  string  `json:"granted_zxid,omitempty"`
	Recorded string  `json:"recorded_at,omitempty"` // time of the grant, if the client had recorded it by then
	Written  string  `json:"written_at"`
	Lease    string  `json:"lease_until,omitempty"`
	Left     *int64  `json:"left_ms,omitempty"`  // at most
	Doubt    int64   `json:"doubt_ms,omitempty"` // it may have been less by up to this, see history.Holder
	Broken   string  `json:"broken,omitempty"`
	Detached bool    `json:"detached,omitempty"`
}

const jsonTime = "2006-01-02T15:04:05.000Z07:00"

func jsonStamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(jsonTime)
}

func jsonZxid(n int64) string {
	if n == 0 {
		return ""
	}
	return hex(n)
}

func jsonClient(c history.Client) *Client {
	if !c.Known() {
		return nil
	}
	return &Client{c.Owner, c.Host, c.PID}
}

func jsonEvent(e history.Event) Event {
	return Event{
		Kind: e.Kind, Time: jsonStamp(e.Time), Zxid: hex(e.Zxid), Derived: e.Kind.Derived(), Session: jsonZxid(e.Session), Lock: e.Lock, Entry: e.Entry,
		Client: jsonClient(e.Who), By: jsonClient(e.By), In: e.In, Lease: jsonStamp(e.Lease), TTL: e.TTL.Milliseconds(), Granted: jsonStamp(e.At),
		Again: e.Again, Late: e.Late, Early: e.Early, Reason: e.Reason, Role: e.Role, From: e.From, To: e.To, Of: e.Of,
		Step: e.Step.Milliseconds(), Before: jsonStamp(e.Prev),
	}
}

func jsonHolders(all []history.Holder) (out []Holder) {
	for _, h := range all {
		j := Holder{Entry: h.Entry, Client: jsonClient(h.Client), Role: h.Role, Since: jsonStamp(h.Since), Granted: jsonZxid(h.Granted), Recorded: jsonStamp(h.Recorded),
			Written: jsonStamp(h.Written), Lease: jsonStamp(h.Lease), Broken: h.Broken, Detached: h.Detached}
		if !h.Lease.IsZero() {
			left := h.Left.Milliseconds()
			j.Left, j.Doubt = &left, h.Doubt.Milliseconds()
		}
		out = append(out, j)
	}
	return out
}

func jsonMoment(m history.Moment) Moment {
	out := Moment{Asked: hex(m.Asked.Zxid), Where: m.Where, Zxid: jsonZxid(m.Zxid), Time: jsonStamp(m.Time), Blind: m.Blind}
	if !m.Asked.Time.IsZero() {
		out.Asked = jsonStamp(m.Asked.Time)
	}
	for _, s := range m.Locks {
		out.Locks = append(out.Locks, LockAtAMoment{s.Lock, string(s.Kind), s.Permits, jsonHolders(s.Holders), jsonHolders(s.Lapsed), jsonHolders(s.Waiters),
			s.Unknown, jsonHolders(s.Unclear)})
	}
	return out
}

// lookAhead is the number of events that the JSON output holds back, because later events may add
// details to them.
const lookAhead = 1 << 14

// Stream prints events as JSON when they are added, so that its memory does not grow with the log.
type Stream struct {
	Options
	w    io.Writer
	held []history.Event
	any  bool
	err  error
	part part

	Owned bool // as in [Report]
}

// NewStream returns a stream that prints to w, and writes the beginning of its JSON document. If a
// write fails, Add and Close return the error.
func NewStream(w io.Writer, o Options) *Stream {
	s := &Stream{Options: o, w: w}
	s.printf("{\n  \"root\": %s,\n  \"logs\": %s", marshal(o.Root), marshal(o.Dirs))
	return s
}

func (s *Stream) printf(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, format, args...)
	}
}

func marshal(v any) []byte {
	var b bytes.Buffer
	if err := jsonout.Line(&b, v, false); err != nil {
		panic(err) // strings, numbers and structs of them always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// Add adds an event. It returns the first error of writing.
func (s *Stream) Add(m *history.Machine, e history.Event) error {
	o := s.Options
	if !e.Kind.Ensemble() && !o.owns(e) {
		return s.err
	}
	s.Owned = s.Owned || !e.Kind.Ensemble()
	if !s.part.has(o, e) {
		return s.err
	}
	if len(s.held) == lookAhead {
		s.flush(m, lookAhead/2)
	}
	s.held = append(s.held, e)
	return s.err
}

// owns reports whether an event is by Owner or of an entry of Owner; always if Owner is "".
func (o Options) owns(e history.Event) bool {
	return o.Owner == "" || e.Who.Owner == o.Owner || e.By.Owner == o.Owner
}

// flush prints the first n of the events held back.
func (s *Stream) flush(m *history.Machine, n int) {
	for _, e := range s.held[:n] {
		separator := ",\n    "
		if !s.any {
			separator = ",\n  \"events\": [\n    "
		}
		s.any = true
		s.printf("%s%s", separator, marshal(jsonEvent(m.Resolve(e))))
	}
	s.held = append(s.held[:0], s.held[n:]...)
}

// Close ends the document with what m and r know at the end of the log. If r has moments, the document
// has them instead of events. It returns the first error of writing.
func (s *Stream) Close(m *history.Machine, r *Report) error {
	if len(r.Moments) > 0 {
		var all []Moment
		for _, moment := range r.Moments {
			all = append(all, jsonMoment(moment))
		}
		var b bytes.Buffer
		if err := json.Indent(&b, marshal(all), "  ", "  "); err != nil {
			return err
		}
		s.printf(",\n  \"moments\": %s", &b)
	} else {
		s.flush(m, len(s.held))
		if s.any {
			s.printf("\n  ]")
		} else {
			s.printf(",\n  \"events\": []")
		}
	}
	if !r.First.IsZero() {
		s.printf(",\n  \"first\": %s,\n  \"last\": %s,\n  \"last_zxid\": %s", marshal(jsonStamp(r.First)), marshal(jsonStamp(r.Last)), marshal(hex(r.Zxid)))
	}
	if r.Known.Zxid != 0 {
		s.printf(",\n  \"known_from\": %s,\n  \"known_from_zxid\": %s", marshal(jsonStamp(r.Known.Time)), marshal(hex(r.Known.Zxid)))
	} else if r.Blind {
		s.printf(",\n  \"known\": false")
	}
	if len(r.Warnings) > 0 {
		s.printf(",\n  \"warnings\": %s", marshal(r.Warnings))
	}
	if r.Why != "" {
		s.printf(",\n  \"none\": %s", marshal(r.Why))
	}
	s.printf("\n}\n")
	return s.err
}
