// Package kazoo runs the tests of kazoo, the Python client of ZooKeeper, on the ensemble in memory
// that `holdfast dev` serves. The tests are unmodified, so they check the ensemble independently of
// this project.
package kazoo

import (
	"bufio"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/foreign"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// missing is a feature of ZooKeeper that the ensemble in memory does not model.
type missing struct {
	cases *regexp.Regexp // cases of kazoo that need the feature
	needs string
}

// notModelled lists all cases of kazoo that fail. If a listed case passes, the test fails, and the
// case must be deleted here.
var notModelled = []missing{
	{regexp.MustCompile(`::test_create_makepath_incompatible_acls$`), "the super user of ZooKeeper"},
	{regexp.MustCompile(`^TestReadOnlyMode::`), "servers that serve reads without a majority"},
	{regexp.MustCompile(`SASLDigestAuthentication::`), "SASL"},
}

// neverEnds is a pytest expression of cases that are not run. The cases need dynamic
// reconfiguration. The ensemble answers with the error "reconfiguration is disabled" (-123). kazoo
// 2.8 does not know this error, and waits forever.
const neverEnds = "TestReconfig"

// moduleTimeout is the limit for one file of tests.
const moduleTimeout = 5 * time.Minute

// members is the number of servers in kazoo's tests. step is the distance of their ports.
const members, step = 3, 10

// socket names the environment variable with the path of the ensemble's socket.
const socket = "HOLDFAST_KAZOO_SOCKET"

// TestMain also stands in for the program "java", with which kazoo's tests start and stop servers.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "java" {
		if err := standIn(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, "java:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// standIn is the process of one server, and config the path of its configuration. While standIn
// runs, the member with the client port of the configuration runs.
func standIn(config string) error {
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	port := regexp.MustCompile(`(?m)^clientPort=(\d+)$`).FindSubmatch(text)
	if port == nil {
		return fmt.Errorf("%s: no clientPort", config)
	}
	conn, err := net.Dial("unix", os.Getenv(socket))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s\n", port[1]); err != nil {
		return err
	}
	<-stopped.Done()
	conn.(*net.UnixConn).CloseWrite()
	_, err = io.Copy(io.Discard, conn) // until the member has stopped
	return err
}

func TestSuite(t *testing.T) {
	if os.Getenv("HOLDFAST_KAZOO") == "" {
		zkserver.NotRun(t, "left to make kazoo (two minutes, for the ensemble in memory only)")
	}
	python, err := foreign.KazooTests(t.Context())
	switch {
	case errors.Is(err, zkserver.ErrNotInstalled):
		zkserver.NotRun(t, "needs kazoo's tests: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Logf("%s on the ensemble in memory", python.Version)
	dir := t.TempDir()
	ens := locktest.Start(t, locktest.Options{Members: members, TickTime: 2 * time.Second})
	first := freePorts(t)
	listen(t, ens, filepath.Join(dir, "socket"), first)
	self, err := os.Executable()
	iferr.Fatal(t, err)
	iferr.Fatal(t, os.Symlink(self, filepath.Join(dir, "java")))

	listing := python.Command("-c", "import kazoo.tests; print(kazoo.tests.__path__[0])")
	folder, err := listing.Output()
	iferr.Fatal(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), "test_*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("kazoo's tests in %s: %v", folder, err)
	}
	all := report{excused: make([]int, len(notModelled))}
	for _, file := range files {
		module := strings.TrimSuffix(filepath.Base(file), ".py")
		t.Run(module, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), moduleTimeout)
			defer cancel()
			results := filepath.Join(dir, module+".xml")
			args := []string{"-v", "-p", "no:cacheprovider", "-k", "not " + neverEnds, "--junitxml", results, "--pyargs", "kazoo.tests." + module}
			bare := python.Command(append([]string{"-u", "-m", "pytest"}, args...)...)
			cmd := exec.CommandContext(ctx, bare.Path, bare.Args[1:]...)
			cmd.Dir = dir
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with the servers that it started
			cmd.Env = append(os.Environ(), socket+"="+filepath.Join(dir, "socket"),
				"PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1",
				"ZOOKEEPER_CLASSPATH=unused", "ZOOKEEPER_VERSION=3.8.0", "ZOOKEEPER_PORT_OFFSET="+strconv.Itoa(first))
			cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
			err := cmd.Run()
			// Exit status 1: some cases failed.
			if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
				t.Fatal("pytest:", err)
			}
			all.add(t, results)
		})
	}
	t.Logf("%d cases passed, %d skipped by kazoo", all.passed, all.skipped)
	for i, n := range notModelled {
		t.Logf("%d failed, as they need %s", all.excused[i], n.needs)
	}
}

// freePorts returns the first of the members' free ports, which are step apart.
func freePorts(t *testing.T) int {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		iferr.Fatal(t, err)
		first := l.Addr().(*net.TCPAddr).Port
		listeners := []net.Listener{l}
		for i := 1; i < members; i++ {
			if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", first+i*step)); err == nil {
				listeners = append(listeners, l)
			}
		}
		for _, l := range listeners {
			l.Close()
		}
		if len(listeners) == members {
			return first
		}
	}
	t.Fatal("no free ports")
	return 0
}

// listen stops all members. After that, until the end of the test, a member runs while the member's
// stand-in is connected to the socket.
func listen(t *testing.T, ens *locktest.Ensemble, path string, first int) {
	sock, err := net.Listen("unix", path)
	iferr.Fatal(t, err)
	for _, member := range ens.Servers() {
		iferr.Fatal(t, ens.Stop(member))
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := sock.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				if err := run(ens, conn, first); err != nil {
					t.Error("a member:", err)
				}
			})
		}
	})
	t.Cleanup(all.Wait)
	t.Cleanup(func() { sock.Close() })
}

// run runs the member whose port is in the first line of conn, until conn ends.
func run(ens *locktest.Ensemble, conn net.Conn, first int) error {
	lines := bufio.NewReader(conn)
	line, err := lines.ReadString('\n')
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	member := ens.Servers()[(port-first)/step]
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- ens.Serve(l, member) }()
	if err := ens.Start(member); err != nil {
		return err
	}
	io.Copy(io.Discard, lines)
	l.Close()
	if err := <-served; err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return ens.Stop(member)
}

// report has the results of all files.
type report struct {
	passed, skipped int
	excused         []int // number of failed cases, for each of notModelled
}

// add adds the results that pytest has written to path. A result that notModelled does not expect
// is an error.
func (r *report) add(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	iferr.Fatal(t, err)
	type outcome struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	var suite struct {
		Cases []struct {
			Class   string   `xml:"classname,attr"`
			Name    string   `xml:"name,attr"`
			Failure *outcome `xml:"failure"`
			Error   *outcome `xml:"error"`
			Skipped *outcome `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	iferr.Fatal(t, xml.Unmarshal(text, &suite))
	for _, c := range suite.Cases {
		name := c.Class[strings.LastIndexByte(c.Class, '.')+1:] + "::" + c.Name
		bad := cmp.Or(c.Failure, c.Error)
		why := slices.IndexFunc(notModelled, func(n missing) bool { return n.cases.MatchString(name) })
		switch {
		case c.Skipped != nil:
			r.skipped++
		case bad == nil && why >= 0:
			t.Errorf("%s passes, though it is said to need %s: mend the list", name, notModelled[why].needs)
		case bad == nil:
			r.passed++
		case why >= 0:
			r.excused[why]++
		default:
			t.Errorf("%s: %s\n%s", name, bad.Message, bad.Text)
		}
	}
}
