//go:build linux

package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/shard"
)

// console is the environment of the documents' commands: a folder with the files that they name,
// the programs on the PATH, and a server with a lock that is held.
type console struct {
	*testing.T
	ctx     context.Context
	dir     string
	env     []string
	cluster string        // address of the server
	held    chan struct{} // receives each time that the lock's holder has taken the lock
}

// rule is the check of one kind of command. The first rule whose pattern matches applies. A command
// without a rule fails the test.
type rule struct {
	command string // regular expression
	check   func(c *console, command string) error
	why     string // reason why the command is not run as printed; "": it is run
}

var rules = []rule{
	{`^make `, nil, "it runs for minutes: TestDocsNameWhatIsThere checks that the target is there, and CI runs it"},
	{`^go (mod (init|edit -replace|tidy)|run \.$)`, nil, "it is for the reader's module; TestProgramOfREADME builds one"},
	{`^go run \./lock/examples/`, (*console).programs, "it runs until it is stopped: the tests of lock/examples run it"},
	{`^(git clone https://github\.com/holdfast-io/holdfast|cd holdfast)$`, nil, "the repository is here already"},
	{`^go install `, (*console).programs, "it writes outside of the test's folder: that the packages are there, and programs, is checked"},
	{`^holdfast demo$`, nil, "TestCommandLine runs it, for a minute"},
	{`^holdfast dev$`, nil, "TestDev runs it, on ports that are free"},
	{`^(docker|kubectl|systemctl|sudo|crontab) `, (*console).files, "it changes the machine or a cluster: that the files are there is checked; what is in them, by integration/deploy"},
	{`^gh attestation `, nil, "it needs a release: the workflow of a release runs it"},
	{`^curl `, nil, "TestReaperPage asks for it, of a port that is free"},
	{`^grep .*zkCli\.sh`, nil, "TestReaperACLs runs each command of the file on a server"},
	{`^reaper( --config \S+)?( --listen \S+)?( |$)`, (*console).daemon, ""},
	{`^holdfast (top|ls .*--watch)`, (*console).daemon, ""},
	{`^holdfast doctor`, (*console).doctor, ""},
	{`^holdfast .* \| jq `, (*console).piped, ""},
	{`^holdfast history `, (*console).history, ""},
	{`^holdfast audit `, (*console).audit, ""},
	{`^(holdfast|reaper|HOLDFAST_\w+=\S+ holdfast) `, (*console).run, ""},
}

// shorter replaces arguments, so that commands take less time.
var shorter = strings.NewReplacer("--at-least 1m", "--at-least 1s", `--tick "30 4 * * *"`, `--tick "@every 1s"`)

// scripts has the commands that stand for the reader's own programs.
var scripts = []string{"deploy.sh", "export.sh", "report.sh", "send", "import", "extract", "load", "alert"}

// once matches commands of the reaper that end by themselves.
var once = regexp.MustCompile(`--(once|dry-run|help|version)`)

// TestCommandsOfDocs: each command in the Markdown pages passes the check of its rule.
func TestCommandsOfDocs(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	for _, s := range fenced(t, "sh") {
		t.Run(s.at, func(t *testing.T) {
			c := *c
			c.T = t
			for command := range strings.Lines(strings.ReplaceAll(s.text, "\\\n", " ")) {
				command, _, _ = strings.Cut(strings.TrimSpace(command), "  #") // what follows is a remark
				if command == "" || strings.HasPrefix(command, "#") {
					continue
				}
				command = strings.TrimSpace(command)
				i := slices.IndexFunc(rules, func(r rule) bool { return regexp.MustCompile(r.command).MatchString(command) })
				switch {
				case i < 0:
					t.Errorf("%q: no rule says how it is checked", command)
				case rules[i].check != nil:
					if err := rules[i].check(&c, command); err != nil {
						t.Errorf("%q: %v", command, err)
					}
				}
			}
		})
	}
}

func newConsole(t *testing.T) *console {
	ctx, cancel := context.WithTimeout(t.Context(), wholeTest)
	t.Cleanup(cancel)
	server := zkserver.AddrForTest(t, zkserver.Options{})
	c := &console{T: t, ctx: ctx, dir: t.TempDir(), cluster: server, held: make(chan struct{})}
	c.env = append(os.Environ(), "PATH="+programs(t)+":"+os.Getenv("PATH"), zkserver.EnvServers+"="+server)
	for _, name := range scripts {
		c.write(name, "#!/bin/sh\n", 0o700)
	}
	c.write("config.yaml", text(t, "../config.yaml"), 0o600)
	c.hold("orders/42")
	c.share("orders/partitions")
	return c
}

// share has a member of a group of shards until the end of the test.
func (c *console) share(group string) {
	c.Helper()
	locks, err := lock.Dial(c.ctx, []string{c.cluster}, lock.WithOwner("shop"))
	iferr.Fatal(c, err)
	c.Cleanup(func() { locks.Close() })
	g, err := shard.Join(c.ctx, locks, group, 8, shard.Options{})
	for members := []shard.Member(nil); err == nil && len(members) == 0; {
		members, err = g.Members(c.ctx)
	}
	iferr.Fatal(c, err)
	c.Cleanup(func() { _ = g.Leave(c.ctx) })
}

func (c *console) write(name, text string, mode os.FileMode) {
	c.Helper()
	iferr.Fatal(c, os.WriteFile(filepath.Join(c.dir, name), []byte(text), mode))
}

// hold holds a lock until the end of the test. When another client requests the lock's release, or
// the hold is lost, hold takes the lock again.
func (c *console) hold(name string) {
	c.Helper()
	locks, err := lock.Dial(c.ctx, []string{c.cluster}, lock.WithOwner("shop"))
	iferr.Fatal(c, err)
	ctx, cancel := context.WithCancel(c.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			hold, err := locks.Mutex(name).Lock(ctx)
			if err != nil {
				return
			}
			select {
			case c.held <- struct{}{}:
			case <-ctx.Done():
			}
			select {
			case <-hold.Revoked():
			case <-hold.Context().Done():
			}
			hold.Unlock()
		}
	}()
	c.Cleanup(func() { cancel(); locks.Close(); <-done })
	<-c.held
}

func (c *console) command(command string) *exec.Cmd {
	cmd := exec.CommandContext(c.ctx, "bash", "-c", shorter.Replace(command))
	cmd.Dir, cmd.Env, cmd.Stdin = c.dir, c.env, strings.NewReader("yes\n")
	return cmd
}

// endsHold matches the commands after which the console's holder must take its lock again.
var endsHold = regexp.MustCompile(`^holdfast (revoke|break) `)

// run runs a command, which must succeed. After a command that ends the hold, run waits until the
// holder has taken the lock again.
func (c *console) run(command string) error {
	out, err := c.command(command).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if endsHold.MatchString(command) {
		select {
		case <-c.held:
		case <-c.ctx.Done():
			return fmt.Errorf("the holder did not take the lock again: %w", c.ctx.Err())
		}
	}
	return nil
}

// piped runs a command and the jq after it, or the command alone if jq is not installed.
func (c *console) piped(command string) error {
	if _, err := exec.LookPath("jq"); err != nil {
		command, _, _ = strings.Cut(command, " | jq ")
	}
	return c.run("set -o pipefail; " + command)
}

// doctor runs a command that may also exit with status 1, if it reports warnings.
func (c *console) doctor(command string) error {
	out, err := c.command(command).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && strings.Contains(string(out), "WARNING") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// incidentTimes replaces times and servers in the documents by those of the tests' logs.
var incidentTimes = strings.NewReplacer("03:00", "2026-11-26T11:53", "03:30", "2026-11-26T11:54", "03:12", "11:53:19", "server-2", "server-3")

// history runs holdfast history on the logs of an incident.
func (c *console) history(command string) error {
	return c.onIncident(command + " --root /it-7472e92e4a8df3a6")
}

// audit runs holdfast audit on the logs of the incident. The command must exit with status 3,
// because an entry was deleted by hand.
func (c *console) audit(command string) error {
	return c.onIncident(command + "; test $? = 3")
}

// onIncident runs a command in a folder with the logs of the incident.
func (c *console) onIncident(command string) error {
	logs, err := filepath.Abs("../cmd/holdfast/testdata/incident")
	if err != nil {
		return err
	}
	for _, server := range []string{"server-1", "server-3"} {
		if err := os.Symlink(filepath.Join(logs, server), filepath.Join(c.dir, server)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return c.run(incidentTimes.Replace(command))
}

// daemon runs a command until its first line of output, and then stops it. If the command ends by
// itself, daemon does what run does.
func (c *console) daemon(command string) error {
	if once.MatchString(command) {
		return c.run(command)
	}
	// The port in the document may be in use, so use a free one.
	cmd := c.command("exec " + strings.Replace(command, "--listen 9180", "--listen 0", 1))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	said, err := lines.ReadString('\n')
	stopped := cmd.Process.Signal(syscall.SIGTERM)
	rest, _ := io.ReadAll(lines)
	var exit *exec.ExitError
	end := cmd.Wait()
	if errors.As(end, &exit) && exit.ExitCode() == 128+int(syscall.SIGTERM) {
		end = nil
	}
	if err := errors.Join(err, stopped, end); err != nil {
		return fmt.Errorf("%w\n%s%s", err, said, rest)
	}
	return nil
}

// programs checks that the packages for go install exist and are programs.
func (c *console) programs(command string) error {
	for _, path := range strings.Fields(command)[2:] {
		list := exec.CommandContext(c.ctx, "go", "list", "-f", "{{.Name}}", path)
		list.Dir = ".."
		out, err := list.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "main" {
			return fmt.Errorf("%s is no program: %w, %s", path, err, out)
		}
	}
	return nil
}

// files checks that the files below cmd that a command names exist.
func (c *console) files(command string) error {
	for _, word := range strings.Fields(command) {
		if strings.HasPrefix(word, "cmd/") {
			if _, err := os.Stat("../" + word); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestYAMLOfDocs: the configurations in the documents can be parsed.
func TestYAMLOfDocs(t *testing.T) {
	for _, s := range fenced(t, "yaml") {
		iferr.Error(t, iferr.Of(config.Parse(s.at, []byte(s.text))))
	}
}
