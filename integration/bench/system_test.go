package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/foreign"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// TestSystems: a lock of another system excludes, wakes its waiters, and if it is free costs two
// requests and two transactions. After close the server no longer listens. Systems that are not
// installed are skipped.
func TestSystems(t *testing.T) {
	t.Setenv(zkserver.EnvNoInstall, "1")
	for _, p := range peers {
		if p.start == nil {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			server, err := p.start(t.Context())
			if errors.Is(err, zkserver.ErrNotInstalled) {
				zkserver.NotRun(t, "%v", err)
			}
			iferr.Fatal(t, err)
			t.Log(server.version)
			defer func() {
				iferr.Error(t, server.close())
				if conn, err := net.Dial("tcp", server.addr); err == nil {
					conn.Close()
					t.Errorf("a server still listens on %s", server.addr)
				}
			}()
			testLocks(t, p, server)
		})
	}
}

func testLocks(t *testing.T, p *peer, server *server) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := openAll(ctx, p, server.addr, 2)
	iferr.Fatal(t, err)
	defer func() {
		iferr.Error(t, s.close())
	}()
	at := &site{on: server}
	const path, n = root + "/test", 10
	one, two := s[0].locker(path), s[1].locker(path)
	free := func() (int, error) {
		_, err := timed(n, func(int) error { return one.cycle(ctx) })
		return n, err
	}
	if _, err := free(); err != nil { // warms up
		t.Fatal(err)
	}
	each, err := at.costOf(ctx, s, free)
	iferr.Fatal(t, err)
	renewals := 0.0
	if p.Name == "etcd" { // up to four renewals of its leases may fall among the ten cycles
		renewals = 0.4
	}
	if each.requests < 2 || each.requests > 2+renewals || each.transactions != 2 || each.out < 20 || each.in < 5 {
		t.Errorf("a free lock costs %+v; want 2 requests, 2 transactions, and some bytes", each)
	}

	iferr.Fatal(t, one.lock(ctx))
	if got, err := two.try(ctx); got || err != nil {
		t.Errorf("try of a held lock: %v, %v", got, err)
	}
	locked := make(chan error, 1)
	go func() { locked <- two.lock(ctx) }()
	iferr.Fatal(t, at.allWait(ctx, path, 2))
	select {
	case err := <-locked:
		t.Fatalf("a second client has the held lock: %v", err)
	// wall clock: that the lock is not granted is no event
	case <-time.After(50 * time.Millisecond):
	}
	iferr.Fatal(t, errors.Join(one.unlock(), <-locked))
	if got, err := one.try(ctx); got || err != nil {
		t.Errorf("the first client tries the second one's lock: %v, %v", got, err)
	}
	iferr.Error(t, two.unlock())
	if got, err := two.try(ctx); !got || err != nil {
		t.Errorf("try of a free lock: %v, %v", got, err)
	}
	iferr.Error(t, two.unlock())
}

// TestDaemons: startDaemon fails if the daemon does not start, and close fails if the daemon has
// ended by itself. Both errors have the daemon's output.
func TestDaemons(t *testing.T) {
	var dir string
	start := func(script string, ready func(context.Context) error) (*server, *daemon, error) {
		var one *daemon
		s, err := startDaemon(t.Context(), "daemon", func(d *daemon) error {
			one, dir = d, d.dir
			d.cmd, d.ready = exec.Command("sh", "-c", script), ready
			return nil
		})
		return s, one, err
	}
	_, _, err := start("echo out of order; exit 3", func(context.Context) error { return errors.New("no answer") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("one that does not start: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
	s, d, err := start("echo adieu; exec sleep 600", func(context.Context) error {
		if text, err := os.ReadFile(dir + "/server.log"); err != nil || len(text) == 0 {
			return fmt.Errorf("it said nothing: %v", err)
		}
		return nil
	})
	iferr.Fatal(t, err)
	d.Kill()
	if err := s.close(); err == nil || !strings.Contains(err.Error(), "had died by itself") || !strings.Contains(err.Error(), "adieu") {
		t.Errorf("close of one that died: %v", err)
	}
}

// TestWhatIsNotInstalled: a system that is not installed is left out, or an error if it must take
// part. Any other error of setUp is an error.
func TestWhatIsNotInstalled(t *testing.T) {
	there := &peer{Name: "there", Title: "There"}
	missing := &peer{Name: "missing", Title: "Missing", start: func(context.Context) (*server, error) {
		return nil, fmt.Errorf("%w: get it", zkserver.ErrNotInstalled)
	}}
	broken := &peer{Name: "broken", Title: "Broken", setUp: func(context.Context, string) (foreign.Program, error) {
		return foreign.Program{}, errors.New("it does not compile")
	}}
	ready, out, err := setUp(t.Context(), t.TempDir(), []*peer{missing, there}, false)
	if err != nil || !slices.Equal(ready, []*peer{there}) || !slices.Equal(out, []string{"Missing: it is not installed: get it"}) {
		t.Errorf("setUp: %d ready, left out %q, %v", len(ready), out, err)
	}
	if _, _, err := setUp(t.Context(), t.TempDir(), []*peer{missing, there}, true); !errors.Is(err, zkserver.ErrNotInstalled) {
		t.Errorf("setUp of what must be there: %v", err)
	}
	if _, _, err := setUp(t.Context(), t.TempDir(), []*peer{there, broken}, false); err == nil || !strings.Contains(err.Error(), "Broken: it does not compile") {
		t.Errorf("setUp of what is broken: %v", err)
	}
}

// TestNotesOfOtherSystems: exactly the peers on other systems are marked and have a note.
func TestNotesOfOtherSystems(t *testing.T) {
	for _, p := range peers {
		if other := p.start != nil; other != strings.HasSuffix(p.Title, " "+mark) || other != (p.Note != "") {
			t.Errorf("%s: title %q, note %q", p.Name, p.Title, p.Note)
		}
	}
}

// TestVariants: each experiment has a title of its own, by which results and bars refer to it, and
// -variants chooses among the servers.
func TestVariants(t *testing.T) {
	titles := func(names string) (all []string) {
		t.Helper()
		list, err := chooseExperiments(full, "", "", names, peers)
		iferr.Fatal(t, err)
		for _, e := range list {
			all = append(all, e.Workload+": "+e.Title)
		}
		slices.Sort(all)
		return all
	}
	everything := titles("")
	if len(slices.Compact(slices.Clone(everything))) != len(everything) {
		t.Errorf("a title twice:\n%s", strings.Join(everything, "\n"))
	}
	if n, of := len(titles(standalone+","+delayed+","+three)), len(everything); n != of {
		t.Errorf("%d experiments on all variants, %d without any named", n, of)
	}
	for _, title := range titles(three) {
		if !strings.HasSuffix(title, ", three servers on loopback") {
			t.Errorf("%q is not on three servers", title)
		}
	}
	if _, err := chooseExperiments(small, "", "", "four", peers); err == nil || !strings.Contains(err.Error(), `"four"`) {
		t.Errorf("an unknown variant: %v", err)
	}
}

// TestProcess: the answers of a peer's process become figures, and wrong answers become errors. The
// process is a shell script here.
func TestProcess(t *testing.T) {
	for _, test := range []struct{ name, handoff, want string }{
		{"as it should be", "mark; mark; ok 2000000000 0.5 1000000 3000000", ""},
		{"without marks", "ok 2000000000 0.5 1000000 3000000", "marked 0 moments"},
		{"without handoffs", "mark; mark; ok 2000000000 0", "not handed on"},
		{"failing", "failed as it is", "failed as it is"},
		{"not a number", "mark; mark; ok 1 one 1", "invalid syntax"},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines := strings.ReplaceAll(test.handoff, "; ", `\n`)
			script := fmt.Sprintf(`while read command rest; do case $command in handoff) printf '%s\n';; *) echo ok;; esac; done`, lines)
			p := &peer{program: foreign.Program{Command: func(...string) *exec.Cmd { return exec.Command("sh", "-c", script) }}}
			on := &server{
				addr:         "127.0.0.1:1",
				transactions: func(context.Context) (int64, error) { return 7, nil },
				requests:     func(context.Context) (float64, error) { return 7, nil },
			}
			figures := func(done performance) turn {
				return append(turn{done.took, done.passed, done.each.requests}, done.times...)
			}
			one, err := startProcess(t.Context(), &site{new(bench), on, on.addr}, p, 2, task{command: []any{"handoff"}, handoff: true, figures: figures})
			if err == nil {
				defer func() {
					iferr.Error(t, one.close())
				}()
			}
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("startProcess: %v, want %q", err, test.want)
				}
				return
			}
			iferr.Fatal(t, err)
			if done, err := one.round(t.Context()); err != nil || !slices.Equal(done, turn{2, 0.5, 0, 0.001, 0.003}) {
				t.Errorf("a round: %v, %v", done, err)
			}
		})
	}
}

func TestTurnsTellWhoIsNext(t *testing.T) {
	turns := &turns{room: 1}
	turns.measure(true)
	for _, client := range []int{0, 0, 1, 1, 1, 0} {
		iferr.Fatal(t, iferr.Of(turns.enter(client, time.Now())))
		turns.leave(time.Now(), time.Now())
	}
	if len(turns.latencies) != 6 || turns.passed != 2 {
		t.Errorf("%d handoffs, %d of them to another client; want 6 and 2", len(turns.latencies), turns.passed)
	}
}
