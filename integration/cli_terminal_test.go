//go:build linux

package integration_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// testRunPrompts: a command that prompts can read the terminal, also in a substitution. In the
// background, run prints why the command stopped, and then stops itself. In the foreground again,
// both continue.
func testRunPrompts(t *testing.T, bin string) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	c := newCLI(onShared(t), bin)
	master, slave := terminal(t)
	cmd := exec.Command(bash, "--norc", "--noprofile", "-i")
	cmd.Env = append(os.Environ(), "TERM=dumb", "PS1=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	var mu sync.Mutex
	var shown bytes.Buffer
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			mu.Lock()
			shown.Write(buf[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	shows := func(text string) {
		t.Helper()
		c.eventually("the terminal shows "+text, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(shown.String(), text)
		})
	}
	typed := func(line string) {
		t.Helper()
		if _, err := master.WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	prompts := fmt.Sprintf(`%s run %s %s -- sh -c 'echo as""king $0 >/dev/tty; read line </dev/tty; echo "got $line"'`, c.prog, strings.Join(c.args, " "), c.name)
	typed("x=$(" + prompts + ` one); echo "x: $x"`)
	shows("asking one")
	typed("first")
	shows("x: got first")
	typed(prompts + " two &")
	shows("the command stands still: it needs the terminal")
	c.eventually("the shell knows that its job is stopped", func() bool {
		typed("jobs")
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(shown.String(), "Stopped")
	})
	typed("fg")
	typed("second")
	shows("got second")
	typed("exit")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
