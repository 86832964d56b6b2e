package supervise

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

func TestLeash(t *testing.T) {
	for _, want := range []leash{{2, 0}, {4711, 1}, {1<<31 - 1, 1<<63 - 1}, {99, -time.Second}} {
		line, ok := strings.CutSuffix(string(want.encode()), "\n")
		got, err := decodeLeash([]byte(line))
		if !ok || err != nil || got != want {
			t.Errorf("%v became %q, and then %v, %v", want, line, got, err)
		}
	}
	// Group 1 would be all processes, 0 the guard's own group, and -1 init.
	for _, line := range []string{"", " ", "5", "5 ", " 5", "a 5", "5 a", "5 6 7", "5  6", "1 5", "0 5", "-1 5", "-7 5", "2147483648 5", "5 9223372036854775808"} {
		if got, err := decodeLeash([]byte(line)); err == nil {
			t.Errorf("%q was taken for %v", line, got)
		}
	}
}

// watch is a call of keepWatch, with the ends of its pipes.
type watch struct {
	news   *os.File
	answer *bufio.Reader
	result chan verdict
}

type verdict struct {
	group int
	why   string
	at    time.Duration
}

func startWatch(t *testing.T) *watch {
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		iferr.Fatal(t, err)
		t.Cleanup(func() { r.Close(); w.Close() })
		return r, w
	}
	in, news := pipe()
	answers, out := pipe()
	w := &watch{news, bufio.NewReader(answers), make(chan verdict, 1)}
	go func() {
		group, why := keepWatch(in, out)
		w.result <- verdict{group, why, now()}
		out.Close()
	}()
	return w
}

// TestTellDoesNotWait: tell does not wait for a stopped guard. When the guard continues, it finds
// whole lines in the pipe, from the first one on.
func TestTellDoesNotWait(t *testing.T) {
	in, news, err := os.Pipe()
	iferr.Fatal(t, err)
	defer in.Close()
	g := &guard{news: news}
	const told = 10_000 // more messages than the 64 KiB of a pipe hold
	for i := range told {
		g.tell(leash{4711, time.Duration(i)})
	}
	news.Close()
	g.tell(leash{4711, told}) // the guard was dismissed: the message is dropped
	lines := bufio.NewScanner(in)
	var read int
	for ; lines.Scan(); read++ {
		if got, err := decodeLeash(lines.Bytes()); err != nil || got != (leash{4711, time.Duration(read)}) {
			t.Fatalf("line %d: %v, %v", read, got, err)
		}
	}
	if read == 0 || read == told {
		t.Errorf("%d of %d lines are in the pipe", read, told)
	}
}

// TestGuard: the guard kills the group of the latest leash at its time, when the pipe closes, or at a
// line that is no leash. It confirms the first leash, however it arrives.
func TestGuard(t *testing.T) {
	in := func(d time.Duration) string { return string(leash{4711, now() + d}.encode()) }
	const late, died = "no renewal was told of", "has died"
	soon := in(50 * time.Millisecond)
	for name, test := range map[string]struct {
		news   []string
		closes bool
		group  int
		why    string
	}{
		"parent exits":              {[]string{in(time.Hour)}, true, 4711, died},
		"parent exits before a pid": {nil, true, 0, died},
		"in time":                   {[]string{soon}, false, 4711, late},
		"longer":                    {[]string{in(20*time.Millisecond) + in(100*time.Millisecond)}, false, 4711, late},
		"shorter":                   {[]string{in(time.Hour) + in(100*time.Millisecond)}, false, 4711, late},
		"over already":              {[]string{in(time.Hour) + in(-time.Hour)}, false, 4711, late},
		"at the epoch":              {[]string{in(time.Hour) + in(-now())}, false, 4711, late},
		"an invalid line":           {[]string{in(time.Hour), "4711 soon\n"}, false, 4711, `"4711 soon"`},
		"in pieces":                 {[]string{soon[:3], soon[3:]}, false, 4711, late},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWatch(t)
			for _, text := range test.news {
				iferr.Fatal(t, iferr.Of(io.WriteString(w.news, text)))
			}
			if test.closes {
				w.news.Close()
			}
			answer, err := w.answer.ReadString('\n')
			if test.group == 0 && err != io.EOF || test.group != 0 && answer != armed {
				t.Fatalf("the guard answers %q, %v", answer, err)
			}
			v := <-w.result
			if v.group != test.group || !strings.Contains(v.why, test.why) {
				t.Errorf("the guard is to kill group %d because %q, want %d, %q", v.group, v.why, test.group, test.why)
			}
			if test.why != late {
				return
			}
			lines := strings.Split(strings.Join(test.news, ""), "\n")
			if last, err := decodeLeash([]byte(lines[len(lines)-2])); err != nil || v.at < last.until {
				t.Errorf("killed %v before its time, %v", last.until-v.at, err)
			}
		})
	}
}

// pausing is a hold whose Remaining returns late, as if this process had been paused before it
// informs the guard.
type pausing struct{ end, pause time.Duration }

func (h pausing) Name() string             { return "x" }
func (h pausing) Context() context.Context { return context.Background() }
func (h pausing) Err() error               { return nil }
func (h pausing) Remaining() time.Duration {
	left := h.end - now()
	time.Sleep(h.pause) // wall clock: the pause is what the test is about
	return left
}

func TestPauseDoesNotExtendTheLeash(t *testing.T) {
	in, news, err := os.Pipe()
	iferr.Fatal(t, err)
	defer in.Close()
	end := now() + time.Minute
	s := &supervisor{
		hold: pausing{end, 100 * time.Millisecond}, leads: leadsFor(30 * time.Second),
		process: &process{pid: 4711, guard: &guard{news: news}},
	}
	s.left()
	if s.end > end {
		t.Errorf("the lease is taken to end %v late", s.end-end)
	}
	news.Close()
	var l leash
	iferr.Fatal(t, iferr.Of(fmt.Fscan(in, &l.group, (*int64)(&l.until))))
	if most := end - s.leads.kill; l.group != 4711 || l.until > most {
		t.Errorf("the guard was told %v, %v too late", l, l.until-most)
	}
}

// exchange is the main function of the test binary if envThread is set. As a gate it becomes the
// command, on another thread than its first one. As the command it prints its parent-death signal.
func exchange() int {
	if os.Args[0] != gateName {
		var signal int32
		if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0); err != nil {
			panic(err)
		}
		fmt.Println(signal)
		return 0
	}
	runtime.LockOSThread() // keeps the first thread: the code below runs on another one
	code := make(chan int)
	go func() { code <- pass(os.Args[1], os.Args[2], os.Args[3:]) }()
	return <-code
}

// TestCommandDiesWithRun: the command's parent-death signal is SIGKILL, even if another thread than
// the gate's first one has become the command.
func TestCommandDiesWithRun(t *testing.T) {
	gate, open, err := os.Pipe()
	iferr.Fatal(t, err)
	defer gate.Close()
	iferr.Fatal(t, iferr.Of(open.Write([]byte{1})))
	open.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{gateName, strconv.Itoa(3), os.Args[0], "command"}
	cmd.Env = append(os.Environ(), envThread+"=1")
	cmd.ExtraFiles = []*os.File{gate} // file 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal depends on this thread's end
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != fmt.Sprint(int(syscall.SIGKILL)) {
		t.Errorf("the command gets signal %q when its parent dies, want %d: %v", got, syscall.SIGKILL, err)
	}
}

// TestLeftRunning: Run tells that it kills what the command has left running. It tells nothing if there
// is nothing.
func TestLeftRunning(t *testing.T) {
	for script, want := range map[string][]string{
		`sleep 1000 >/dev/null 2>&1 & echo done`: {"done", "told: the command has ended, and left processes running (1): they are killed, since the lock is given up"},
		`echo done`:                              {"done"},
	} {
		a := act(t, "1h renewed", script)
		var got []string
		for line := range a.lines {
			if !strings.HasPrefix(line, "foreground:") {
				got = append(got, line)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}
