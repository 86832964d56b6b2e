package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// rules has the rules of texts, by the names in the tags of fields. A rule checks a text and returns
// the value to store.
var rules = map[string]func(string) (string, error){
	"cache":    checkCache,
	"given":    same(notEmpty),
	"host":     same(checkHost),
	"listen":   ParseListen,
	"name":     same(checkName),
	"path":     same(checkPath),
	"pattern":  same(checkPattern),
	"root":     same(checkRoot),
	"schedule": same(checkSchedule),
	"service":  same(checkService),
	"server":   zkconn.ParseServer,
	"user":     same(checkUser),
	"variable": same(checkVariable),
}

// timeRules has the rules of durations. For policies, [NewSet] checks the limits; here zero does not
// mean the default.
var timeRules = map[string]func(time.Duration) (time.Duration, error){
	"positive": func(t time.Duration) (time.Duration, error) {
		return t, must(t != 0, "must be more than zero; delete the key for the default")
	},
	"window": func(t time.Duration) (time.Duration, error) {
		if t == 0 {
			return lock.NoLocalWindow, nil
		}
		return t, must(t != lock.NoLocalWindow, "must be at least 0s")
	},
	// The longest that go-zookeeper can send is an int32 of milliseconds. The server's own limits
	// follow from its tick time.
	"session": func(t time.Duration) (time.Duration, error) {
		return t, checkTime(t, 100*time.Millisecond, math.MaxInt32*time.Millisecond)
	},
}

// same returns a rule that stores the text as it is.
func same(check func(string) error) func(string) (string, error) {
	return func(s string) (string, error) { return s, check(s) }
}

// must returns the rule as an error unless it is kept.
func must(kept bool, rule string) error {
	if kept {
		return nil
	}
	return errors.New(rule)
}

func notEmpty(s string) error { return must(s != "", "must not be empty") }

func checkRoot(root string) error { return ruleOf(znode.CheckRoot(root), "root", root) }

func checkName(name string) error { return ruleOf(znode.CheckName(name), "lock name", name) }

// ruleOf returns an error of package znode without the value, which the message already has.
func ruleOf(err error, what, value string) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("%s %q: ", what, value)))
}

// checkUser refuses a colon: it separates the user from the password in a digest.
func checkUser(s string) error {
	return must(s != "" && !strings.Contains(s, ":"), "must not be empty nor have a colon")
}

// checkPath refuses a text that is a file's content instead of a file's name.
func checkPath(s string) error {
	content := strings.ContainsAny(s, "\n\x00") || strings.Contains(s, "-----BEGIN")
	return cmp.Or(notEmpty(s), must(!content, "must be the name of a file, not what stands in it"))
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkVariable(s string) error {
	return cmp.Or(notEmpty(s), must(variable.MatchString(s), "must be the name of an environment variable: letters, digits and underscores"))
}

func checkHost(host string) error {
	return must(host != "" && !strings.ContainsAny(host, ":/@ "), "must be the name of a host, without a port")
}

// checkTime returns the rule that the duration breaks, if any. Durations are whole milliseconds, as
// in the entries.
func checkTime(t, least, most time.Duration) error {
	return cmp.Or(
		must(t >= least, fmt.Sprintf("must be at least %v", least)),
		must(t <= most, fmt.Sprintf("must be at most %v", most)),
		must(t%time.Millisecond == 0, "must be in whole milliseconds"))
}
