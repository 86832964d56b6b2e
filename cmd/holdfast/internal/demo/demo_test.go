package demo

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDuplicates(t *testing.T) {
	for want, numbers := range [][]int{{1, 2, 3}, {1, 2, 2}, {1, 1, 1}, {2, 2, 1, 1, 1}} {
		var all []drawn
		for _, n := range numbers {
			all = append(all, drawn{number: n})
		}
		if got := duplicates(all); got != want {
			t.Errorf("duplicates(%v) = %d, want %d", numbers, got, want)
		}
	}
	if got := duplicates(nil); got != 0 {
		t.Errorf("duplicates of nothing: %d", got)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	s := newStory(&out, false)
	s.begin("a", "Title")
	s.judge("kept", "1", "1", true)
	s.judge("a broken one", "0", "2 äöü", false)
	s.begin("b", "Title")
	s.judge("kept", "0", "0", true)
	out.Reset()
	if err := s.table.Print(&out); err != nil || s.broken != 1 {
		t.Errorf("%d broken, want 1; %v", s.broken, err)
	}
	want := `   promise       expected  seen
a  kept          1         1      ok
a  a broken one  0         2 äöü  FAILED
b  kept          0         0      ok
`
	if out.String() != want {
		t.Errorf("got %s\nwant %s", &out, want)
	}
	s.table.Colour = true
	if got := strings.Join(s.table.Lines(), "\n"); !strings.Contains(got, "\x1b[32mok\x1b[0m") || !strings.Contains(got, "\x1b[31mFAILED\x1b[0m") {
		t.Errorf("%q", got)
	}
}
