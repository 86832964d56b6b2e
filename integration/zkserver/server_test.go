package zkserver

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// patience is the limit of a wait on a busy machine.
const patience = time.Minute

// lasting is the session timeout of clients whose sessions must survive. A client sends a ping only
// after a third of it.
const lasting = time.Minute

func stop(t *testing.T, s interface{ Stop() error }) {
	t.Helper()
	iferr.Error(t, s.Stop())
}

// connect returns a client that dials through the tap. The client is closed at the end of the test.
func connect(t *testing.T, timeout time.Duration, tap *Tap, servers ...string) *zk.Conn {
	t.Helper()
	conn, _ := dial(t, timeout, tap.Dial, servers...)
	return conn
}

// dial is like connect, with any dialer. It also returns the client's events.
func dial(t *testing.T, timeout time.Duration, dialer zk.Dialer, servers ...string) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	conn, events, err := zk.Connect(servers, timeout, zk.WithDialer(dialer), zk.WithLogInfo(false), zk.WithLogger(silent{}))
	iferr.Fatal(t, err)
	t.Cleanup(conn.Close)
	return conn, events
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func create(t *testing.T, conn *zk.Conn, path string, data string, flags int32) {
	t.Helper()
	iferr.Fatal(t, iferr.Of(conn.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))))
}

// awaitState waits until a client's session is in a state.
func awaitState(t *testing.T, events <-chan zk.Event, state zk.State) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case e := <-events:
			if e.State == state {
				return
			}
		case <-timeout:
			t.Fatalf("the client did not get to state %v", state)
		}
	}
}

func TestStartStop(t *testing.T) {
	NeedReal(t)
	s, err := Start(t.Context(), Options{})
	iferr.Fatal(t, err)
	defer stop(t, s)
	stats, err := s.Mntr(t.Context())
	iferr.Fatal(t, err)
	if got := stats["zk_server_state"]; got != "standalone" {
		t.Errorf("zk_server_state of mntr is %q", got)
	}
	if tail := s.LogTail(3); strings.Count(tail, "\n") != 2 || !strings.Contains(tail, "INFO") {
		t.Errorf("LogTail(3) is %q", tail)
	}
	pid := s.Pid()
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("process %d: %v", pid, err)
	}

	stop(t, s)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d after Stop: %v", pid, err)
	}
	if s.Pid() != 0 {
		t.Errorf("Pid() after Stop is %d", s.Pid())
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder after Stop: %v", err)
	}
	l, err := net.Listen("tcp", s.Addr())
	if err != nil {
		t.Errorf("port after Stop: %v", err)
	} else {
		l.Close()
	}
	if err := s.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), "was stopped") {
		t.Errorf("Restart after Stop: %v", err)
	}
	for name, err := range map[string]error{"Pause": s.Pause(), "Resume": s.Resume()} {
		if err == nil || !strings.Contains(err.Error(), "does not run") {
			t.Errorf("%s after Stop: %v", name, err)
		}
	}
	s.Kill() // nothing to kill
}

func TestStopTellsOfAServerThatDied(t *testing.T) {
	NeedReal(t)
	s, err := Start(t.Context(), Options{})
	iferr.Fatal(t, err)
	iferr.Fatal(t, syscall.Kill(s.Pid(), syscall.SIGKILL))
	<-s.proc.exited
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "had died by itself: signal: killed") {
		t.Errorf("Stop: %v", err)
	}
}

func TestBadConfigTellsTheLog(t *testing.T) {
	NeedReal(t)
	t.Setenv("TMPDIR", t.TempDir())
	_, err := Start(t.Context(), Options{Config: []string{"tickTime=soon"}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"did not start", "exit status 2", `NumberFormatException: For input string: "soon"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestStartObeysItsContext(t *testing.T) {
	NeedReal(t)
	t.Setenv("TMPDIR", t.TempDir())
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := Start(ctx, Options{}); !errors.Is(err, cause) {
		t.Errorf("Start: %v", err)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestPortsOfOtherProcesses: no other process can reserve a port that FreePorts has returned.
func TestPortsOfOtherProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no port is closed to this user here")
	}
	ports, err := FreePorts(1)
	iferr.Fatal(t, err)
	if mark, err := reserve(ports[0]); err == nil {
		mark.Close()
		t.Errorf("port %d, which was given, can be had by another one", ports[0])
	}
}

func TestEnsembleIsThreeOrMore(t *testing.T) {
	if _, err := StartEnsemble(t.Context(), 2, Options{}); err == nil || !strings.Contains(err.Error(), "2 servers: must be 3 or more") {
		t.Errorf("StartEnsemble(2): %v", err)
	}
}
