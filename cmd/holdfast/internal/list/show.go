package list

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Queue is one lock with its holders and waiters, for display.
type Queue struct {
	Root   string
	Time   admin.Time // as in Listing
	State  admin.State
	Policy policy.Rule
	NoRoot bool // as in Listing
	// Unconfigured means that there is no configuration, so that Policy has the defaults of this program.
	Unconfigured bool
	// Asked has the pending requests to release the lock, by the paths of their entries.
	Asked map[string]admin.Revocation
}

// place is a contender's place in the queue.
type place struct {
	admin.Contender
	name     znode.Name
	in       bool
	waitsFor int // index of the contender that a waiter waits for
}

// places returns the places of all contenders, by the rule by which clients enter.
func places(s admin.State) []place {
	all := make([]place, len(s.Contenders))
	names := make([]znode.Name, len(s.Contenders))
	for i, c := range s.Contenders {
		names[i], _ = znode.Parse(path.Base(c.Path))
		if c.Shares {
			names[i].Role = znode.Shared
		}
	}
	rules := znode.Rules{Kind: s.Kind, Capacity: int32(s.Permits)}
	for i, c := range s.Contenders {
		ahead := znode.WaitsFor(names, i, rules)
		all[i] = place{Contender: c, name: names[i], in: ahead < 0, waitsFor: ahead}
	}
	return all
}

// Picture prints the queue as a picture: the holders, the waiters, and the entry that each waiter waits
// for.
func (q Queue) Picture(w io.Writer, colour bool) error {
	s, places := q.State, places(q.State)
	in, expired := 0, 0
	for _, p := range places {
		switch {
		case p.in && p.expired():
			expired++
		case p.in:
			in++
		}
	}
	p := q.Policy
	head := NameOf(s) + ": "
	if s.Kind != "" {
		head += KindOf(s) + ", "
	}
	head += text.Count(in, "holder", "holders")
	if expired > 0 {
		head += ", " + text.Count(expired, "expired entry", "expired entries")
	}
	head += ", " + text.Count(len(places)-in-expired, "waiter", "waiters") + "\n"
	if q.Unconfigured {
		head += "no configuration is given; by the defaults, which the programs need not have: "
	} else {
		head += "policy " + text.Printable(p.Name) + ": "
	}
	head += fmt.Sprintf("ttl %v, grace %v", p.TTL, p.Grace)
	if p.MaxHold > 0 {
		head += fmt.Sprintf(", max_hold %v", p.MaxHold)
	}
	if now := stamp(q.Time); now != "" {
		head += "\n" + now + " by the leader's clock"
	}
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	table := text.Table{Colour: colour}
	notes := map[int][]string{} // by the index of the row
	for i, p := range places {
		if !p.in && p.waitsFor == i-1 {
			table.Add(text.Cells("  ▲")...)
		} else {
			table.Add()
		}
		notes[len(table.Rows)] = q.notes(p)
		table.Add(q.row(i, p)...)
	}
	if len(places) == 0 {
		hint := ""
		if s.Kind == znode.Dir {
			hint = fmt.Sprintf("it is a node above other locks: holdfast ls %s lists them\n", text.Name(s.Name))
		}
		_, err := fmt.Fprint(w, "\nno client holds it or waits for it\n", hint, noRoot(q.NoRoot, q.Root))
		return err
	}
	for i, line := range table.Lines() {
		lines := line + "\n"
		for _, note := range notes[i] {
			lines += "         " + note + "\n"
		}
		if _, err := io.WriteString(w, lines); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, q.advice(places))
	return err
}

// expired reports whether the lease of a contender has ended.
func (p place) expired() bool {
	d, known := left(p.Contender)
	return known && d < 0
}

// advice returns what an operator may do about the contenders, as commands to copy.
func (q Queue) advice(places []place) string {
	name := text.Name(q.State.Name)
	var all []string
	for _, p := range places {
		switch {
		case !p.in:
		case p.Err != nil:
			all = append(all, "holdfast doctor    says what to do about entries that cannot be read")
		case !p.Ours:
			all = append(all, foreignAdvice(p.Contender))
		case p.expired():
			all = append(all, "holdfast sweep    cleans up what has expired; a waiter does so by itself")
		case p.Detached:
			all = append(all, "holdfast break "+name+"    ends it: no process has it, until one attaches to it by its ticket")
		default:
			all = append(all, "holdfast revoke "+name+"    asks its holders to release it",
				"holdfast break "+name+"     ends a hold whose program hangs; the next waiter enters when that is safe")
		}
		if len(all) > 0 {
			break
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "\nyou may:\n  " + strings.Join(all, "\n  ") + "\n"
}

// foreignAdvice returns what may be done about an entry in the way that is not a lease of ours.
func foreignAdvice(c admin.Contender) string {
	path := text.Quote(c.Path)
	if c.Session != 0 {
		return fmt.Sprintf("end the program with the session 0x%x: its entry goes with it (echo cons | nc SERVER 2181 names its address)", uint64(c.Session))
	}
	return "delete " + path + "    in zkCli.sh: no session owns this entry, so it stays for ever; first see that no program holds the lock by it"
}

// row returns a contender's line in the picture.
func (q Queue) row(i int, p place) []text.Cell {
	dot, state := text.Cell{Text: "  ○", Style: text.Dim}, text.Cell{Text: fmt.Sprintf("waits for %d", p.waitsFor+1), Style: text.Dim}
	if p.waitsFor == i && !p.in {
		state.Text = "asks for more than there are"
	}
	if p.in {
		dot, state = text.Cell{Text: "  ●", Style: text.Green}, text.Cell{Text: "holds", Style: text.Green}
		if p.expired() {
			state = text.Cell{Text: "held it", Style: text.Red}
		}
		if age := Age(held(p.Contender)); age != "" && !p.expired() {
			state.Text = "for " + age
		}
	}
	lease := leftCell(p.Contender)
	switch d, known := left(p.Contender); {
	case known && d < 0:
		dot.Style = text.Red
	case known:
		lease.Text += " of " + p.TTL.String()
	}
	return []text.Cell{dot, {Text: fmt.Sprint(i + 1)}, {Text: Who(p.Contender)}, {Text: role(p.name, q.State.Kind, p.Shares)}, state, lease, {Text: p.Token.String()}}
}

// role returns what a contender asks for; "" if all contenders ask for the same.
func role(n znode.Name, kind znode.Kind, shares bool) string {
	switch {
	case shares:
		return "reads (wrote)"
	case n.Role == znode.Shared:
		return "reads"
	case kind == znode.RW:
		return "writes"
	case kind == znode.Semaphore && n.Permits > 1:
		return fmt.Sprintf("%d permits", n.Permits)
	case kind == znode.Semaphore:
		return "1 permit"
	}
	return ""
}

// notes returns further lines about a contender.
func (q Queue) notes(p place) (notes []string) {
	if r, asked := q.Asked[p.Path]; asked {
		note := fmt.Sprintf("asked to release it by %s at %s", text.Who(r.Owner, r.Host, r.PID), time.UnixMilli(r.Stat.Mtime).UTC().Format(jsonTime))
		if r.Reason != "" {
			note += ": " + text.Head(text.Printable(r.Reason), 100)
		}
		notes = append(notes, note)
	}
	if !p.Ours && p.Err == nil {
		notes = append(notes, text.Printable(p.Path)+": "+ofSession(p.Contender))
	}
	if p.Err != nil {
		notes = append(notes, text.Printable(p.Err.Error())+"; it is in the way until it is deleted")
	}
	if p.Broken != "" {
		notes = append(notes, "broken "+text.Printable(p.Broken))
	}
	for _, key := range slices.Sorted(maps.Keys(p.Metadata)) {
		notes = append(notes, text.Head(text.Printable(key+"="+p.Metadata[key]), 100))
	}
	return notes
}

// ofSession says whether a session owns an entry that is not ours.
func ofSession(c admin.Contender) string {
	if c.Session == 0 {
		return "of no session: it stays until it is deleted"
	}
	return fmt.Sprintf("of the session 0x%x: it goes when that ends", uint64(c.Session))
}

// Document returns the queue for the JSON output.
func (q Queue) Document() any {
	doc := struct {
		Root   string `json:"root"`
		Time   string `json:"time,omitempty"`
		Policy string `json:"policy"`
		TTL    int64  `json:"ttl_ms"`
		Grace  int64  `json:"grace_ms"`
		NoRoot bool   `json:"no_root,omitempty"`
		// Unconfigured means that the policy is that of no configuration.
		Unconfigured bool `json:"unconfigured,omitempty"`
		Lock
	}{Unconfigured: q.Unconfigured, Root: q.Root, Time: stamp(q.Time), Policy: q.Policy.Name, TTL: q.Policy.TTL.Milliseconds(), Grace: q.Policy.Grace.Milliseconds(), NoRoot: q.NoRoot, Lock: lockOf(q.State)}
	ahead := map[string]string{}
	for _, p := range places(q.State) {
		if !p.in {
			ahead[p.Path] = q.State.Contenders[p.waitsFor].Path
		}
	}
	for i := range doc.Holders {
		if r, asked := q.Asked[doc.Holders[i].Path]; asked {
			doc.Holders[i].Asked = &Asked{r.Owner, r.Host, r.PID, time.UnixMilli(r.Stat.Mtime).UTC().Format(jsonTime), r.Reason}
		}
	}
	for i := range doc.Waiters {
		doc.Waiters[i].WaitsFor = ahead[doc.Waiters[i].Path]
	}
	return doc
}

// Holders returns the contenders that hold the lock. An expired holder is one of them until its purge.
func Holders(s admin.State) (in []admin.Contender) {
	for _, p := range places(s) {
		if p.in {
			in = append(in, p.Contender)
		}
	}
	return in
}

// InTheWay returns a text that names the first holder of a lock, and the number of further ones.
func InTheWay(s admin.State) string {
	in := Holders(s)
	if len(in) == 0 {
		return "no client"
	}
	who := Who(in[0])
	if more := len(in) - 1; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	return strings.TrimSpace(who)
}
