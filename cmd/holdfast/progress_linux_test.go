package main

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/integration/pty"
)

// TestProgress: a long listing shows its progress on a terminal, and nowhere else.
func TestProgress(t *testing.T) {
	p := new(list.Progress)
	p.Found.Store(60_000)
	p.Done.Store(15_000)
	var plain bytes.Buffer
	showProgress(&plain, p)()
	if plain.Len() > 0 {
		t.Errorf("it shows %q where there is no terminal", &plain)
	}

	ours, theirs := pty.Open(t)
	end := showProgress(theirs, p)
	var shown bytes.Buffer
	for buf := make([]byte, 4096); !bytes.Contains(shown.Bytes(), []byte("25%")); {
		n, err := ours.Read(buf)
		if shown.Write(buf[:n]); err != nil {
			t.Fatalf("%v: it has shown %q", err, &shown)
		}
	}
	end()
	if !bytes.Contains(shown.Bytes(), []byte("reading")) || !bytes.Contains(shown.Bytes(), []byte("15000/60000")) {
		t.Errorf("it shows %q", &shown)
	}
}

// TestWidth: width returns the width of a terminal, and 0 for any other output.
func TestWidth(t *testing.T) {
	ours, theirs := pty.Open(t)
	if got := width(theirs); got != 80 { // the width of a terminal without a size
		t.Errorf("%d cells", got)
	}
	if err := unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: 60}); err != nil {
		t.Fatal(err)
	}
	if got := width(theirs); got != 60 {
		t.Errorf("%d cells", got)
	}
	if got := width(new(bytes.Buffer)); got != 0 {
		t.Errorf("%d cells where there is no terminal", got)
	}
}
