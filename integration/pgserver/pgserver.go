//go:build unix

// Package pgserver starts PostgreSQL for tests and benchmarks of other modules. It imports no PostgreSQL client.
package pgserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// ForTest starts a server with an empty database, on a Unix socket in a folder of its own, and
// returns the database's URL. The server is stopped at the end of the test. If PostgreSQL is not
// installed, the test is skipped.
func ForTest(t *testing.T) (url string) {
	t.Helper()
	programs := Find()
	if programs == "" {
		zkserver.NotRun(t, "needs PostgreSQL (apt-get install postgresql)")
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	command, data, err := Prepare(programs, dir, "test", "--no-sync")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	server := command("postgres", "-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories="+dir, "-c", "fsync=off")
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- server.Wait() }()
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGINT) // fast shutdown
		if err := <-exited; err != nil {
			t.Errorf("PostgreSQL: %v\n%s", err, log.String())
		}
	})
	err = wait.Until(context.Background(), time.Minute, "PostgreSQL answers", func() (bool, error) {
		select {
		case err := <-exited:
			exited <- err
			return false, err
		default:
			return command("pg_isready", "-q", "-h", dir).Run() == nil, nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return "postgres://test@/postgres?sslmode=disable&host=" + dir
}

// Prepare creates an empty database in a folder below dir, data, with the given superuser. options
// are further ones of initdb. command returns a command of PostgreSQL's programs, which are in the
// folder programs. They refuse to run as root: then they run as the user 65534, which gets dir.
func Prepare(programs, dir, user string, options ...string) (command func(program string, args ...string) *exec.Cmd, data string, err error) {
	attributes := new(syscall.SysProcAttr)
	if os.Geteuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		if err := os.Chown(dir, 65534, 65534); err != nil {
			return nil, "", err
		}
	}
	command = func(program string, args ...string) *exec.Cmd {
		cmd, own := exec.Command(filepath.Join(programs, program), args...), *attributes
		cmd.Dir, cmd.SysProcAttr = dir, &own
		return cmd
	}
	data = filepath.Join(dir, "data")
	options = append(options, "--pgdata", data, "--username="+user, "--auth=trust", "--encoding=UTF8", "--no-locale")
	if output, err := command("initdb", options...).CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("initdb: %w: %s", err, output)
	}
	return command, data, nil
}

// Find returns the folder of PostgreSQL's programs; "" if there is none.
func Find() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if program, err := exec.LookPath("initdb"); err == nil {
		if program, err = filepath.EvalSymlinks(program); err == nil {
			found = append(found, program)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}
