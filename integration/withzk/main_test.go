package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// envMain makes the test binary act as withzk.
const envMain = "WITHZK_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(envMain) != "" {
		os.Unsetenv(envMain)
		main()
	}
	goleak.VerifyTestMain(m)
}

// withzk returns a command that runs withzk with the arguments, the buffer of its standard error,
// and the folder for its server.
func withzk(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer, tmp string) {
	t.Helper()
	tmp = t.TempDir()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), envMain+"=1", "TMPDIR="+tmp, zkserver.EnvServers+"=", zkserver.EnvEmbedded+"=", zkserver.EnvNotRun+"=", zkserver.EnvNoInstall+"=1")
	stderr = new(bytes.Buffer)
	cmd.Stderr = stderr
	t.Cleanup(func() {
		if cmd.Process != nil {
			cmd.Process.Kill() // only needed if the test failed
			cmd.Wait()
		}
	})
	return cmd, stderr, tmp
}

// begin starts a command that prints the address of its server. The server's answer to srvr must
// contain says.
func begin(t *testing.T, cmd *exec.Cmd, stderr *bytes.Buffer, says string) (stdin io.WriteCloser, addr string) {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	iferr.Fatal(t, err)
	stdout, err := cmd.StdoutPipe()
	iferr.Fatal(t, err)
	iferr.Fatal(t, cmd.Start())
	if _, err := fmt.Fscanln(stdout, &addr); err != nil {
		t.Fatal(err, stderr)
	}
	if answer := ask(t, addr); !strings.Contains(answer, says) {
		t.Errorf("srvr: %q", answer)
	}
	return stdin, addr
}

// checkGone checks that the server has ended and its folder was deleted.
func checkGone(t *testing.T, addr, tmp string) {
	t.Helper()
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Errorf("the server at %s still runs", addr)
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil || left != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// says begins the line about the command's ZooKeeper.
const says = "withzk: ZooKeeper at "

func TestExitStatus(t *testing.T) {
	for _, test := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"success", []string{"sh", "-c", "echo $HOLDFAST_ZOOKEEPER"}, 0, says},
		{"failure", []string{"--", "sh", "-c", "echo $HOLDFAST_ZOOKEEPER; exit 7"}, 7, says},
		{"signal", []string{"sh", "-c", "echo $HOLDFAST_ZOOKEEPER; kill -KILL $$"}, 128 + 9, says},
		{"not found", []string{"no-such-command"}, exitNotFound, `withzk: exec: "no-such-command": executable file not found in $PATH`},
		{"cannot run", []string{"/"}, exitCannotRun, `withzk: exec: "/":`},
		{"no command", []string{"--"}, exitFailed, "usage: withzk [--] CMD ARGS..."},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, stderr, tmp := withzk(t, test.args...)
			stdout, err := cmd.Output()
			if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit status %d: want %d", code, test.code)
			}
			if got := stderr.String(); !strings.HasPrefix(got, test.stderr) || strings.Count(got, "\n") != 1 {
				t.Errorf("stderr %q: want one line, %q", got, test.stderr)
			}
			if addr := strings.TrimSpace(string(stdout)); test.stderr == says {
				if !strings.HasPrefix(stderr.String(), says+addr+", ") {
					t.Errorf("stderr %q: want %s in it", stderr, addr)
				}
				checkGone(t, addr, tmp)
			} else if addr != "" {
				t.Errorf("stdout %q", addr)
			}
		})
	}
}

func ask(t *testing.T, addr string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	iferr.Fatal(t, err)
	defer conn.Close()
	iferr.Fatal(t, iferr.Of(io.WriteString(conn, "srvr")))
	answer, err := io.ReadAll(conn)
	iferr.Fatal(t, err)
	return string(answer)
}

func TestSignals(t *testing.T) {
	for _, test := range []struct {
		name, script string
		signal       syscall.Signal
		code         int
	}{
		{"SIGTERM ends the command", "echo $HOLDFAST_ZOOKEEPER; exec sleep 60", syscall.SIGTERM, 128 + 15},
		{"the command has its own way", "trap 'kill $!; exit 3' HUP; sleep 60 & echo $HOLDFAST_ZOOKEEPER; wait", syscall.SIGHUP, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, stderr, tmp := withzk(t, "sh", "-c", test.script)
			_, addr := begin(t, cmd, stderr, "Mode: standalone")
			iferr.Fatal(t, cmd.Process.Signal(test.signal))
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit status %d: want %d", code, test.code)
			}
			if got := stderr.String(); !strings.HasPrefix(got, says) || strings.Count(got, "\n") != 1 {
				t.Errorf("stderr %q", got)
			}
			checkGone(t, addr, tmp)
		})
	}
}

func TestNamedServersAreUsed(t *testing.T) {
	cmd, stderr, tmp := withzk(t, "sh", "-c", "echo $HOLDFAST_ZOOKEEPER $PPID $$; exit 5")
	cmd.Env = append(cmd.Env, zkserver.EnvServers+"=example.org:2181")
	stdout, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("%v, stderr %s", err, stderr)
	}
	// Withzk replaced its process by the command.
	want := fmt.Sprintf("example.org:2181 %d %d\n", os.Getpid(), cmd.ProcessState.Pid())
	if string(stdout) != want {
		t.Errorf("stdout %q: want %q", stdout, want)
	}
	if got := stderr.String(); got != says+"example.org:2181, of HOLDFAST_ZOOKEEPER\n" {
		t.Errorf("stderr %q", got)
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || left != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestWithoutJava: without java the command gets a ZooKeeper in memory. At the end withzk prints
// the tests that were not run, by reason.
func TestWithoutJava(t *testing.T) {
	cmd, stderr, tmp := withzk(t, "/bin/sh", "-c", `echo $HOLDFAST_ZOOKEEPER; printf 'needs x\tTestB\nneeds a y\tTestC\nneeds x\tTestA\nneeds x\tTestB\n' >>$HOLDFAST_NOT_RUN; read line; exit ${HOLDFAST_EMBEDDED:-2}`)
	cmd.Env = append(cmd.Env, "PATH="+t.TempDir(), "JAVA_HOME=", "ZOOKEEPER_HOME=")
	stdin, addr := begin(t, cmd, stderr, "locktest")
	fmt.Fprintln(stdin)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit status %d, want that of HOLDFAST_EMBEDDED=1", code)
	}
	want := says + addr + ", in memory as that of holdfast dev: none is installed\n" +
		"withzk: 3 tests were not run:\n  needs a y:\n    TestC\n  needs x:\n    TestA\n    TestB\n"
	if got := stderr.String(); got != want {
		t.Errorf("stderr %q; want %q", got, want)
	}
	checkGone(t, addr, tmp)
}

func TestFailsWithoutZooKeeper(t *testing.T) {
	cmd, stderr, _ := withzk(t, "/bin/echo", "must not run")
	cmd.Env = append(cmd.Env, "ZOOKEEPER_HOME="+t.TempDir())
	stdout, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != exitFailed || len(stdout) != 0 {
		t.Errorf("exit status %d, %v, stdout %q", code, err, stdout)
	}
	if got := stderr.String(); !strings.HasPrefix(got, "withzk: zkserver: ZOOKEEPER_HOME=") {
		t.Errorf("stderr %q", got)
	}
}
