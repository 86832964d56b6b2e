package app

import "testing"

func TestFill(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"one two three":                   "one two\nthree",
		"one\ntwo three":                  "one two\nthree",
		"one two\n\nthree":                "one two\n\nthree",
		"incomprehensible":                "incomprehensible",
		"äöü äöü äöü":                     "äöü äöü\näöü",
		"a table\n  1  of one thing\n":    "a table\n  1  of one thing\n",
		"a shell's\n\n\tsource <(it now)": "a shell's\n\n\tsource <(it now)",
	} {
		if got := fill(text, 9); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
