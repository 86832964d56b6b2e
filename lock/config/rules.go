package config

import (
	"cmp"
	"errors"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/calendar"
	"github.com/holdfast-io/holdfast/lock/internal/rule"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// rules has the rules of texts, by the names in the tags of fields. A rule checks a text and returns
// the value to store.
var rules = map[string]func(*decoder, string) (string, error){
	"cache":    (*decoder).cache,
	"given":    same(notEmpty),
	"host":     form(`[^:/@ ]+`, "must be the name of a host, without a port"),
	"listen":   func(_ *decoder, s string) (string, error) { return ParseListen(s) },
	"name":     same(rule.LockName),
	"path":     (*decoder).path,
	"pattern":  same(checkPattern),
	"root":     same(rule.Root),
	"schedule": same(calendar.Check),
	"service":  form(`[^/@ ]+`, "must be the first part of the servers' principals, such as zookeeper"),
	"server":   func(_ *decoder, s string) (string, error) { return ParseServer(s) },
	"user":     form(`[^:]+`, "must not have a colon, which separates the user from the password in a digest"),
	"variable": (*decoder).variable,
}

// timeRules has the rules of durations in a file, by the names in the tags of fields. A zero means the
// default in a [policy.Rule], but not in a file. [policy.NewSet] checks the limits of policies.
var timeRules = map[string]func(time.Duration) error{
	"positive": func(t time.Duration) error {
		return must(t != 0, "must be more than zero; delete the key for the default")
	},
	"window": func(t time.Duration) error { // decodeTime has taken the text none
		if t == lock.NoLocalWindow {
			t-- // nothing but the text none means it
		}
		return keep(rule.Window(t))
	},
	// The longest session timeout that go-zookeeper can send is an int32 of milliseconds. The
	// server's own limits follow from its tick time.
	"session": func(t time.Duration) error {
		return keep(rule.Duration(t, 100*time.Millisecond, math.MaxInt32*time.Millisecond))
	},
}

// same returns a rule that stores the text as it is.
func same(check func(string) error) func(*decoder, string) (string, error) {
	return func(_ *decoder, s string) (string, error) { return s, check(s) }
}

// form returns the rule that a text is not empty and matches a regular expression as a whole. rule
// is the message for a text that does not match.
func form(expression, rule string) func(*decoder, string) (string, error) {
	whole := regexp.MustCompile(`^(?:` + expression + `)$`)
	return same(func(s string) error { return cmp.Or(notEmpty(s), must(whole.MatchString(s), rule)) })
}

// must returns nil if the rule is kept, and otherwise the rule as an error.
func must(kept bool, rule string) error {
	if kept {
		return nil
	}
	return errors.New(rule)
}

// keep returns the text of a broken rule as an error; nil for "".
func keep(broken string) error { return must(broken == "", broken) }

func notEmpty(s string) error { return must(s != "", "must not be empty") }

// checkPattern returns the rule that the pattern breaks, if any.
func checkPattern(text string) error {
	_, err := policy.ParsePattern(text)
	return errors.Unwrap(err) // without the text, which the message already has
}

// path is the rule of a file's name. It refuses a text that is a file's content. Relative names begin
// at the configuration's folder.
func (d *decoder) path(s string) (string, error) {
	content := strings.ContainsAny(s, "\n\x00") || strings.Contains(s, "-----BEGIN")
	if err := cmp.Or(notEmpty(s), must(!content, "must be the name of a file, not what stands in it")); err != nil || filepath.IsAbs(s) {
		return s, err
	}
	return filepath.Join(d.folder, s), nil
}

var variable = form(`[A-Za-z_][A-Za-z0-9_]*`, "must be the name of an environment variable: letters, digits and underscores")

// variable is the rule of the name of an environment variable that holds a password. It records the
// name.
func (d *decoder) variable(s string) (string, error) {
	d.passwords = append(d.passwords, s)
	return variable(d, s)
}
