package list

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// Order is the sort order of a live view.
type Order string

// The sort orders.
const (
	ByWaiters Order = "waiters" // most waiters first
	ByAge     Order = "age"     // longest held first
	ByName    Order = "name"
)

// View has the settings of a live view.
type View struct {
	Order  Order
	Width  int // in cells of the terminal
	Height int // in lines
	Skip   int // number of lines scrolled away
	Colour bool
	Note   string // shown in place of the keys, such as why the view is out of date
}

// line is a lock in a live view.
type line struct {
	state   admin.State
	waiting int
	holder  admin.Contender // the first holder
	holders int
	age     time.Duration // time since the earliest grant of its holders; negative: unknown
}

// Top returns the text of a live view: a line for each lock, as far as there is room.
func (l Listing) Top(v View) string {
	lines, waiting := l.lines(v.Order)
	head := fmt.Sprintf("%s: %s, %d waiting", text.Printable(l.Path), text.Count(len(lines), "lock", "locks"), waiting)
	if l.Time.Zxid != 0 {
		head += ", " + latest(l.Time).UTC().Format("15:04:05") + " UTC by the leader's clock"
	}
	if n := len(l.Unread); n > 0 {
		head += fmt.Sprintf(", %s could not be read", text.Count(n, "node", "nodes"))
	}
	keys := "sorted by " + string(v.Order) + "; keys: w waiters, a age, n name, ↑ ↓ scroll, q quit"
	if v.Note != "" {
		keys = text.Printable(v.Note)
	}
	name := max(12, v.Width/3)
	table := text.Table{Colour: v.Colour}
	table.Head("LOCK", "LEFT", "HELD", "WAITING", "HOLDER", "KIND") // the terminal cuts off the last
	room := max(0, v.Height-3)
	skip := max(0, min(v.Skip, len(lines)-room))
	for _, ln := range lines[skip:min(len(lines), skip+room)] {
		table.Add(topRow(ln, name)...)
	}
	out := append([]string{text.Head(head, v.Width), text.Head(keys, v.Width)}, table.Lines()...)
	return strings.Join(out, "\n") + "\n"
}

// lines returns the lines of all locks, sorted, and the number of all waiters.
func (l Listing) lines(by Order) (lines []line, waiting int) {
	for _, s := range l.Nodes {
		ln := line{state: s, age: -1}
		for _, p := range places(s) {
			if !p.in {
				ln.waiting++
				continue
			}
			if ln.holders++; ln.holders == 1 {
				ln.holder = p.Contender
			}
			if age, known := held(p.Contender); known {
				ln.age = max(ln.age, age)
			}
		}
		waiting += ln.waiting
		lines = append(lines, ln)
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		byAge, byName := cmp.Compare(b.age, a.age), strings.Compare(a.state.Name, b.state.Name)
		switch by {
		case ByAge:
			return cmp.Or(byAge, byName)
		case ByName:
			return byName
		}
		return cmp.Or(b.waiting-a.waiting, byAge, byName)
	})
	return lines, waiting
}

func topRow(ln line, widestName int) []text.Cell {
	waiting, left, who := text.Cell{Text: fmt.Sprint(ln.waiting)}, text.Cell{}, ""
	if ln.waiting > 0 {
		waiting.Style = text.Yellow
	}
	if ln.holders > 0 {
		left, who = leftCell(ln.holder), Who(ln.holder)
	}
	if ln.holders > 1 {
		who += fmt.Sprintf(" +%d", ln.holders-1)
	}
	return []text.Cell{{Text: text.Head(NameOf(ln.state), widestName)}, left, {Text: Age(ln.age, ln.age >= 0)}, waiting, {Text: who}, {Text: KindOf(ln.state)}}
}
