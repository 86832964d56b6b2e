//go:build linux

package integration_test

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/foreign"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

//go:embed testdata/dev/DevClient.java
var devJava []byte

//go:embed testdata/dev/dev_client.py
var devPython []byte

// TestDev: holdfast dev serves clients in several languages, and Holdfast's commands.
func TestDev(t *testing.T) {
	t.Parallel()
	bin := programs(t)
	for name, test := range map[string]func(t *testing.T, servers []string){
		"GoZookeeper": devGoZookeeper,
		"Ls":          func(t *testing.T, servers []string) { devLs(newCLI(on(t, servers), bin)) },
		"Demo":        func(t *testing.T, servers []string) { newCLI(on(t, servers), bin).demo() },
		"ZkCli":       devZkCli,
		"Kazoo": func(t *testing.T, servers []string) {
			devForeign(t, servers, "dev_client.py", devPython, foreign.Kazoo)
		},
		"Curator": func(t *testing.T, servers []string) {
			devForeign(t, servers, "DevClient", devJava, foreign.Curator)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, dev(t, bin, "--members", "3", "--clock-skew", "90s"))
		})
	}
}

// dev starts holdfast dev on free ports until the end of the test, and returns its addresses. The
// interrupt at the end of the test must end holdfast dev with status 0 and no output to standard
// error.
func dev(t *testing.T, bin string, args ...string) []string {
	t.Helper()
	w, err := zkserver.StartWorker(exec.Command(filepath.Join(bin, "holdfast"), append([]string{"dev", "--listen", "127.0.0.1:0"}, args...)...))
	iferr.Fatal(t, err)
	t.Cleanup(func() { w.Close(0) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	line, err := w.Hear(ctx)
	if err != nil {
		t.Fatalf("%v\n%s", err, w.Stderr())
	}
	said := regexp.MustCompile(`^ZooKeeper in memory at ([0-9.:,]+); all its data is gone when it ends \(Ctrl-C\)\.$`).FindStringSubmatch(line.Text)
	if said == nil {
		t.Fatalf("it begins with %q", line.Text)
	}
	t.Cleanup(func() {
		iferr.Error(t, w.Signal(syscall.SIGINT))
		if <-w.Exited(); w.ExitCode() != 0 || w.Stderr() != "" {
			t.Errorf("it ends with status %d, and says %q", w.ExitCode(), w.Stderr())
		}
	})
	return strings.Split(said[1], ",")
}

// devGoZookeeper: the entry of a lock taken at one member can be read at another member, with a
// stamp of the leader's clock.
func devGoZookeeper(t *testing.T, servers []string) {
	b, other := on(t, servers[:1]), on(t, servers[1:2])
	hold := b.lock(b.client(), "orders/42")
	iferr.Fatal(t, iferr.Of(other.raw.Sync(hold.EntryPath())))
	_, stat, err := other.raw.Get(hold.EntryPath())
	iferr.Fatal(t, err)
	if ahead := time.Until(time.UnixMilli(stat.Mtime)); (ahead - 3*90*time.Second).Abs() > time.Minute {
		t.Errorf("the leader's clock is %v ahead; want that of the third member, 4m30s", ahead)
	}
	b.unlock(hold)
	b.prune("orders")
}

// devLs: ls, run as a command under a lock, lists that lock. doctor says that the server keeps its
// data in memory.
func devLs(c *cli) {
	p := c.start("run", "nightly/export", "--", c.prog, "ls", "--json", "--servers", strings.Join(c.servers, ","), "--root", c.root)
	out := p.rest()
	p.mustExit(0)
	if !strings.Contains(out, `"nightly/export"`) {
		c.Errorf("holdfast ls says\n%s", out)
	}
	if out := c.output("doctor"); !strings.Contains(out, c.servers[2]+": this is holdfast dev, which keeps all data in memory") {
		c.Errorf("holdfast doctor says\n%s", out)
	}
	c.prune("nightly")
}

// devZkCli: typical commands of zkCli work, and unsupported commands are refused without a lost
// connection.
func devZkCli(t *testing.T, servers []string) {
	b := on(t, servers)
	said := b.zkCli(strings.ReplaceAll(strings.Join([]string{
		"create ROOT data", "create -c ROOT/container", "create -e -s ROOT/container/e- x", "create -t 1000 ROOT/ttl", "set -v 0 ROOT two", "get -w ROOT",
		"removewatches ROOT", "ls -R ROOT", "whoami", "addauth digest me:pw", "getAcl ROOT", "deleteall ROOT",
	}, "\n"), "ROOT", b.root))
	for _, want := range []string{
		"Created " + b.root + "/container/e-0000000000", "Unimplemented for " + b.root + "/ttl", "two", "DataWatchRemoved", "'world,'anyone",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("zkCli does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "ConnectionLoss") {
		t.Errorf("zkCli lost its connection:\n%s", said)
	}
}

// devForeign: a client in another language gets the results that it expects. The test is skipped if
// the library is not available.
func devForeign(t *testing.T, servers []string, name string, source []byte, program func(context.Context, string, string, []byte) (foreign.Program, error)) {
	p, err := program(t.Context(), t.TempDir(), name, source)
	if err != nil && strings.HasPrefix(err.Error(), "javac: ") {
		t.Fatal(err)
	}
	if err != nil {
		zkserver.NotRun(t, "needs the library: %v", err)
	}
	if out, err := p.Command(strings.Join(servers, ",")).CombinedOutput(); err != nil || !strings.Contains(string(out), "all is well") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestProgramOfREADME: the README's first program, as a module of its own, builds and runs on
// holdfast dev.
func TestProgramOfREADME(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), wholeTest)
	defer cancel()
	snippets := fenced(t, "go")
	i := slices.IndexFunc(snippets, func(s snippet) bool { return strings.HasPrefix(s.at, "README.md:") && s.isProgram() })
	if i < 0 {
		t.Fatal("README.md must have a ```go block with the line \"package main\", a whole program, which this test runs on holdfast dev")
	}
	servers := dev(t, programs(t))
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	iferr.Fatal(t, err)
	writeFile(t, filepath.Join(dir, "main.go"), strings.ReplaceAll(snippets[i].text, "127.0.0.1:2181", servers[0]))
	writeFile(t, filepath.Join(dir, "go.mod"), "module example\n\ngo 1.25.0\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n")
	writeFile(t, filepath.Join(dir, "go.sum"), text(t, "../go.sum"))
	for _, args := range [][]string{{"go", "build", "-o", "program", "."}, {"./program"}} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
}
