package main

import (
	"io"
	"os"
	"strings"

	"github.com/mattn/go-colorable"
	"golang.org/x/term"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

// screen shows one frame after the other: on a terminal in place of the last one, elsewhere
// below it.
type screen struct {
	out      io.Writer
	terminal *os.File // nil: it is none
}

// newScreen takes over a terminal, if it is to be one; else it prints to out.
func newScreen(out io.Writer, terminal bool) *screen {
	s := &screen{out: out}
	if f, ok := out.(*os.File); ok && terminal {
		s.terminal, s.out = f, colorable.NewColorable(f)
		io.WriteString(s.out, "\x1b[?1049h\x1b[?25l") // another page, without a cursor
	}
	return s
}

// close gives the terminal back as it was.
func (s *screen) close() {
	if s.terminal != nil {
		io.WriteString(s.out, "\x1b[?25h\x1b[?1049l")
	}
}

// size is how many cells and lines there are; 0: without limit.
func (s *screen) size() (width, height int) {
	if s.terminal == nil {
		return 0, 0
	}
	return size(s.terminal)
}

func size(terminal *os.File) (width, height int) {
	width, height, err := term.GetSize(int(terminal.Fd()))
	if err != nil || width == 0 || height == 0 { // a serial console knows none, nor does a container's terminal at first
		return 80, 24
	}
	return width, height
}

// width is how many cells of a line there are; 0, where it is no terminal: without limit.
func width(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok || !app.IsTerminal(f) {
		return 0
	}
	width, _ := size(f)
	return width
}

// show shows a frame. What a terminal has no room for is cut off.
func (s *screen) show(frame string) error {
	if s.terminal == nil {
		_, err := io.WriteString(s.out, frame)
		return err
	}
	_, height := s.size()
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
	lines = lines[:min(len(lines), height)]
	// Each line is cleared behind its end, and what is below the last: no flicker. Long
	// lines are cut by the terminal.
	_, err := io.WriteString(s.out, "\x1b[?7l\x1b[H"+strings.Join(lines, "\x1b[K\r\n")+"\x1b[K\x1b[J\x1b[?7h")
	return err
}
