// Withzk runs a command with a ZooKeeper server:
//
//	withzk [--] CMD ARGS...
//
// If the environment variable HOLDFAST_ZOOKEEPER names servers, it only runs the command. Otherwise
// it starts a server on 127.0.0.1, on a free port and with its data in a temporary folder. It
// passes the address in HOLDFAST_ZOOKEEPER, and stops the server when the command has ended. If
// ZooKeeper is missing, withzk installs it where this is allowed; see package zkserver. If
// ZooKeeper cannot be found or installed, the server is one in memory, like that of holdfast dev.
// Tests that lack something skip themselves, and withzk lists them at the end, with the reasons.
//
// It prints on standard error which ZooKeeper the command gets.
//
// It passes SIGTERM and SIGHUP on to the command. The terminal itself sends SIGINT and SIGQUIT to
// the command. The exit status is the command's: 128 plus the signal's number if a signal ended it,
// 126 if it could not be run, 127 if it was not found, and 125 if withzk itself failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// Exit statuses, as those of env(1).
const (
	exitFailed    = 125
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignalled = 128 // plus the signal's number
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: withzk [--] CMD ARGS...")
		os.Exit(exitFailed)
	}
	os.Exit(run(args))
}

func run(args []string) (code int) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return failed(err)
	}
	if servers := zkserver.External(); servers != nil {
		say("ZooKeeper at %s, of %s", strings.Join(servers, ","), zkserver.EnvServers)
		return failed(syscall.Exec(path, args, os.Environ()))
	}

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	server, interrupt, err := start(signals)
	if err != nil {
		say("%v", err)
	}
	if interrupt != nil {
		return signalled(interrupt)
	}
	if err != nil {
		return exitFailed
	}
	defer func() {
		if err := server.stop(); err != nil {
			say("%v", err)
			if code == 0 {
				code = exitFailed
			}
		}
	}()

	cmd := exec.Command(path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Env = append(os.Environ(), server.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return failed(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM || s == syscall.SIGHUP {
				_ = cmd.Process.Signal(s) // fails only if the command has ended
			}
		case err := <-ended:
			return status(cmd, err)
		}
	}
}

// start starts a server. If a signal comes before the server runs, start stops the server and
// returns the signal.
func start(signals <-chan os.Signal) (s *server, interrupt os.Signal, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan struct{})
	go func() {
		s, err = startServer(ctx)
		close(started)
	}()
	select {
	case <-started:
		return s, nil, err
	case interrupt = <-signals:
		cancel()
		<-started
		if err != nil {
			return nil, interrupt, nil // the start failed because of the signal
		}
		return nil, interrupt, s.stop()
	}
}

// status returns the exit status for a command that has ended.
func status(cmd *exec.Cmd, err error) int {
	if cmd.ProcessState == nil {
		return failed(err)
	}
	ended := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ended.Signaled() {
		return signalled(ended.Signal())
	}
	return ended.ExitStatus()
}

func signalled(s os.Signal) int { return exitSignalled + int(s.(syscall.Signal)) }

// failed prints why a command could not be run, and returns the exit status.
func failed(err error) int {
	say("%v", err)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "withzk: "+format+"\n", args...) }

// server is the command's ZooKeeper.
type server struct {
	env  []string // variables that name the server, and the file for skipped tests
	stop func() error
}

// startServer starts this machine's ZooKeeper, or one in memory if there is none, and creates the
// file for the tests that are not run.
func startServer(ctx context.Context) (*server, error) {
	notRun, err := os.CreateTemp("", "holdfast-not-run-*")
	if err != nil {
		return nil, err
	}
	defer notRun.Close() // nothing is written through it
	zk, err := zkserver.StartAny(ctx)
	if err != nil {
		return nil, errors.Join(err, os.Remove(notRun.Name()))
	}
	if zk.Missing == nil {
		say("ZooKeeper at %s, of %s", zk.Addr, zk.Home)
	} else {
		if os.Getenv(zkserver.EnvNoInstall) == "" { // say why the installation failed
			say("%v", zk.Missing)
		}
		say("ZooKeeper at %s, in memory as that of holdfast dev: none is installed", zk.Addr)
	}
	return &server{
		env:  append(zk.Env(), zkserver.EnvNotRun+"="+notRun.Name()),
		stop: func() error { return errors.Join(zk.Stop(), tellNotRun(notRun.Name()), os.Remove(notRun.Name())) },
	}, nil
}

// tellNotRun prints the tests that were not run, by reason.
func tellNotRun(path string) error {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return err
	}
	lines := slices.Compact(slices.Sorted(strings.Lines(string(data))))
	text, last := "", ""
	for _, line := range lines {
		reason, test, _ := strings.Cut(line, "\t")
		if reason != last {
			text += "\n  " + reason + ":"
			last = reason
		}
		text += "\n    " + strings.TrimSpace(test)
	}
	count := "1 test was"
	if len(lines) > 1 {
		count = fmt.Sprintf("%d tests were", len(lines))
	}
	say("%s not run:%s", count, text)
	return nil
}
