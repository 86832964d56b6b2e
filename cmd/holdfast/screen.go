package main

import (
	"io"
	"os"
	"strings"

	"github.com/mattn/go-colorable"
	"golang.org/x/term"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

// screen shows frames. On a terminal each frame replaces the one before. Elsewhere frames are printed
// one after the other.
type screen struct {
	out      io.Writer
	terminal *os.File // nil: no terminal
}

// newScreen takes over the terminal, if there is one; otherwise it prints to out.
func newScreen(out io.Writer, terminal bool) *screen {
	s := &screen{out: out}
	if f, ok := out.(*os.File); ok && terminal {
		s.terminal, s.out = f, colorable.NewColorable(f)
		io.WriteString(s.out, "\x1b[?1049h\x1b[?25l") // the alternate screen, without a cursor
	}
	return s
}

// close restores the terminal.
func (s *screen) close() {
	if s.terminal != nil {
		io.WriteString(s.out, "\x1b[?25h\x1b[?1049l")
	}
}

// size returns the size of the terminal in cells and lines; 0 without a terminal.
func (s *screen) size() (width, height int) {
	if s.terminal == nil {
		return 0, 0
	}
	return size(s.terminal)
}

func size(terminal *os.File) (width, height int) {
	width, height, err := term.GetSize(int(terminal.Fd()))
	// A serial console has no size. A container's terminal has none at first.
	if err != nil || width == 0 || height == 0 {
		return 80, 24
	}
	return width, height
}

// width returns the width of the terminal in cells; 0, which means no limit, if out is no terminal.
func width(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok || !app.IsTerminal(f) {
		return 0
	}
	width, _ := size(f)
	return width
}

// show shows a frame. On a terminal it cuts the frame to the terminal's size.
func (s *screen) show(frame string) error {
	if s.terminal == nil {
		_, err := io.WriteString(s.out, frame)
		return err
	}
	_, height := s.size()
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
	lines = lines[:min(len(lines), height)]
	// Clear each line after its end, and everything below the last line, to avoid flicker. The
	// terminal cuts long lines.
	_, err := io.WriteString(s.out, "\x1b[?7l\x1b[H"+strings.Join(lines, "\x1b[K\r\n")+"\x1b[K\x1b[J\x1b[?7h")
	return err
}
