package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
)

// story prints the events as they happen, and collects the verdicts.
type story struct {
	out     io.Writer
	colour  bool
	begun   time.Time
	chapter string
	table   text.Table // the verdicts
	broken  int        // number of promises that were not kept
}

func newStory(out io.Writer, colour bool) *story {
	s := &story{out: out, colour: colour, begun: time.Now(), table: text.Table{Colour: colour}}
	s.table.Head("", "promise", "expected", "seen")
	return s
}

// begin prints the heading of a chapter.
func (s *story) begin(chapter, title string) {
	s.chapter = chapter
	fmt.Fprintf(s.out, "\n%s\n", text.Bold.Paint(chapter+". "+title, s.colour))
}

// say prints an event, with the time since the start.
func (s *story) say(format string, args ...any) {
	at := fmt.Sprintf("%6.1fs", time.Since(s.begun).Seconds())
	fmt.Fprintf(s.out, "%s  %s\n", text.Dim.Paint(at, s.colour), fmt.Sprintf(format, args...))
}

// judge adds the verdict on a promise to the table.
func (s *story) judge(promise, expected, seen string, kept bool) {
	result := text.Cell{Text: "ok", Style: text.Green}
	if !kept {
		s.broken++
		result = text.Cell{Text: "FAILED", Style: text.Red}
	}
	s.table.Add(append(text.Cells(s.chapter, promise, expected, seen), result)...)
}
