package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/calendar"
	"github.com/holdfast-io/holdfast/lock/policy"
)

func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }

func TestParse(t *testing.T) {
	c, err := Parse("/etc/holdfast/config.yaml", []byte(lines(
		`zookeeper:`,
		`  servers: [zk1, zk2:2182, "[::1]:2183", "[fe80::1%eth0]"]`,
		`  session_timeout: 6s`,
		`  auth: {user: me, password_file: secret/zk}`,
		`root: /a/b`,
		`log:`,
		`  level: debug`,
		`  format: console`,
		`policies:`,
		`  - name: jobs`,
		`    match: "**/jobs"`,
		`    ttl: 1m30s`,
		`    max_ttl: 90s`,
		`    grace: 500ms`,
		`    max_hold: 2h`,
		`    keep_parent: true`,
		`    local_window: none`,
		`    orphan_after: 1s`,
		`    schedule: "@hourly"`,
		`  - {name: rest, match: "**", max_hold: 0s}`,
		`reaper:`,
		`  schedule: 0 4 * * *`,
		`  concurrency: 1`,
		`  batch: 500`,
		`  lock: maintenance/reaper`,
		`  max_deletes_per_second: 30`,
	)))
	iferr.Fatal(t, err)
	policies, err := policy.NewSet(
		policy.Rule{
			Match: policy.MustPattern("**/jobs"),
			Policy: lock.Policy{
				Name: "jobs", TTL: 90 * time.Second, MaxTTL: 90 * time.Second, Grace: 500 * time.Millisecond,
				MaxHold: 2 * time.Hour, KeepParent: true, LocalWindow: lock.NoLocalWindow,
			},
			OrphanAfter: time.Second,
			Schedule:    "@hourly",
		},
		named("rest", "**"),
	)
	iferr.Fatal(t, err)
	want := &Config{
		ZooKeeper: ZooKeeper{
			Servers:        []string{"zk1:2181", "zk2:2182", "[::1]:2183", "[fe80::1%eth0]:2181"},
			SessionTimeout: 6 * time.Second,
			Auth:           &Auth{Scheme: "digest", User: "me", PasswordFile: "/etc/holdfast/secret/zk"},
		},
		Root:     "/a/b",
		Log:      Log{Level: "debug", Format: "console"},
		Policies: policies,
		Reaper:   Reaper{Schedule: "0 4 * * *", Concurrency: 1, Batch: 500, Lock: "maintenance/reaper", MaxDeletesPerSecond: 30},
	}
	if c.from = nil; !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

// sameConfig reports whether two configurations have equal values. It ignores their files.
func sameConfig(a, b *Config) bool {
	x, y := *a, *b
	x.Policies, y.Policies = nil, nil
	x.from, y.from = nil, nil
	return reflect.DeepEqual(x, y) && slices.Equal(a.Policies.All(), b.Policies.All())
}

func TestParseDefaults(t *testing.T) {
	for _, data := range []string{"{}", "{}\n", "# nothing\n{}\n", "policies: []\n", "root: /locks\n", "\uFEFFroot: /locks\r\n"} {
		c, err := Parse("config.yaml", []byte(data))
		if err != nil {
			t.Errorf("%q: %v", data, err)
		} else if !sameConfig(c, Default()) {
			t.Errorf("%q is %+v, want the defaults", data, c)
		}
	}
	for _, data := range []string{"", "\n", "# nothing\n", "---\n", "\uFEFF", "---\n# nothing\n"} {
		if _, err := Parse("config.yaml", []byte(data)); err == nil || !strings.Contains(err.Error(), "config.yaml: is empty") {
			t.Errorf("%q, as a file that was truncated may be: %v", data, err)
		}
	}
	c, err := Parse("config.yaml", []byte("log:\n  level: warn\nreaper:\n  batch: 7\n"))
	iferr.Fatal(t, err)
	want := Default()
	want.Log.Level, want.Reaper.Batch = "warn", 7
	if !sameConfig(c, want) {
		t.Errorf("got %+v, want %+v", c, want)
	}
}

func TestParseMistakes(t *testing.T) {
	policy := func(l ...string) string {
		return lines(append([]string{"policies:", "  - name: n", `    match: "a/*"`}, l...)...)
	}
	for _, test := range []struct {
		name, data   string
		line, column int
		key, value   string
		rule         string
	}{
		// Mistakes in the YAML text.
		{"not YAML", "root: /a\nlog: a: b\n", 2, 6, "", "", "is not YAML"},
		{"tab", "log:\n\tlevel: info\n", 2, 1, "", "", "a tab stands here: indent with spaces"},
		{"indented too far", "zookeeper:\n  servers: [a]\n   session_timeout: 5s\n", 3, 4, "", "", "what belongs together must be indented by the same number of spaces"},
		{"indented too little", "policies:\n  - name: a\n   match: b\n", 3, 4, "", "", "what belongs together must be indented by the same number of spaces"},
		{"indented between", "# all\nlog:\n    level: info\n  format: json # x\n", 4, 3, "", "", "what belongs together must be indented by the same number of spaces"},
		{"indented below a value", "policies:\n  - name: a\n      match: b\n", 2, 11, "", "", "what belongs together must be indented by the same number of spaces"},
		{"first line indented", "  root: /a\nlog: {level: info}\n", 2, 1, "", "", "what belongs together must be indented by the same number of spaces"},
		{"not indented", "root: /a\nsession_timeout: 5s\n", 2, 1, "session_timeout", "", "it belongs to zookeeper, indent it below that"},
		{"no space after the colon", "log:\n  level:info\n", 2, 3, "log", "level:info", "put a space after the colon of level:"},
		{"UTF-16", "\xff\xfer\x00o\x00o\x00t\x00", 1, 1, "", "", "is not UTF-8 text but UTF-16"},
		{"UTF-16 without a mark", "r\x00o\x00o\x00t\x00", 1, 1, "", "", "is not UTF-8 text but UTF-16"},
		{"UTF-16, big end first", "\x00r\x00o\x00o\x00t", 1, 1, "", "", "is not UTF-8 text but UTF-16"},
		{"Latin-1", "# \u00fc\nroot: /caf\xe9\n", 2, 11, "", "", "it has the byte 0xE9 here"},
		{"Latin-1 alone", "log: {level: info}\nroot: /caf\xe9\n", 2, 11, "", "", "if it is Latin-1, convert it"},
		{"binary", "\x1f\x8b\x08\x00\x00", 1, 1, "", "", "is not text: it has the control character U+001F here"},
		{"zero byte", "root: /a\x00b\n", 1, 9, "", "", "is not text: it has the control character U+0000 here"},
		{"@ without quotes", "reaper:\n  schedule: @every 1m\n", 2, 13, "", "", "put the text in quotes"},
		{"two documents", "root: /a\n---\nroot: /b\n", 2, 1, "", "", "single YAML document"},
		{"directive", "%YAML 1.2\n---\nroot: /b\n", 1, 1, "", "", "directives (%) are not accepted"},
		{"alias", policy("    schedule: *a"), 4, 15, "", "", "begins with * must be in quotes"},
		{"* without quotes", "policies:\n- match: **\n", 2, 10, "", "", "begins with * must be in quotes"},
		{"anchor", "log: &a\n  level: info\n", 1, 6, "", "", "begins with & must be in quotes"},
		{"tag", "root: !!str /a\n", 1, 7, "", "", "begins with ! must be in quotes"},
		{"merge key", "log:\n  <<: {level: info}\n", 2, 3, "", "", "merge keys"},
		{"long key", "? root\n: /a\n", 1, 1, "", "", "long form of keys"},
		{"nested brackets", "root: " + strings.Repeat("[", 21), 1, 27, "", "", "at most 20 deep"},
		{"nested brackets after a stray one", "]" + strings.Repeat("[", 21), 1, 22, "", "", "at most 20 deep"},
		{"nested dashes", strings.Repeat("- ", 21), 1, 41, "", "", "at most 20 deep"},
		{"many tokens", strings.Repeat("a: b\n", 13_334), 13_334, 2, "", "", "no configuration is that long"},
		{"size", strings.Repeat("#", maxFile+1), 0, 0, "", "", "at most 1048576 bytes"},

		// Mistakes in keys.
		{"host:port in braces", "zookeeper: {servers: [127.0.0.1:2181]}\n", 1, 23, "zookeeper.servers[0]", "a mapping", "quote it"},
		{"unknown key", "foo: 1\n", 1, 1, "foo", "", "is not a known key; the keys here are zookeeper, root, log, policies, reaper"},
		{"misspelt key", "zookeper:\n  a: 1\n", 1, 1, "zookeper", "", "did you mean zookeeper?"},
		{"misspelt policy key", policy("    tttl: 5s"), 4, 5, "policies[0].tttl", "", "did you mean ttl?"},
		{"camel case", policy("    maxTTL: 5s"), 4, 5, "policies[0].maxTTL", "", "did you mean max_ttl?"},
		{"dash", "zookeeper:\n  session-timeout: 5s\n", 2, 3, "zookeeper.session-timeout", "", "did you mean session_timeout?"},
		{"number as key", "1: 2\n", 1, 1, "1", "", "is not a known key"},
		{"unprintable key", "\"a\\nb\": 2\n", 1, 1, `"a\nb"`, "", "is not a known key"},
		{"key twice", "root: /a\nlog:\n  level: info\nroot: /b\n", 4, 1, "root", "", "is given twice, first in line 1"},
		{"no value", "root:\n\nlog:\n  level: info\n", 1, 6, "root", "", "has no value"},
		{"null", "log: ~\n", 1, 6, "log", "", "has no value"},

		// Values of a wrong type.
		{"number in quotes", "reaper: {batch: \"5\"}\n", 1, 17, "reaper.batch", "5", "must be a whole number, 1 or more, without quotes"},
		{"truth in quotes", "zookeeper: {unsafe_server: 'true'}\n", 1, 28, "zookeeper.unsafe_server", "true", "must be true or false, without quotes"},
		{"list for mapping", "log: [a]\n", 1, 6, "log", "a list", "must be a mapping"},
		{"text for mapping", "log: info\n", 1, 6, "log", "info", "must be a mapping"},
		{"text for file", "hunter2\n", 1, 1, "", "[redacted]", "must be a mapping"},
		{"mapping for list", "policies:\n  name: a\n", 2, 3, "policies", "a mapping", "must be a list"},
		{"text for policy", "policies:\n  - name\n", 2, 5, "policies[0]", "name", "must be a mapping"},
		{"number for text", "root: 5\n", 1, 7, "root", "5", "must be a text"},
		{"block for text", "root: |\n  /a\n", 1, 7, "root", "a block of text", "must be a text on one line"},
		{"text for truth value", policy("    keep_parent: yes"), 4, 18, "policies[0].keep_parent", "yes", "true or false"},
		{"text for number", "reaper:\n  batch: many\n", 2, 10, "reaper.batch", "many", "whole number"},
		{"octal number", "reaper:\n  batch: 010\n", 2, 10, "reaper.batch", "010", "whole number"},
		{"quoted number", "reaper:\n  batch: '10'\n", 2, 10, "reaper.batch", "10", "whole number"},
		{"huge number", "reaper:\n  batch: 99999999999999999999\n", 2, 10, "reaper.batch", "99999999999999999999", "whole number"},

		// Mistakes in durations.
		{"bare number", policy("    ttl: 30"), 4, 10, "policies[0].ttl", "30", "say the unit"},
		{"bare fraction", policy("    ttl: 0.5"), 4, 10, "policies[0].ttl", "0.5", "say the unit"},
		{"bare zero", policy("    max_hold: 0"), 4, 15, "policies[0].max_hold", "0", "say the unit"},
		{"bare quoted zero", policy("    max_hold: '0'"), 4, 15, "policies[0].max_hold", "0", "say the unit"},
		{"bare quoted number", policy("    ttl: '30'"), 4, 10, "policies[0].ttl", "30", "say the unit"},
		{"unknown unit", policy("    ttl: 30 seconds"), 4, 10, "policies[0].ttl", "30 seconds", "such as 500ms, 30s or 1h30m"},
		{"days", policy("    ttl: 1d"), 4, 10, "policies[0].ttl", "1d", "there are no days: 24h"},
		{"days and a half", policy("    ttl: 1.5 days"), 4, 10, "policies[0].ttl", "1.5 days", "there are no days: 36h"},
		{"weeks", policy("    ttl: 2w"), 4, 10, "policies[0].ttl", "2w", "there are no weeks: 336h"},
		{"list for duration", policy("    ttl: [30s]"), 4, 10, "policies[0].ttl", "a list", "must be a duration"},
		{"zero ttl", policy("    ttl: 0s"), 4, 10, "policies[0].ttl", "0s", "more than zero"},
		{"zero max_ttl", policy("    max_ttl: 0s"), 4, 14, "policies[0].max_ttl", "0s", "more than zero"},
		{"zero grace", policy("    grace: 0s"), 4, 12, "policies[0].grace", "0s", "more than zero"},
		{"zero orphan_after", policy("    orphan_after: 0s"), 4, 19, "policies[0].orphan_after", "0s", "more than zero"},
		{"zero local_window", policy("    local_window: 0s"), 4, 19, "policies[0].local_window", "0s", "more than zero; write none"},
		{"none for a ttl", policy("    ttl: none"), 4, 10, "policies[0].ttl", "none", "must be a duration"},

		// Mistakes in policies; package policy tests the rules that they keep as values, too.
		{"many policies", "policies:\n" + strings.Repeat("- {name: n, match: a}\n", 1001), 2, 1, "policies", "", "at most 1000, not 1001"},
		{"pattern", "policies:\n- name: n\n  match: /a\n", 3, 10, "policies[0].match", "/a", "must not start with a slash"},
		{"empty pattern", "policies:\n- name: n\n  match: ''\n", 3, 10, "policies[0].match", `""`, "is empty"},
		{"empty name", "policies:\n- name: ''\n  match: a\n", 2, 9, "policies[0].name", `""`, "must not be empty"},
		{"empty schedule", policy("    schedule: ''"), 4, 15, "policies[0].schedule", `""`, "must not be empty"},
		{"value as written", policy("    ttl: 0h0m0.05s"), 4, 10, "policies[0].ttl", "0h0m0.05s", "at least 100ms"},
		{"default out of order", policy("    max_ttl: 20s"), 2, 5, "policies[0].ttl", "30s (the default)", "at most max_ttl, which is 20s"},

		// Mistakes in the other sections.
		{"no server", "zookeeper:\n  servers: []\n", 2, 12, "zookeeper.servers", "[]", "at least 1"},
		{"server port", "zookeeper:\n  servers:\n  - a\n  - b:66666\n", 4, 5, "zookeeper.servers[1]", "b:66666", "port from 1 to 65535"},
		{"server without host", "zookeeper:\n  servers: [':2181']\n", 2, 13, "zookeeper.servers[0]", ":2181", "host or host:port"},
		{"server with path", "zookeeper:\n  servers: ['a:2181/b']\n", 2, 13, "zookeeper.servers[0]", "a:2181/b", "no chroot"},
		{"servers in one", "zookeeper:\n  servers: ['a,b']\n", 2, 13, "zookeeper.servers[0]", "a,b", "one server each"},
		{"server IPv6", "zookeeper:\n  servers: ['::1']\n", 2, 13, "zookeeper.servers[0]", "::1", "brackets"},
		{"session timeout short", "zookeeper:\n  session_timeout: 10ms\n", 2, 20, "zookeeper.session_timeout", "10ms", "at least 100ms"},
		{"session timeout long", "zookeeper:\n  session_timeout: 597h\n", 2, 20, "zookeeper.session_timeout", "597h", "at most 596h"},
		{"auth scheme", "zookeeper:\n  auth: {scheme: sasl, user: u, password_env: P}\n", 2, 18, "zookeeper.auth.scheme", "sasl", "must be digest"},
		{"auth without user", "zookeeper:\n  auth: {password_env: P}\n", 2, 9, "zookeeper.auth.user", "", "must be given"},
		{"auth user with colon", "zookeeper:\n  auth: {user: 'u:hunter2', password_env: P}\n", 2, 16, "zookeeper.auth.user", "[redacted]", "colon"},
		{"auth in a text", "zookeeper:\n  auth: digest:u:hunter2\n", 2, 9, "zookeeper.auth", "[redacted]", "must be a mapping"},
		{"auth without password", "zookeeper:\n  auth:\n    user: u\n", 3, 5, "zookeeper.auth", "", "exactly one of password_file and password_env"},
		{"auth with two passwords", "zookeeper:\n  auth: {user: u, password_env: P, password_file: f}\n", 2, 9, "zookeeper.auth", "", "exactly one of"},
		{"auth with the password", "zookeeper:\n  auth: {user: u, password_env: P, password: hunter2}\n", 2, 36, "zookeeper.auth.password", "", "is not a known key"},
		{"auth password as variable", "zookeeper:\n  auth: {user: u, password_env: hunter-2}\n", 2, 33, "zookeeper.auth.password_env", "[redacted]", "environment variable"},
		{"auth password as key", "zookeeper:\n  auth: {user: u, password_env: P, hunter2: x}\n", 2, 36, "zookeeper.auth.[redacted]", "", "the keys here are scheme, user"},
		{"auth password as number", "zookeeper:\n  auth: {user: u, password_file: 12345}\n", 2, 34, "zookeeper.auth.password_file", "[redacted]", "must be a text"},
		{"zookeeper in a text", "zookeeper: hunter2\n", 1, 12, "zookeeper", "[redacted]", "must be a mapping"},
		{"server with a login", "zookeeper:\n  servers: ['u:hunter2@zk1']\n", 2, 13, "zookeeper.servers[0]", "[redacted]@zk1", "no credentials"},
		{"servers with a login in a text", "zookeeper:\n  servers: 'zk://u:hunter2@zk1/a'\n", 2, 12, "zookeeper.servers", "[redacted]@zk1/a", "must be a list"},
		{"further user without a password", "zookeeper:\n  further_users: [{user: u}]\n", 2, 19, "zookeeper.further_users[0]", "", "exactly one of password_file and password_env"},
		{"further user with one too much", "zookeeper:\n  further_users: [{scheme: sasl, user: u, password_env: V}]\n", 2, 19, "zookeeper.further_users[0]", "", "must not have a password"},
		{"tls in a text", "zookeeper:\n  tls: yes\n", 2, 8, "zookeeper.tls", "yes", "must be a mapping"},
		{"tls key missing", "zookeeper:\n  tls: {cert_file: c}\n", 2, 8, "zookeeper.tls", "", "cert_file and key_file together"},
		{"tls key itself", "zookeeper:\n  tls: {cert_file: c, key_file: \"-----BEGIN PRIVATE KEY-----hunter2\"}\n", 2, 33, "zookeeper.tls.key_file", "[redacted]", "must be the name of a file"},
		{"follow_reconfiguration", "zookeeper:\n  follow_reconfiguration: maybe\n", 2, 27, "zookeeper.follow_reconfiguration", "maybe", "true or false"},
		{"unsafe_server", "zookeeper:\n  unsafe_server: 1\n", 2, 18, "zookeeper.unsafe_server", "1", "true or false"},
		{"sasl without mechanism", "zookeeper:\n  sasl: {user: u, password_env: P}\n", 2, 9, "zookeeper.sasl.mechanism", "", "must be given: digest-md5 or gssapi"},
		{"sasl mechanism", "zookeeper:\n  sasl: {mechanism: plain, user: u, password_env: P}\n", 2, 21, "zookeeper.sasl.mechanism", "plain", "must be digest-md5 or gssapi"},
		{"sasl without user", "zookeeper:\n  sasl: {mechanism: digest-md5, password_env: P}\n", 2, 9, "zookeeper.sasl.user", "", "must be given"},
		{"sasl without password", "zookeeper:\n  sasl: {mechanism: digest-md5, user: u}\n", 2, 9, "zookeeper.sasl", "", "exactly one of password_file and password_env"},
		{"sasl with two passwords", "zookeeper:\n  sasl: {mechanism: digest-md5, user: u, password_env: P, password_file: f}\n", 2, 9, "zookeeper.sasl", "", "exactly one of"},
		{"sasl with the password", "zookeeper:\n  sasl: {mechanism: digest-md5, user: u, password_env: P, hunter2: x}\n", 2, 59, "zookeeper.sasl.[redacted]", "", "the keys here are mechanism, user"},
		{"sasl of two mechanisms", "zookeeper:\n  sasl: {mechanism: digest-md5, user: u, keytab: k}\n", 2, 50, "zookeeper.sasl.keytab", "", "belongs to the mechanism gssapi"},
		{"sasl of two mechanisms, the other way", "zookeeper:\n  sasl: {mechanism: gssapi, user: u}\n", 2, 35, "zookeeper.sasl.user", "", "belongs to the mechanism digest-md5"},
		{"sasl with two credentials", "zookeeper:\n  sasl: {mechanism: gssapi, principal: p, keytab: k, ccache: c}\n", 2, 9, "zookeeper.sasl", "", "at most one of keytab and ccache"},
		{"sasl keytab of whom", "zookeeper:\n  sasl: {mechanism: gssapi, keytab: k}\n", 2, 9, "zookeeper.sasl.principal", "", "must be given with keytab"},
		{"sasl cache in the kernel", "zookeeper:\n  sasl: {mechanism: gssapi, ccache: 'KEYRING:persistent:1'}\n", 2, 37, "zookeeper.sasl.ccache", "KEYRING:persistent:1", "must be a file"},
		{"sasl service", "zookeeper:\n  sasl: {mechanism: gssapi, service: zookeeper/zk1}\n", 2, 38, "zookeeper.sasl.service", "zookeeper/zk1", "must be the first part"},
		{"auth variable empty", "zookeeper:\n  auth: {user: u, password_env: ''}\n", 2, 33, "zookeeper.auth.password_env", "[redacted]", "must not be empty"},
		{"root slash", "root: /\n", 1, 7, "root", "/", "such as /locks"},
		{"root relative", "root: locks\n", 1, 7, "root", "locks", "start with a slash"},
		{"root of ZooKeeper", "root: /zookeeper/quota\n", 1, 7, "root", "/zookeeper/quota", "belongs to ZooKeeper"},
		{"root component", "root: /a//b\n", 1, 7, "root", "/a//b", "empty component"},
		{"root control character", "root: \"/a\\x7f\"\n", 1, 7, "root", `"/a\x7f"`, "U+007F is not allowed"},
		{"log level", "log: {level: loud}\n", 1, 14, "log.level", "loud", "trace or debug or info or warn or error"},
		{"log format", "log: {format: xml}\n", 1, 15, "log.format", "xml", "json or console"},
		{"reaper schedule", "reaper:\n  schedule: \"@every 100ms\"\n", 2, 13, "reaper.schedule", "@every 100ms", "cron would round it"},
		{"reaper concurrency", "reaper:\n  concurrency: 0\n", 2, 16, "reaper.concurrency", "0", "1 or more"},
		{"reaper batch negative", "reaper:\n  batch: -1\n", 2, 10, "reaper.batch", "-1", "1 or more"},
		{"reaper lock", "reaper:\n  lock: /reaper\n", 2, 9, "reaper.lock", "/reaper", "must not start with a slash"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Parse("some/file.yaml", []byte(test.data))
			if c != nil {
				t.Error("there is a configuration besides the error")
			}
			m := onlyMistake(t, err)
			if !strings.Contains(m.Rule, test.rule) {
				t.Errorf("the rule is %q, want %q in it", m.Rule, test.rule)
			}
			want := Mistake{File: "some/file.yaml", Line: test.line, Column: test.column, Key: test.key, Value: test.value, Rule: m.Rule}
			if m != want {
				t.Errorf("mistake\n got %+v\nwant %+v", m, want)
			}
			if strings.Contains(err.Error(), "hunter") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}

// TestParseAllAtOnce: mistakes of all sections are reported together, in the order of the file. No
// mistake is reported that only follows from another one.
func TestParseAllAtOnce(t *testing.T) {
	_, err := Parse("config.yaml", []byte(lines(
		/*  1 */ `reaper:`,
		/*  2 */ `  lock: ../x`,
		/*  3 */ `policies:`,
		/*  4 */ `- name: a`,
		/*  5 */ `  match: a/**`,
		/*  6 */ `  ttl: long`,
		/*  7 */ `  max_hold: 1s`,
		/*  8 */ `  grace: 5`,
		/*  9 */ `- nonsense`,
		/* 10 */ `- name: a`,
		/* 11 */ `  match: a/b`,
		/* 12 */ `  max_hold: 1s`,
		/* 13 */ `  schedule: soon`,
		/* 14 */ `- match: a**`,
		/* 15 */ `  ttl: 1ms`,
		/* 16 */ `zookeeper:`,
		/* 17 */ `  servers: ["a:b", c, d:0]`,
		/* 18 */ `  auth:`,
		/* 19 */ `    scheme: x`,
		/* 20 */ `root: /`,
		/* 21 */ `root: /a`,
		/* 22 */ `logs: {}`,
	)))
	var e *Error
	if !errors.As(fmt.Errorf("start: %w", err), &e) {
		t.Fatalf("error is %T (%v)", err, err)
	}
	var got []string
	for _, m := range e.Mistakes {
		got = append(got, fmt.Sprintf("%d %s", m.Line, m.Key))
	}
	want := []string{
		"2 reaper.lock",
		"6 policies[0].ttl", "8 policies[0].grace",
		"9 policies[1]",
		"10 policies[2].name", "11 policies[2].match", "12 policies[2].max_hold", "13 policies[2].schedule",
		"14 policies[3].name", "14 policies[3].match", "15 policies[3].ttl",
		"17 zookeeper.servers[0]", "17 zookeeper.servers[2]",
		"19 zookeeper.auth.user", "19 zookeeper.auth", "19 zookeeper.auth.scheme",
		"20 root", "21 root", "22 logs",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s\nerror\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"), err)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Errorf("%d lines for %d mistakes", len(lines), len(want))
	}
	if want := "config.yaml:2:9: reaper.lock: ../x: component \"..\" is relative"; lines[0] != want {
		t.Errorf("first line is %q, want %q", lines[0], want)
	}
}

// TestParseLargest: the parser's limits admit the largest number of policies, in a style with many
// tokens.
func TestParseLargest(t *testing.T) {
	var b strings.Builder
	b.WriteString("policies: [\n")
	for i := range policy.MaxRules {
		fmt.Fprintf(&b, "  # One more.\n  # A\n  # few\n  # words\n  {name: n%d, match: m%d, ttl: 5s, max_ttl: 1m, grace: 1s, max_hold: 0s, keep_parent: true, orphan_after: 1m, schedule: '@hourly'},\n", i, i)
	}
	b.WriteString("]\n")
	c, err := Parse("config.yaml", append(configFile(t)[:strings.Index(string(configFile(t)), "policies:")], b.String()...))
	iferr.Fatal(t, err)
	if n := len(c.Policies.All()); n != policy.MaxRules+1 {
		t.Errorf("%d policies", n)
	}
}

func TestParserPanics(t *testing.T) {
	d := newDecoder("config.yaml")
	d.guard(func() { panic("on fire") })
	if m := onlyMistake(t, d.err()); m.String() != "config.yaml: is not YAML, and the parser failed on it: on fire" {
		t.Errorf("mistake is %q", m)
	}
}

func TestParseLongValue(t *testing.T) {
	_, err := Parse("config.yaml", []byte("root: x"+strings.Repeat("ä", 300)+"\n"))
	if m := onlyMistake(t, err); m.Value != "x"+strings.Repeat("ä", 39)+"…" {
		t.Errorf("value is %q", m.Value)
	}
}

func TestLoad(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "config.yaml")
	if _, err := Load(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Load(folder); err == nil {
		t.Error("a folder is loaded")
	}
	write := func(data string) {
		iferr.Fatal(t, os.WriteFile(path, []byte(data), 0o600))
	}
	write("root: /a\n")
	c, err := Load(path)
	if err != nil || c.Root != "/a" {
		t.Errorf("Load = %+v, %v", c, err)
	}
	write("root: a\n")
	_, err = Load(path)
	if m := onlyMistake(t, err); m.File != path || m.Line != 1 {
		t.Errorf("mistake is %q", m)
	}
	write("root: /a\n#" + strings.Repeat("x", 2*maxFile))
	_, err = Load(path)
	if m := onlyMistake(t, err); !strings.Contains(m.Rule, "bytes") {
		t.Errorf("mistake is %q", m)
	}
}

// example uncomments the examples in config.yaml: the lines with no space, or with two, after the #.
func example(data []byte) []byte {
	return regexp.MustCompile(`(?m)^( *)#([^ \n]|  )`).ReplaceAll(data, []byte("$1$2"))
}

func configFile(t testing.TB) []byte {
	data, err := os.ReadFile("../../config.yaml")
	iferr.Fatal(t, err)
	return data
}

// TestConfigFileIsDefault: config.yaml has the defaults, except in the section reaper, which a test of
// package reaper checks.
func TestConfigFileIsDefault(t *testing.T) {
	c, err := Load("../../config.yaml")
	iferr.Fatal(t, err)
	c.Reaper = Default().Reaper
	if !sameConfig(c, Default()) {
		t.Errorf("config.yaml is\n%+v %+v\nwant\n%+v %+v", c, c.Policies.All(), Default(), Default().Policies.All())
	}
}

func TestConfigFileExamples(t *testing.T) {
	data := example(configFile(t))
	c, err := Parse("config.yaml", data)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, data)
	}
	if c.ZooKeeper.Auth == nil || len(c.Policies.All()) < 2 {
		t.Errorf("there are no examples in %+v", c)
	}
}

func TestConfigFileHasEveryKey(t *testing.T) {
	data := example(configFile(t))
	// These keys exclude keys that the examples have.
	exclusive := []string{"zookeeper.auth.password_env", "zookeeper.sasl.password_env", "zookeeper.further_users[].password_env"}
	for _, key := range keysOfMechanism[GSSAPI] {
		exclusive = append(exclusive, "zookeeper.sasl."+key)
	}
	for _, key := range exclusive {
		if !regexp.MustCompile(`(?m)^ +# ` + key[strings.LastIndex(key, ".")+1:] + `: \S+$`).Match(data) {
			t.Errorf("%s is not in config.yaml", key)
		}
	}
	d := newDecoder("config.yaml")
	d.decode(newField(reflect.ValueOf(new(Config)).Elem(), ""), "", d.parse(data))
	given := map[string]bool{}
	for path := range d.places {
		given[regexp.MustCompile(`\[\d+\]`).ReplaceAllString(path, "[]")] = true
	}
	keys := keysBelow("", fieldsOf(reflect.ValueOf(new(Config)).Elem()))
	if len(keys) < 25 {
		t.Fatalf("the schema has only the keys %q", keys)
	}
	for _, key := range keys {
		// config.yaml may leave out a root's key if it explains the same key of the whole file.
		inner, above := strings.CutPrefix(key, "roots[].")
		above = above && strings.Contains(inner, ".") && slices.Contains(keys, inner)
		if !given[key] && !slices.Contains(exclusive, key) && !above {
			t.Errorf("%s is not in config.yaml", key)
		}
	}
}

// keysBelow returns the paths of all keys of the fields.
func keysBelow(path string, fields []field) (keys []string) {
	for _, f := range fields {
		key, to := strings.TrimPrefix(path+"."+f.key, "."), f.to
		keys = append(keys, key)
		if to.Type() == reflect.TypeFor[*policy.Set]() {
			to = reflect.ValueOf(new([]policy.Rule)).Elem()
		}
		switch {
		case to.Kind() == reflect.Pointer:
			keys = append(keys, keysBelow(key, fieldsOf(reflect.New(to.Type().Elem()).Elem()))...)
		case to.Kind() == reflect.Slice && to.Type().Elem().Kind() == reflect.Struct:
			keys = append(keys, keysBelow(key+"[]", fieldsOf(reflect.New(to.Type().Elem()).Elem()))...)
		default:
			keys = append(keys, keysBelow(key, f.below)...)
		}
	}
	return keys
}

// TestConfigFileExplainsEveryKey: every key with a value has a comment right above it.
func TestConfigFileExplainsEveryKey(t *testing.T) {
	before := ""
	key := regexp.MustCompile(`^ *(- )?\w+: \S`)
	for i, line := range strings.Split(string(configFile(t)), "\n") {
		if key.MatchString(line) && !regexp.MustCompile(`^ *# [A-Za-z"]`).MatchString(before) {
			t.Errorf("line %d has no comment above it: %s", i+1, line)
		}
		before = line
	}
}

func FuzzParse(f *testing.F) {
	f.Add(configFile(f))
	f.Add(example(configFile(f)))
	for _, data := range []string{
		"", "~", "[", "{", "- - -", "a: *b", "? a", "&a", "!!", "<<: *a", "|", ">", "%", "@", "\t", "\x00", "\xff", "'", "\"\\", "---\n...",
		"log: {level: info, level: debug}", "policies: [{}, [], ~, 1]", "policies: [{name: n, match: a*, ttl: 1ms, max_hold: -1s, schedule: '@every 1500ms'}, {name: n, match: ab}]", "a: &a [*a, *a]", "root: |\n /a\n", "\uFEFFroot: /\r\n",
		"reaper: {schedule: 'CRON_TZ=UTC', batch: 0x10}", "zookeeper: {servers: [[], {}], auth: {password_env: 'a b'}}",
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("config.yaml", data)
		if err == nil {
			for _, p := range c.Policies.All() {
				iferr.Fatal(t, p.Policy.Validate())
			}
			if s := c.Reaper.Schedule; s != "" {
				iferr.Fatal(t, calendar.Check(s))
			}
			return
		}
		var e *Error
		if !errors.As(err, &e) || len(e.Mistakes) == 0 || c != nil {
			t.Fatalf("Parse = %v, %T", c, err)
		}
		if n := strings.Count(err.Error(), "\n") + 1; n != len(e.Mistakes) {
			t.Fatalf("%d lines for %d mistakes:\n%v", n, len(e.Mistakes), err)
		}
		before := 0
		for _, m := range e.Mistakes {
			if strings.HasPrefix(m.Rule, parserFailed) {
				t.Fatal(m)
			}
			if m.Rule == "" || m.Line < before || m.Line > strings.Count(string(data), "\n")+strings.Count(string(data), "\r")+1 {
				t.Fatalf("mistake %+v after line %d", m, before)
			}
			before = m.Line
		}
	})
}
