// Package rule has the rules that the settings of locks keep, each in one wording: for options, for
// policies, and for the configuration file.
package rule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	// MaxLocalWindow is the longest local window.
	MaxLocalWindow = time.Second
	// NoLocalWindow is the window that allows no local handoff.
	NoLocalWindow time.Duration = -1
)

// Duration returns the rule that a duration breaks, "" if none. Durations are whole milliseconds,
// because entries store milliseconds.
func Duration(d, least, most time.Duration) string {
	switch {
	case d < least:
		return fmt.Sprintf("must be at least %v", least)
	case d > most:
		return fmt.Sprintf("must be at most %v", most)
	case d%time.Millisecond != 0:
		return "must be whole milliseconds"
	}
	return ""
}

// Window returns the rule that a local window breaks, "" if none. Zero is refused: it would look like
// no window.
func Window(d time.Duration) string {
	switch d {
	case NoLocalWindow:
		return ""
	case 0:
		return "must be more than zero; write none (lock.NoLocalWindow) for no local handoff"
	}
	return Duration(d, time.Millisecond, MaxLocalWindow)
}

// AtMost returns the rule that a duration breaks if it is longer than the one of that key, "" if none.
func AtMost(d time.Duration, key string, most time.Duration) string {
	if d > most {
		return fmt.Sprintf("must be at most %s, which is %v", key, most)
	}
	return ""
}

// Broken has the rules that settings break.
type Broken []Breach

// Breach is a rule that a setting breaks.
type Breach struct {
	Key   string // of the setting in a configuration
	With  string // the key of another setting that the rule compares it with; "" if none
	Value time.Duration
	Rule  string
}

// Error returns the first breach.
func (b Broken) Error() string { return fmt.Sprintf("%s %v: %s", b[0].Key, b[0].Value, b[0].Rule) }

// Check adds a breach unless rule is "". It omits a comparison of two settings if one of them breaks a
// rule of its own: check those first.
func (b *Broken) Check(key, with string, value time.Duration, rule string) {
	follows := with != "" && slices.ContainsFunc(*b, func(o Breach) bool {
		return o.With == "" && (o.Key == key || o.Key == with)
	})
	if rule != "" && !follows {
		*b = append(*b, Breach{key, with, value, rule})
	}
}

// Line joins those parts of a mistake that are not empty.
func Line(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// Lines returns mistakes, one a line.
func Lines[M fmt.Stringer](mistakes []M) string {
	lines := make([]string, len(mistakes))
	for i, m := range mistakes {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// maxName limits the length of the name of an element of a list, in bytes.
const maxName = 64

// Name returns the rule that the i-th name of a list breaks, "" if none. value is how to show the
// name. list is the key of the list in a configuration.
func Name(list string, i int, names []string) (value, rule string) {
	name, first := names[i], slices.Index(names, names[i])
	switch {
	case name == "":
		return "", "must be given"
	case len(name) > maxName:
		return Plain(name), fmt.Sprintf("must have at most %d bytes", maxName)
	case !printable(name):
		return Plain(name), "must be printable"
	case first < i:
		return Plain(name), fmt.Sprintf("is the name of %s[%d] already", list, first)
	}
	return Plain(name), ""
}

// Plain returns a text for a message: quoted unless it is printable, and cut if it is long.
func Plain(s string) string {
	const most = 80
	cut := ""
	if len(s) > most {
		s, cut = strings.ToValidUTF8(s[:most], ""), "…"
	}
	if s == "" || !printable(s) {
		return strconv.Quote(s) + cut
	}
	return s + cut
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
}

// Root returns the rule that the path of a root breaks, if any.
func Root(root string) error { return without(znode.CheckRoot(root), "root", root) }

// LockName returns the rule that the name of a lock breaks, if any.
func LockName(name string) error { return without(znode.CheckName(name), "lock name", name) }

// without returns an error of package znode without the value, which the message already has.
func without(err error, what, value string) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("%s %q: ", what, value)))
}
