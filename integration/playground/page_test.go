package main

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/statuspage/browser"
)

// TestPage: in a browser the tour begins by itself. With zk.Lock two workers are inside at once,
// and additions are lost. With Holdfast neither happens. The log shows the effect of each button.
// The page is no wider than the window.
func TestPage(t *testing.T) {
	handler, err := build(t.Context(), t.TempDir())
	iferr.Fatal(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel() // the scenes mostly wait
			b := browser.Open(t, server.URL, scheme, 1280, helpers)
			b.Until(`inside("zk.Lock") === 2`)
			b.Picture("two-" + scheme)
			b.Until(`document.body.dataset.tour === "done"`)
			b.Picture("done-" + scheme)
			b.Expect(`overlaps("zk.Lock") >= 2`, `overlaps("Holdfast") === 0`, `lost("zk.Lock") > 0`, `lost("Holdfast") === 0`)

			for _, width := range []int64{390, 1280} {
				b.Run(chromedp.EmulateViewport(width, 900))
				b.Expect(`document.documentElement.scrollWidth <= innerWidth`,
					`[...document.querySelectorAll("button")].every((b) => innerWidth > 600 || b.offsetHeight >= 40)`) // the least height for fingers
				b.Picture(fmt.Sprintf("done-%s-%d", scheme, width))
			}
			b.Run(chromedp.Click("#reset"))
			b.Until(`overlaps("zk.Lock") === 0 && inside("zk.Lock") === 1`)
			b.Expect(`document.body.dataset.tour === ""`)
			b.Picture("reset-" + scheme)
		})
	}
	t.Run("buttons", func(t *testing.T) {
		t.Parallel()
		b := browser.Open(t, server.URL, "light", 1280, helpers)
		b.Run(chromedp.Click("#reset")) // a reset ends the tour
		for _, button := range []struct{ action, said string }{
			{"end", "ends while it works"}, {"pause", "is paused"}, {"cut", "is cut"}, {"kill", "is killed"},
			{"forward", "set by +10 min"}, {"backward", "set by −10 min"}, {"elect", "its clock is +5 min"},
		} {
			said := fmt.Sprintf(`said("zk.Lock", %[1]q) && said("Holdfast", %[1]q)`, button.said)
			for there := false; !there; there = b.Is(said) { // the holder may unlock just before the click
				b.Until(`ready()`)
				click(b, button.action)
				b.Expect(fmt.Sprintf(`told(%q)`, button.action))
				b.Until(said + ` || said("zk.Lock", "no worker is inside") || said("Holdfast", "no worker is inside")`)
			}
			b.Picture("button-" + button.action)
		}
		b.Until(`ready()`)
		b.Expect(`overlaps("zk.Lock") >= 1`, `overlaps("Holdfast") === 0`)
	})
}

// helpers has the JavaScript functions of the tests.
const helpers = `
window.part = (side, selector) => document.querySelector('[data-side="' + side + '"] ' + selector);
window.inside = (side) => Number(document.querySelector('[data-side="' + side + '"]')?.dataset.inside);
window.said = (side, text) => part(side, ".log").innerText.includes(text);
window.ready = () => ["zk.Lock", "Holdfast"].every((side) => inside(side) === 1 &&
	[...document.querySelectorAll('[data-side="' + side + '"] .workers li')].every((w) => /^(works|waits|rests|unlocks)$/.test(w.dataset.state)));
window.told = (action) => { const b = document.querySelector("[data-do=" + action + "]"); return b.title && document.getElementById("pressed").innerText === b.innerText + ": " + b.title + "."; };
window.lost = (side) => Number(part(side, ".count").innerText.match(/(\d+) of \d+ additions lost/)[1]);
window.overlaps = (side) => Number(document.querySelector('[data-side="' + side + '"]')?.dataset.overlaps);
`

// click clicks on a button.
func click(b *browser.Tab, action string) { b.Run(chromedp.Click(fmt.Sprintf(`[data-do=%s]`, action))) }
