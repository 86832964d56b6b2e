package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

func TestRoots(t *testing.T) {
	c, err := Parse("/etc/holdfast/config.yaml", []byte(lines(
		`zookeeper: {servers: [zk1], session_timeout: 6s, auth: {user: all, password_env: ALL}, sasl: {mechanism: digest-md5, user: all, password_env: ALL}}`,
		`root: /all`,
		`policies: [{name: everything, match: "**"}]`,
		`reaper: {schedule: "@hourly", batch: 7}`,
		`roots:`,
		`  - {name: plain, root: /a}`,
		`  - name: own`,
		`    root: /b`,
		`    zookeeper: {auth: {user: b, password_file: b}, sasl: {mechanism: digest-md5, user: b, password_file: b}}`,
		`    policies: [{name: b, match: "b/*"}]`,
		`    reaper: {schedule: "@daily", max_deletes_per_second: 5, concurrency: 3, lock: r}`,
		`  - {name: elsewhere, root: /a/below, zookeeper: {servers: [zk9], session_timeout: 9s}}`,
	)))
	iferr.Fatal(t, err)
	each := c.Each()
	var names []string
	for _, n := range each {
		names = append(names, n.Name+" "+n.Root)
	}
	if want := []string{"plain /a", "own /b", "elsewhere /a/below"}; !slices.Equal(names, want) {
		t.Fatalf("%q, want %q", names, want)
	}
	plain, own, elsewhere := each[0], each[1], each[2]
	if plain.ZooKeeper.SASL.User != "all" || own.ZooKeeper.SASL.User != "b" || own.ZooKeeper.SASL.PasswordFile != "/etc/holdfast/b" || elsewhere.ZooKeeper.SASL != nil {
		t.Errorf("SASL: %v, %v, %v", plain.ZooKeeper.SASL, own.ZooKeeper.SASL, elsewhere.ZooKeeper.SASL)
	}
	if plain.ZooKeeper.Auth.User != "all" || plain.Policies != c.Policies || plain.Reaper != c.Reaper || plain.ZooKeeper.SessionTimeout != 6*time.Second {
		t.Errorf("what a root leaves out: %+v", plain.Config)
	}
	if own.ZooKeeper.Servers[0] != "zk1:2181" || own.ZooKeeper.Auth.User != "b" || own.ZooKeeper.Auth.PasswordFile != "/etc/holdfast/b" || own.Policies.For("b/1").Name != "b" {
		t.Errorf("what it has: %+v", own.Config)
	}
	if want := (Reaper{Schedule: "@daily", Batch: 7, MaxDeletesPerSecond: 5, Concurrency: 3, Lock: "r"}); own.Reaper != want {
		t.Errorf("reaper: %+v, want %+v", own.Reaper, want)
	}
	if z := elsewhere.ZooKeeper; z.Servers[0] != "zk9:2181" || z.Auth != nil || z.SessionTimeout != 9*time.Second {
		t.Errorf("other servers: %+v; they must not be shown the credentials", z)
	}
	if s := c.Select("/b"); s.ZooKeeper.Auth.User != "b" || s.Roots != nil {
		t.Errorf("selected: %+v", s)
	}
	if s := c.Select("/c"); s.Root != "/c" || s.ZooKeeper.Auth.User != "all" || s.Roots != nil {
		t.Errorf("selected: %+v", s)
	}
	if each := Default().Each(); len(each) != 1 || each[0].Name != "" || each[0].Root != Default().Root {
		t.Errorf("without roots: %+v", each)
	}
}

// TestPasswordVariables: the configuration of one root also has the password variables of the whole
// file. So holdfast run --root can keep all of them from its command.
func TestPasswordVariables(t *testing.T) {
	c, err := Parse("config.yaml", []byte(`zookeeper: {auth: {user: u, password_env: ALL}}
roots:
  - {name: a, root: /a, zookeeper: {auth: {user: a, password_env: A}}}
  - {name: b, root: /b, zookeeper: {servers: [b], auth: {user: b, password_env: B}}}
  - {name: c, root: /c, zookeeper: {auth: {user: c, password_file: c}}}
`))
	iferr.Fatal(t, err)
	for name, of := range map[string]*Config{
		"the file": c, "a root": c.Each()[1].Config, "a chosen root": c.Select("/a"), "another root": c.Select("/new"), "a root of a root": c.Select("/a").Select("/b"),
	} {
		if got, want := of.PasswordVariables(), []string{"ALL", "A", "B"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := Default().PasswordVariables(); got != nil {
		t.Errorf("without credentials: %q", got)
	}
}

func TestRootsMistakes(t *testing.T) {
	for data, want := range map[string]string{
		"roots: []":                                           "must have at least 1",
		"roots: [{}]":                                         "roots[0].name: must be given",
		"roots: [{name: a}]":                                  "roots[0].root: must be given",
		"roots: [{name: 5, root: /a}]":                        "roots[0].name: 5: must be a text",
		"roots: [{name: a, root: b}]":                         "roots[0].root: b: must start with a slash",
		"roots: [{name: a, root: /a, polices: []}]":           "did you mean policies?",
		"roots: [{name: a, root: /a}, {name: a, root: /b}]":   "roots[1].name: a: is the name of roots[0] already",
		"roots: [{name: a, root: /a}, {name: b, root: /a}]":   "roots[1].root: /a: must not be, nor be above or below, that of roots[0]",
		"roots: [{name: a, root: /a}, {name: b, root: /a/b}]": "roots[1].root: /a/b: must not be",
		"roots: [{name: a, root: /a/b}, {name: b, root: /a}]": "roots[1].root: /a: must not be",
		"roots: [{name: a, root: /a, policies: [{name: p, match: '*', ttl: 3s, max_ttl: 2s}]}]":    "roots[0].policies[0].ttl: 3s: must be at most max_ttl",
		"roots: [{name: a, root: /a, policies: [{name: p, match: '*', ttl: 7}]}]":                  "roots[0].policies[0].ttl: 7: must be a duration",
		"roots: [{name: a, root: /a, zookeeper: {auth: {user: u}}}]":                               "roots[0].zookeeper.auth: must have exactly one of password_file and password_env",
		"roots: [{name: a, root: /a, reaper: {schedule: daily}}]":                                  "roots[0].reaper.schedule: daily: must be a cron expression",
		"roots: [{name: a, root: /a, reaper: {max_deletes_per_second: 0}}]":                        "roots[0].reaper.max_deletes_per_second: 0: must be a whole number",
		"roots: [" + strings.Repeat("{name: a, root: /a},", 101) + "]":                             "roots: must be at most 100",
		"roots: [{name: " + strings.Repeat("x", 65) + ", root: /a}]":                               "must have at most 64 bytes",
		"roots: [{name: a, root: /a}, {name: b, root: /ab}, {name: c, root: /a/c, zookeeper: {}}]": "roots[2].root: /a/c: must not be",
	} {
		_, err := Parse("config.yaml", []byte(data))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s\ngot  %v\nwant %s", data, err, want)
		}
		if err != nil && strings.Count(err.Error(), "\n") > 0 && !strings.Contains(data, "{}]") {
			t.Errorf("%.120s\ntells more than one mistake: %v", data, err)
		}
	}
}
