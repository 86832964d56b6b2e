package text

import (
	"os/exec"
	"testing"
)

// TestName: a name that begins like a flag stands after --, quoted.
func TestName(t *testing.T) {
	for name, want := range map[string]string{"a-b": "a-b", "a b": "'a b'", "-x": "-- '-x'", "--all locks": "-- '--all locks'"} {
		if got := Name(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// TestQuote: a shell reads a quoted text as it was.
func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"orders/42": "orders/42", "it's": `'it'\''s'`, "a b": "'a b'", "$(reboot)": "'$(reboot)'", "-x": "'-x'", "": "''",
		"注文/四十二": "'注文/四十二'", "a\u202e'b\\": `$'a\342\200\256\'b\\'`, "a\tb": `$'a\011b'`,
	} {
		got := Quote(s)
		if got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
		bash, err := exec.LookPath("bash")
		if err != nil {
			continue
		}
		if out, err := exec.Command(bash, "-c", "printf %s "+got).Output(); err != nil || string(out) != s {
			t.Errorf("%s is %q for bash, %v, want %q", got, out, err, s)
		}
	}
}
