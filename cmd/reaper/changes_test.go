package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestChanged: a change is reported once, by the second read in a row that has it. That a file cannot
// be read is a change, and so is its return with the contents of before.
func TestChanged(t *testing.T) {
	c := &changes{last: hash{'a'}, seen: hash{'a'}}
	for i, read := range "aabcCc-!cbc--b-aA" { // letters are contents; - and ! mean unreadable; upper case and ! mean told
		now := hash{byte(unicode.ToLower(read))}
		if !unicode.IsLetter(read) {
			now = hash{}
		}
		if got, want := c.changed(now), unicode.IsUpper(read) || read == '!'; got != want {
			t.Errorf("read %d: told %v, want %v", i, got, want)
		}
	}
}

// TestGoneForAMoment: a file that is about to be replaced at the first read after the start is no change.
func TestGoneForAMoment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	iferr.Fatal(t, os.WriteFile(file, []byte(before), 0o600))
	if newChanges(file).changed(hash{}) {
		t.Error("told after one read")
	}
}

// TestRefusalEnds: the status stops showing a refused configuration when the next one is accepted,
// even if the next one is the one in force, or needs a restart.
func TestRefusalEnds(t *testing.T) {
	text := func(text string) func(file string) error {
		return func(file string) error { return os.WriteFile(file, []byte(text), 0o600) }
	}
	for name, test := range map[string]struct{ wrong, next func(file string) error }{
		"a mistake":                   {text("root: wrong\n"), text(before)},
		"a file that was not there":   {os.Remove, text(before)},
		"another root, after mistake": {text("root: wrong\n"), text("root: /after\n")},
	} {
		t.Run(name, func(t *testing.T) { refusalEnds(t, test.wrong, test.next) })
	}
}

// before is the first configuration of refusalEnds.
const before = "root: /before\n"

// refusalEnds fails unless the status shows a refusal once the file is wrong, and until it is the next.
func refusalEnds(t *testing.T, wrong, next func(file string) error) {
	file, hangups := filepath.Join(t.TempDir(), "config.yaml"), make(chan os.Signal)
	iferr.Fatal(t, os.WriteFile(file, []byte(before), 0o600))
	changes := newChanges(file)
	changes.every = 10 * time.Millisecond
	p := &program{Flags: app.Flags{Config: file}, errs: io.Discard, hangups: hangups, changes: changes}
	cfg, err := p.Load(t.Context())
	iferr.Fatal(t, err)
	logged := make(told, 1)
	d := &daemon{program: p, log: zerolog.New(logged), began: cfg, ended: make(chan *root)}
	r, err := d.newRoot(cfg.Each()[0])
	iferr.Fatal(t, err)
	d.roots = []*root{r}
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	following.Go(func() { p.changes.follow(ctx) })
	following.Go(func() { d.follow(ctx, p.changes.C) })
	refused := func(want bool) {
		t.Helper()
		for late := time.After(time.Minute); (r.daemon.Monitor().Status().Refused != nil) != want; {
			select {
			case <-logged: // after each change
			case <-late:
				t.Fatalf("refused: %v, want %v", !want, want)
			}
		}
	}
	iferr.Fatal(t, wrong(file))
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() { // any other file is noticed by itself
		hangups <- syscall.SIGHUP
	}
	refused(true)
	iferr.Fatal(t, next(file))
	refused(false)
}

// told is a log that becomes readable when it has got a line.
type told chan struct{}

func (l told) Write(line []byte) (int, error) {
	select {
	case l <- struct{}{}:
	default:
	}
	return len(line), nil
}
