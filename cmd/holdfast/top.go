package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/admin"
)

func newTop(flags *app.Flags) *cobra.Command {
	var interval time.Duration
	by := string(list.ByWaiters)
	cmd := &cobra.Command{
		Use:   "top [PATTERN]",
		Short: "Show the most contended locks, live",
		Long: `Show the locks in use, live: those for which most wait come first, or those that
are held for the longest, or by name. PATTERN is as for holdfast ls.

Keys: w, a and n sort by waiters, age and name; the arrows, j and k scroll; q quits.
It needs a terminal; holdfast ls --watch prints elsewhere. Nothing is changed.

Exit status: 2 also if there is no terminal.`,
		Example:           `  holdfast top 'orders/**' --sort age`,
		Args:              app.Args(0, 1, "the name or pattern of locks, or none"),
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			what, err := chosen(optional(args))
			switch {
			case err != nil:
				return err
			case interval < minInterval:
				return app.Usage("--interval %v: must be at least %v", interval, minInterval)
			case by != string(list.ByWaiters) && by != string(list.ByAge) && by != string(list.ByName):
				return app.Usage("--sort %q: must be waiters, age or name", by)
			}
			in, reads := cmd.InOrStdin().(*os.File)
			if !reads || !app.IsTerminal(in) || !app.IsTerminal(cmd.OutOrStdout()) {
				return app.Usage("top needs a terminal: holdfast ls --watch prints elsewhere")
			}
			cfg, err := flags.Load(cmd.Context())
			if err != nil {
				return err
			}
			locks, err := app.Dial(cmd.Context(), cfg, zerolog.Nop()) // a log would disturb the screen
			if err != nil {
				return err
			}
			defer locks.Close()
			f := lsFlags{}
			t := &topView{
				view: list.View{Order: list.Order(by), Colour: coloured(cmd)}, interval: interval,
				read: func(ctx context.Context) (list.Listing, error) {
					return f.read(ctx, admin.New(locks), what, new(list.Progress))
				},
			}
			return t.run(cmd.Context(), in, newScreen(cmd.OutOrStdout(), true))
		},
	}
	cmd.Flags().StringVar(&by, "sort", by, "by what to sort: waiters, age or name")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "how often to look")
	return cmd
}

// topView is the state of "holdfast top": the view shown, and the last listing read.
type topView struct {
	view     list.View
	interval time.Duration
	read     func(context.Context) (list.Listing, error)

	last list.Listing
}

// run shows the view until the user quits or ctx ends. The end of ctx is no error.
func (t *topView) run(ctx context.Context, in *os.File, s *screen) error {
	defer s.close()
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("take over the terminal: %w", err)
	}
	defer term.Restore(int(in.Fd()), before)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, listings := make(chan string), make(chan news)
	go readKeys(ctx, in, keys)
	go t.readOn(ctx, listings)
	t.view.Note = "reading ..."
	for {
		t.view.Width, t.view.Height = s.size()
		if err := s.show(t.last.Top(t.view)); err != nil {
			return err
		}
		select {
		case key := <-keys:
			if t.press(key) {
				return nil
			}
		case n := <-listings:
			if t.view.Note = ""; n.err != nil {
				t.view.Note = "not up to date: " + n.err.Error()
			} else {
				t.last = n.listing
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// news is the result of a read.
type news struct {
	listing list.Listing
	err     error
}

// readOn reads repeatedly, and sends the results. It gives up a read that takes too long, so that the
// user is informed.
func (t *topView) readOn(ctx context.Context, to chan<- news) {
	const tooLong = 10 * time.Second
	for {
		limited, cancel := context.WithTimeout(ctx, max(tooLong, t.interval))
		l, err := t.read(limited)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("ZooKeeper has not answered for %v", max(tooLong, t.interval))
		}
		cancel()
		select {
		case to <- news{l, err}:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(t.interval):
		case <-ctx.Done():
			return
		}
	}
}

// readKeys sends keys until the input ends or ctx does. An arrow key is several bytes.
func readKeys(ctx context.Context, in *os.File, keys chan<- string) {
	buf := make([]byte, 64)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		select {
		case keys <- string(buf[:n]):
		case <-ctx.Done():
			return
		}
	}
}

// press handles a key, and reports whether to quit.
func (t *topView) press(key string) (quit bool) {
	v := &t.view
	switch key {
	case "q", "Q", "\x03", "\x04": // Ctrl-C and Ctrl-D, which arrive as keys on a raw terminal
		return true
	case "w":
		v.Order, v.Skip = list.ByWaiters, 0
	case "a":
		v.Order, v.Skip = list.ByAge, 0
	case "n":
		v.Order, v.Skip = list.ByName, 0
	case "j", "\x1b[B", "\x1bOB":
		v.Skip = min(v.Skip+1, max(0, len(t.last.Nodes)-(v.Height-3)))
	case "k", "\x1b[A", "\x1bOA":
		v.Skip = max(0, v.Skip-1)
	}
	return false
}
