package peers

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// TestPeer: answers, warnings and reports of losses reach the client, overhear gets all lines, and
// the end of the peer is an error. The peer is a shell script here.
func TestPeer(t *testing.T) {
	var heard []string
	p, err := Start(exec.Command("sh", "-c", `
read open; echo 0 open ok
read lock; echo a line of another program; echo 0 warned SUSPENDED; echo 0 told LOST; echo 0 lock not now
read unlock; echo it breaks >&2; exit 3`), func(line string) { heard = append(heard, line) })
	iferr.Fatal(t, err)
	defer p.Close()
	c, err := p.Open(t.Context(), "127.0.0.1:1", "/lock", Mutex)
	iferr.Fatal(t, err)
	start := time.Now()
	if answer, err := c.Ask(t.Context(), "lock"); answer != "not now" || err != nil {
		t.Errorf("lock: %q, %v", answer, err)
	}
	if warned, told := c.FirstSince(start); warned.Text != "SUSPENDED" || told.Text != "LOST" {
		t.Errorf("warned %+v, told %+v", warned, told)
	}
	if warned, told := c.FirstSince(time.Now()); warned != (zkserver.Line{}) || told != (zkserver.Line{}) {
		t.Errorf("after that: warned %+v, told %+v", warned, told)
	}
	if err := c.Must(t.Context(), "unlock"); err == nil || !strings.Contains(err.Error(), "exit status 3): it breaks") {
		t.Errorf("unlock: %v", err)
	}
	if !slices.Contains(heard, "a line of another program") {
		t.Errorf("heard %q", heard)
	}
}
