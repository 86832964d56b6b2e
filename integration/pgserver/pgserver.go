//go:build unix

// Package pgserver starts PostgreSQL for tests of other modules. It imports no PostgreSQL client.
package pgserver

import (
	"context"
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
	programs := find()
	if programs == "" {
		zkserver.NotRun(t, "needs PostgreSQL (apt-get install postgresql)")
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(programs, program), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{}
		if os.Geteuid() == 0 { // PostgreSQL refuses to run as root: use the account nobody
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		}
		return cmd
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "--pgdata", data, "--username=test", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
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

// find returns the folder of PostgreSQL's programs; "" if there is none.
func find() string {
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
