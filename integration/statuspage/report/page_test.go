package report

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-io/holdfast/integration/statuspage/browser"
)

const repository = "../../.."

// The logs of the incident that the tests of cmd/holdfast describe, and the root of its locks.
const (
	logs = repository + "/cmd/holdfast/testdata/incident"
	root = "/it-7472e92e4a8df3a6"
)

// helpers has the JavaScript functions of the tests. wide returns the texts of elements that extend
// beyond the right side of the window, or of the scrolling element around them.
const helpers = `
window.wide = () => [...document.querySelectorAll("body *")].filter((e) => {
	const room = e.closest(".wide")?.getBoundingClientRect().right ?? innerWidth;
	return !e.closest("svg") && e.getBoundingClientRect().right > room + 1;
}).map((e) => e.tagName + " " + e.innerText).join("\n");
window.lightness = (color) => color.match(/\d+/g).slice(0, 3).reduce((sum, n) => sum + Number(n), 0) / 3;
`

// TestPage: reports of an incident, opened from their files, in light and in dark, show the events
// with their style. Nothing on the reports is wider than the window.
func TestPage(t *testing.T) {
	program := filepath.Join(t.TempDir(), "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./cmd/holdfast")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	for _, page := range []struct {
		name string
		args []string
		says string
	}{
		{"lock", []string{"orders/42"}, "hangs since the step"},
		{"overview", nil, "orders/42"},
		{"owner", []string{"--owner", "shop-3"}, "What shop-3 did"},
	} {
		t.Run(page.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "incident.html")
			args := append([]string{"history", "--root", root, "--logs", logs + "/server-1", "--logs", logs + "/server-3", "--html", file}, page.args...)
			if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
			for scheme, background := range map[string]string{"light": "> 200", "dark": "< 50"} {
				b := browser.Open(t, "file://"+file, scheme, 1280, helpers)
				b.Expect(fmt.Sprintf(`document.body.innerText.includes(%q)`, page.says),
					`document.querySelectorAll(".events tbody tr").length > 5`,
					`lightness(getComputedStyle(document.body).backgroundColor) `+background,
					`[...document.querySelectorAll("tr, td, th")].every((e) => getComputedStyle(e).backgroundColor === "rgba(0, 0, 0, 0)")`) // no event has the color of a key of the picture
				if page.name != "overview" {
					b.Expect(`document.querySelectorAll("svg rect.holds").length > 0`)
				}
				for _, width := range []int64{1280, 390} {
					b.Run(chromedp.EmulateViewport(width, 900))
					b.Picture(fmt.Sprintf("history-%s-%s-%d", page.name, scheme, width))
					b.Expect(`document.documentElement.scrollWidth <= innerWidth`)
					if wide := b.Text(`wide()`); wide != "" {
						t.Errorf("%s, %d wide: these go beyond the right side:\n%s", scheme, width, wide)
					}
				}
			}
		})
	}
}
