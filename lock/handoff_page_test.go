// The handoff that the protocol page (lock/internal/queue/doc.go) shows, request by request.

package lock_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestHandoffOfTheProtocolPage: two clients send the requests that the page's handoff shows.
func TestHandoffOfTheProtocolPage(t *testing.T) {
	page, err := os.ReadFile("internal/queue/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "// # A handoff, request by request\n")
	section, _, _ = strings.Cut(section, "// # ")
	var want []string
	for _, line := range regexp.MustCompile(`(?m)^//\t([ab] .*?)  `).FindAllStringSubmatch(section, -1) {
		want = append(want, line[1])
	}
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		for _, c := range []*lock.Client{a, b} { // creates the root, and learns the time
			w.unlock(w.lock(c, "before"))
		}
		time.Sleep(5 * time.Second)
		var mu sync.Mutex
		var got []string
		w.Trace(func(ev locktest.Event) {
			if (ev.Kind != "request" && ev.Kind != "watch") || len(ev.Paths) == 0 {
				return
			}
			line := ev.Label + " " + ev.Op
			for _, p := range ev.Paths {
				line += " " + short(path.Base(p))
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, line)
		})
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		time.Sleep(10 * time.Millisecond)
		h = w.pass(h, ch)
		time.Sleep(10 * time.Millisecond)
		w.unlock(h)
		time.Sleep(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		equalAll(w, "requests", got, want)
	})
}

// short returns a node's name as the page has it.
func short(node string) string {
	if _, anchor := znode.AnchorOf(node); anchor {
		return "anchor"
	}
	if _, seq, entry := strings.Cut(node, "-lock-"); entry {
		return "entry" + strings.TrimLeft(seq, "0")
	}
	return node
}
