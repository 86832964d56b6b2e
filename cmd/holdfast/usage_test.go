package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

// TestUsage: a wrong argument or flag is a usage error that says what is wrong, before the command
// connects or starts anything. A zero value is not treated as missing.
func TestUsage(t *testing.T) {
	t.Setenv(app.EnvConfig, "")
	t.Setenv(app.EnvServers, "127.0.0.1:1")
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("went as far as to connect"))
	history := strings.Join(incidentArgs(), " ")
	for line, says := range map[string]string{
		// the command that was probably meant, if there is one
		"lss": "; did you mean ls?\n", "status": "; did you mean ls?\n", "rm": "; did you mean break?\n", "xyzzy": "for \"holdfast\"\n",
		"policy orders/42": "; did you mean holdfast policy test orders/42?\n", "config chekc": "; did you mean check?\n",
		"jobs nightly": "for \"holdfast jobs\"\n", // and no proposal to forget it
		"help lss":     "; did you mean ls?\n", "help jobs nightly": "unknown command \"nightly\" for \"holdfast jobs\"",

		"version x": `want no arguments, not "x"`, "show a b": "want the name of one lock, not 2 arguments", "jobs forget": "want the name of one job, not 0 arguments",
		"shards a b": "want the name of one group, or none, not 2 arguments", "ls a b": "want the name or pattern of locks, or none, not 2 arguments",

		// an empty value, for example of an unset variable in a script
		"run x --attach= -- true": "must not be empty", "run x --detach= -- true": "must not be empty", "break x --entry= --yes --now": "must not be empty",

		"run x --ttl 0s -- true":                          "--ttl 0s: must be at least 1s",
		"run x --ttl -1s -- true":                         "--ttl -1s: must be at least 1s",
		"run x --ttl 999ms -- true":                       "must be at least 1s",
		"run x --wait -1s -- true":                        "--wait -1s: must not be negative",
		"run x --at-least -1s -- true":                    "--at-least -1s: must not be negative",
		"run x --held-status 256 -- true":                 "--held-status 256: must be from 0 to 255",
		"run x y -- true":                                 "want one lock name",
		"run x --detach y --detach-for -1s -- true":       "--detach-for -1s: must be at least 100ms",
		"run x --detach y --detach-for 99ms -- true":      "--detach-for 99ms: must be at least 100ms",
		"run x --detach y --detach-for 1000001us -- true": "--detach-for 1.000001s: must be whole milliseconds",
		"run x --detach y --detach-for 61m -- true":       `--detach-for 1h1m0s of lock "x": must be at most max_ttl, which is 1h0m0s, of policy "default"`,

		"run x --missed all -- true":                         "--missed: is for --tick",
		"run x --at-least-once -- true":                      "--at-least-once: is for --tick",
		"run x --limit 3 -- true":                            "--limit: is for --tick",
		"run x --tick @daily --at-least 1m -- true":          "--at-least: does not go with --tick",
		"run x --tick @daily --wait 0 -- true":               "--wait 0: does not go with --tick",
		"run x --tick @daily --late 0s -- true":              "--late 0s: must be positive",
		"run x --tick @daily --limit 3 -- true":              "--limit: is for --missed all",
		"run x --tick @daily --missed all --limit 0 -- true": "--limit 0: must be from 1 to 1000",
		"run x --tick often -- true":                         `--tick "often": must be a cron expression`,
		"run x --tick @daily --missed most -- true":          `invalid argument "most" for "--missed" flag: missed "most": must be one of skip, last, all`,
		"run x --tick @daily --overlap most -- true":         `invalid argument "most" for "--overlap" flag: overlap "most": must be one of wait, skip, beside`,
		"jobs --jobs locks/x":                                `invalid argument "locks/x" for "--jobs" flag: root "locks/x": must start with a slash`,
		"history --jobs locks/x":                             `for "--jobs" flag`,
		"dev --listen 0.0.0.0:2181":                          `--listen "0.0.0.0:2181": must be on loopback, such as 127.0.0.1:2181`,
		"dev --listen 192.0.2.1:2181":                        `--listen "192.0.2.1:2181": must be on loopback`,
		"dev --listen example.org:2181":                      `--listen "example.org:2181": must be on loopback`,
		"dev --listen [::]:2181":                             `--listen "[::]:2181": must be on loopback`,
		"dev --listen nonsense":                              `--listen "nonsense": must be a port or host:port on loopback, such as 2181`,
		"dev --listen 65535 --members 2":                     `--listen "65535": must leave room for the ports of 2 members up to 65535`,
		"dev --members 0":                                    "--members 0: must be from 1 to 9",
		"dev --members 10":                                   "--members 10: must be from 1 to 9",
		"dev --clock-skew 2":                                 `invalid argument "2" for "--clock-skew"`,
		"dev --clock-skew 25h":                               "--clock-skew 25h0m0s: must be at most 24h0m0s ahead or behind",
		"dev --clock-skew -25h":                              "--clock-skew -25h0m0s: must be at most",
		"history orders/42":                                  "--logs is missing",
		history + " /x":                                      `lock name "/x"`,
		history + " --since noon":                            `--since "noon": must be a time of day`,
		history + " --at 0xg":                                `--at "0xg": is no zxid`,
		history + " --since 2026-11-26 --until 2026-11-25":   "is before --since",
		history + " --json --html x.html":                    "--json and --html: choose one",
		history + " --at 03:12 --html x.html":                "--at and --html: choose one",
		"audit":                                              "--logs is missing",
		strings.Join(auditArgs("--grace", "1ms"), " "):       "--grace 1ms: must be at least 100ms",
		strings.Join(auditArgs("--skew", "-1s"), " "):        "--skew -1s: must not be negative",
		strings.Join(auditArgs("--since", "yesterday"), " "): "--since",
	} {
		var errs strings.Builder
		status := run(ended, strings.Fields(line), strings.NewReader(""), io.Discard, &errs)
		if status != app.StatusUsage || !strings.Contains(errs.String(), says) {
			t.Errorf("%s: status %d, says %q; want %q", line, status, &errs, says)
		}
	}
}
