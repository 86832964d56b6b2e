package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// story prints the events as they happen, and keeps the verdicts.
type story struct {
	w        io.Writer
	colour   bool
	begun    time.Time
	chapter  string
	verdicts []verdict
}

// verdict is one line of the table at the end.
type verdict struct {
	chapter, promise, expected, seen string
	kept                             bool
}

// begin prints the heading of a chapter.
func (s *story) begin(chapter, title string) {
	s.chapter = chapter
	fmt.Fprintf(s.w, "\n%s\n", s.paint(bold, chapter+". "+title))
}

// say prints an event, with the time since the start.
func (s *story) say(format string, args ...any) {
	at := fmt.Sprintf("%6.1fs", time.Since(s.begun).Seconds())
	fmt.Fprintf(s.w, "%s  %s\n", s.paint(dim, at), fmt.Sprintf(format, args...))
}

// judge records whether a promise was kept.
func (s *story) judge(promise, expected, seen string, kept bool) {
	s.verdicts = append(s.verdicts, verdict{s.chapter, promise, expected, seen, kept})
}

// table prints the verdicts, and returns how many promises were broken.
func (s *story) table() (broken int) {
	var text strings.Builder
	rows := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "\tpromise\texpected\tseen\t")
	for _, v := range s.verdicts {
		result := s.paint(green, "ok")
		if !v.kept {
			broken++
			result = s.paint(red, "FAILED")
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s\n", v.chapter, v.promise, v.expected, v.seen, result)
	}
	rows.Flush()
	header, rest, _ := strings.Cut(text.String(), "\n")
	fmt.Fprintf(s.w, "\n%s\n%s", s.paint(bold, strings.TrimRight(header, " ")), rest)
	return broken
}

// Parameters of the control function Select Graphic Rendition of ECMA-48.
const (
	bold  = "1"
	dim   = "2"
	red   = "31;1"
	green = "32"
)

func (s *story) paint(how, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + how + "m" + text + "\x1b[0m"
}
