package text

import (
	"slices"
	"testing"
)

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{"": 0, "orders": 6, "注文": 4, "e\u0301": 1, "…": 1} {
		if got := Width(s); got != want {
			t.Errorf("Width(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestHeadAndTail(t *testing.T) {
	for _, c := range []struct{ s, head, tail string }{
		{"", "", ""},
		{"12345", "12345", "12345"},
		{"123456", "1234…", "…3456"},
		{"注文注文", "注文…", "…注文"},
		{"a注文注", "a注…", "…文注"},
	} {
		if got := Head(c.s, 5); got != c.head {
			t.Errorf("Head(%q) = %q, want %q", c.s, got, c.head)
		}
		if got := Tail(c.s, 5); got != c.tail {
			t.Errorf("Tail(%q) = %q, want %q", c.s, got, c.tail)
		}
	}
}

func TestPrintable(t *testing.T) {
	if got, want := Printable("a\x1b[2Jb\n\u202ec"), "a?[2Jb??c"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTable: columns are aligned by their width on a terminal. A text that is too wide gets its own
// line, and widens no other row. No line ends with spaces.
func TestTable(t *testing.T) {
	table := Table{Widest: []int{6}}
	table.Add(Cells("LOCK", "WHO", "LEFT")...)
	table.Add(Cells("注文", "a", "1s")...)
	table.Add(Cells("a-long-name", "b", "2s")...)
	table.Add(Cells("a-long-name")...)
	table.Add(Cells("", "c", "")...)
	want := []string{
		"LOCK  WHO  LEFT",
		"注文  a    1s",
		"a-long-name",
		"      b    2s",
		"a-long-name",
		"      c",
	}
	if got := table.Lines(); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestColours: colors take no width. Coloured is false without a terminal, and with NO_COLOR.
func TestColours(t *testing.T) {
	table := Table{Rows: [][]Cell{{{"ab", Red}, {"c", ""}}, {{"", Red}, {"d", Bold}}}}
	if got, want := table.Lines(), []string{"ab  c", "    d"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	table.Colour = true
	if got, want := table.Lines(), []string{"\x1b[31mab\x1b[0m  c", "    \x1b[1md\x1b[0m"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if !Coloured(true) || Coloured(false) {
		t.Error("colours where there is no terminal, or none where there is one")
	}
	t.Setenv("NO_COLOR", "1")
	if Coloured(true) {
		t.Error("NO_COLOR is not honoured")
	}
}
