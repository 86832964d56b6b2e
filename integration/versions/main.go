// Versions runs the tests that need a server on several versions of ZooKeeper, one after the other,
// and prints a table for integration/TESTING.md:
//
//	make versions
//	make versions VERSIONS="/opt/zookeeper-3.6.4 /opt/zookeeper-3.9.5"
//	make versions VERSIONS="-only hosts /opt/zookeeper-3.6.4"
//
// -only SUITE runs one column of the table. Each other argument is a folder with an unpacked
// release, as for ZOOKEEPER_HOME. Without one, servers.sh unpacks the servers of Debian's suites into
// bin/servers: 3.4.13, 3.8.0, 3.9.3 and 3.9.6 in November 2026. The folder bin receives the tests' output. The exit status is 1 if
// any test failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// suite is a column of the table: a command that runs tests on a server of its own.
type suite struct {
	name    string
	command []string
}

var suites = []suite{
	{"conformance", goTest("./lock/locktest")},
	{"integration", goTest("./integration", "./integration/zkserver")},
	{"hosts", []string{"make", "--no-print-directory", "hosts"}},
}

// goTest returns the command that runs the tests of packages on a server, within a time limit.
func goTest(packages ...string) []string {
	return append([]string{filepath.Join("bin", "withzk"), "--", "go", "test", "-count", "1", "-timeout", "60m"}, packages...)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	only := flag.String("only", "", "the suite to run; all if empty")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, `usage: make versions VERSIONS="[-only SUITE] dir..."; each dir is an unpacked release of ZooKeeper; without one, Debian's are unpacked`)
	}
	flag.Parse()
	chosen := choose(*only)
	if len(chosen) == 0 {
		fmt.Fprintf(os.Stderr, "versions: -only %q: must be conformance, integration or hosts\n", *only)
		os.Exit(2)
	}
	homes, table := flag.Args(), ""
	var err error
	if len(homes) == 0 {
		homes, err = unpack(ctx)
	}
	if err == nil {
		table, err = run(ctx, chosen, homes)
	}
	fmt.Print(table)
	if err != nil {
		fmt.Fprintln(os.Stderr, "versions:", err)
		os.Exit(1)
	}
}

// unpack returns the folders of the servers of Debian's suites.
func unpack(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join("integration", "versions", "servers.sh"), filepath.Join("bin", "servers"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.Fields(string(out)), err
}

// choose returns the suite with the name; "": all suites.
func choose(name string) []suite {
	return slices.DeleteFunc(slices.Clone(suites), func(s suite) bool { return name != "" && s.name != name })
}

// run returns the table of the versions that were completed, and an error if any test failed.
func run(ctx context.Context, suites []suite, homes []string) (table string, err error) {
	os.Unsetenv(zkserver.EnvServers) // otherwise all tests would use the servers that it names
	head, line := "| ZooKeeper |", "|---|"
	for _, s := range suites {
		head, line = head+" "+s.name+" |", line+"---|"
	}
	table = head + " tried on |\n" + line + "---|\n"
	red := 0
	for _, home := range homes {
		if home, err = filepath.Abs(home); err != nil { // absolute, because servers run in other folders
			return table, err
		}
		os.Setenv(zkserver.EnvHome, home)
		version, err := version(ctx)
		if err != nil {
			return table, err
		}
		row := "| " + version + " |"
		for _, s := range suites {
			// The command does not end with ctx: Ctrl-C at the terminal reaches it too.
			said, err := exec.Command(s.command[0], s.command[1:]...).CombinedOutput()
			passed := err == nil
			file := filepath.Join("bin", fmt.Sprintf("versions-%s-%s.out", filepath.Base(home), s.name))
			if err := os.WriteFile(file, said, 0o644); err != nil {
				return table, err
			}
			if ctx.Err() != nil {
				return table, errors.New("interrupted")
			}
			result := "passed"
			if !passed {
				red++
				result = failures(said)
			}
			fmt.Fprintf(os.Stderr, "%s: %s: %s (%s)\n", version, s.name, result, file)
			row += " " + result + " |"
		}
		table += row + " " + time.Now().Format(time.DateOnly) + " |\n"
	}
	if red > 0 {
		return table, fmt.Errorf("%d of %d runs failed", red, len(homes)*len(suites))
	}
	return table, nil
}

// version returns the version that a server of this machine reports.
func version(ctx context.Context) (string, error) {
	s, err := zkserver.Start(ctx, zkserver.Options{})
	if err != nil {
		return "", err
	}
	v, err := s.Version(ctx)
	return v.String(), errors.Join(err, s.Stop())
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// failures returns a text with the failed tests in the output of go test. If there are none, the
// text is that the run did not end.
func failures(said []byte) string {
	var names []string
	for _, m := range failed.FindAllSubmatch(said, -1) {
		names = append(names, string(m[1]))
	}
	if len(names) == 0 {
		return "did not come to an end"
	}
	slices.Sort(names)
	return "failed: " + strings.Join(slices.Compact(names), ", ")
}
