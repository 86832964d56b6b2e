package locktest_test

import (
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	runner "github.com/holdfast-io/holdfast/integration/script"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	return l
}

// serve serves the members of an ensemble on loopback until the end of the test, and returns their
// addresses.
func serve(t *testing.T, ens *locktest.Ensemble) []string {
	t.Helper()
	var addrs []string
	for _, member := range ens.Servers() {
		l := listen(t)
		addrs = append(addrs, l.Addr().String())
		served := make(chan error, 1)
		go func() { served <- ens.Serve(l, member) }()
		t.Cleanup(func() {
			ens.Close()
			iferr.Error(t, <-served)
		})
	}
	return addrs
}

// TestConformanceServed: over TCP, all scenarios have the same results.
func TestConformanceServed(t *testing.T) {
	runner.Each(t, "testdata/conformance", func(t *testing.T, sc *runner.Scenario) {
		t.Parallel() // the test mostly waits for sessions to expire
		ens := locktest.Start(t, locktest.Options{})
		newScript(t, serve(t, ens), net.DialTimeout).check(sc, runner.First)
	})
}

func ask(t *testing.T, addr, word string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	iferr.Fatal(t, err)
	defer conn.Close()
	iferr.Fatal(t, conn.SetDeadline(time.Now().Add(patience)))
	iferr.Fatal(t, iferr.Of(io.WriteString(conn, word)))
	answer, err := io.ReadAll(conn)
	if err != nil && !isClosed(err) {
		t.Fatalf("%s: %v", word, err)
	}
	return string(answer)
}

func TestServedWords(t *testing.T) {
	ens := locktest.Start(t, locktest.Options{Members: 3, TickTime: 2 * time.Second})
	addrs := serve(t, ens)
	conn, _, err := zk.Connect(addrs[:1], sessionTimeout, zk.WithLogInfo(false))
	iferr.Fatal(t, err)
	defer conn.Close()
	iferr.Fatal(t, iferr.Of(conn.Create("/a", []byte("12345"), zk.FlagEphemeral, open)))
	if _, _, _, err := conn.GetW("/a"); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	for word, want := range map[string][]string{
		"ruok": {"imok"},
		"srvr": {"Zookeeper version: 3.8.6-", "\nMode: follower\n", "\nNode count: 5\n", "\nZxid: 0x100000002\n"},
		"mntr": {"zk_server_state\tfollower\n", "zk_znode_count\t5\n", "zk_ephemerals_count\t1\n", "zk_watch_count\t1\n"},
		"conf": {"clientPort=" + port + "\n", "\nminSessionTimeout=4000\n", "\nmaxSessionTimeout=40000\n", "\nserverId=1\n"},
		"envi": {"zookeeper.version=3.8.6-"},
	} {
		for _, part := range want {
			if got := ask(t, addrs[0], word); !strings.Contains(got, part) {
				t.Errorf("%s says %q; want %q in it", word, got, part)
			}
		}
	}
	leaders := 0
	for _, addr := range addrs {
		if strings.Contains(ask(t, addr, "srvr"), "\nMode: leader\n") {
			leaders++
		}
	}
	if leaders != 1 {
		t.Errorf("%d members say that they lead; want 1", leaders)
	}
	if got := ask(t, addrs[0], "nope"); got != "" {
		t.Errorf("an unknown word is answered: %q", got)
	}
	if got := ens.Requests()["127.0.0.1"].Requests["create"]; got != 1 {
		t.Errorf("%d creates from 127.0.0.1; want 1", got)
	}
}

// TestCloseEndsServing: Close of the ensemble ends Serve and all its connections, also silent ones.
func TestCloseEndsServing(t *testing.T) {
	ens, l := locktest.Start(t, locktest.Options{}), listen(t)
	served := make(chan error, 1)
	go func() { served <- ens.Serve(l, ens.Servers()[0]) }()
	silent, err := net.Dial("tcp", l.Addr().String())
	iferr.Fatal(t, err)
	defer silent.Close()
	if got := ask(t, l.Addr().String(), "ruok"); got != "imok" {
		t.Fatalf("ruok says %q", got)
	}
	ens.Close()
	iferr.Error(t, <-served)
	if _, err := silent.Read(make([]byte, 1)); !isClosed(err) {
		t.Errorf("the silent connection ends with %v; want an end of file", err)
	}
	if err := ens.Serve(l, ens.Servers()[0]); err != nil {
		t.Errorf("Serve after Close: %v", err)
	}
}

func TestServeFails(t *testing.T) {
	ens, l := locktest.Start(t, locktest.Options{}), listen(t)
	if err := ens.Serve(nil, ens.Servers()[0]); err == nil || !strings.Contains(err.Error(), "listener is nil") {
		t.Errorf("without a listener: %v", err)
	}
	if err := ens.Serve(l, "absent:1"); err == nil || !strings.Contains(err.Error(), `"absent:1" is no member`) {
		t.Errorf("an unknown member: %v", err)
	}
	if err := ens.Serve(l, ens.Servers()[0]); err == nil || !strings.Contains(err.Error(), "use of closed network connection") {
		t.Errorf("a closed listener: %v", err)
	}
}

// TestServeOutlastsFailedAccepts: Serve continues after Accept has failed for a moment, for example
// because no file descriptor was free.
func TestServeOutlastsFailedAccepts(t *testing.T) {
	ens, l := locktest.Start(t, locktest.Options{}), listen(t)
	failing := &failingListener{Listener: l, errs: []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED}}
	served := make(chan error, 1)
	go func() { served <- ens.Serve(failing, ens.Servers()[0]) }()
	if got := ask(t, l.Addr().String(), "ruok"); got != "imok" {
		t.Errorf("ruok: %q", got)
	}
	ens.Close()
	iferr.Error(t, <-served)
}

// failingListener returns the errors, one by one, before it accepts.
type failingListener struct {
	net.Listener
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}
