package policy

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// draft is a configuration while it is being read.
type draft struct {
	Config
	auth     Auth
	tls      TLS
	policies []Policy
	roots    []rootDraft
}

// schema is the one list of the keys: what each may hold, and where it goes.
func (c *draft) schema() object {
	return object{
		{"zookeeper", zookeeperSchema(&c.ZooKeeper, &c.auth, &c.tls)},
		{"root", text(&c.Root, rootRule)},
		{"log", object{
			{"level", choice(&c.Log.Level, "trace", "debug", "info", "warn", "error")},
			{"format", choice(&c.Log.Format, "json", "console")},
		}},
		{"policies", listOf(&c.policies, policySchema, 0)},
		{"reaper", append(reaperSchema(&c.Reaper), statusSchema(&c.Status)...)},
		{"roots", listOf(&c.roots, rootSchema, 1)},
	}
}

// reaperSchema is the part of the schema for how a reaper works.
func reaperSchema(r *Reaper) object {
	return object{
		{"schedule", text(&r.Schedule, scheduleRule)},
		{"concurrency", number(&r.Concurrency)},
		{"batch", number(&r.Batch)},
		{"max_deletes_per_second", number(&r.MaxDeletesPerSecond)},
		{"lock", text(&r.Lock, nameRule)},
	}
}

// zookeeperSchema is the part of the schema for the servers, and our credentials there.
func zookeeperSchema(z *ZooKeeper, auth *Auth, tls *TLS) value {
	return object{
		{"servers", withoutLogin{listOf(&z.Servers, server, 1)}},
		{"session_timeout", duration(&z.SessionTimeout, sessionTimeoutRule)},
		{"auth", hidden{object{
			{"scheme", choice(&auth.Scheme, "digest")},
			{"user", hidden{text(&auth.User, userRule)}},
			{"password_file", hidden{text(&auth.PasswordFile, pathRule)}},
			{"password_env", hidden{text(&auth.PasswordEnv, variableRule)}},
		}}},
		{"tls", object{
			{"ca_file", text(&tls.CAFile, pathRule)},
			{"cert_file", text(&tls.CertFile, pathRule)},
			{"key_file", hidden{text(&tls.KeyFile, pathRule)}},
			{"server_name", text(&tls.ServerName, notEmpty)},
		}},
		{"unsafe_server", boolean(&z.UnsafeServer)},
	}
}

// policySchema is the part of the schema for one policy. The rules on its
// values are those of [NewSet], except that a zero is not taken for a default.
func policySchema(p *Policy) value {
	return object{
		{"name", text(&p.Name, notEmpty)},
		{"match", pattern(&p.Match)},
		{"ttl", duration(&p.TTL, notZero)},
		{"max_ttl", duration(&p.MaxTTL, notZero)},
		{"grace", duration(&p.Grace, notZero)},
		{"max_hold", duration(&p.MaxHold, anyTime)},
		{"keep_parent", boolean(&p.KeepParent)},
		{"local_window", window(&p.LocalWindow)},
		{"idle", duration(&p.Idle, anyTime)},
		{"orphan_after", duration(&p.OrphanAfter, notZero)},
		{"schedule", text(&p.Schedule, notEmpty)},
	}
}

func notEmpty(s string) string {
	if s == "" {
		return "must not be empty"
	}
	return ""
}

func notZero(t time.Duration) string {
	if t == 0 {
		return "must be more than zero; delete the key for the default"
	}
	return ""
}

func anyTime(time.Duration) string { return "" }

func rootRule(root string) string {
	if err := znode.CheckRoot(root); err != nil {
		return strings.TrimPrefix(err.Error(), fmt.Sprintf("root %q: ", root))
	}
	return ""
}

func scheduleRule(s string) string {
	if err := checkSchedule(s); err != nil {
		return err.Error()
	}
	return ""
}

// sessionTimeoutRule leaves the real bounds to the server, which has them from
// its tick time; go-zookeeper sends the number as an int32 of milliseconds.
func sessionTimeoutRule(t time.Duration) string {
	return checkTime(t, 100*time.Millisecond, math.MaxInt32*time.Millisecond)
}

// userRule keeps apart what digest joins with a colon.
func userRule(s string) string {
	if s == "" || strings.Contains(s, ":") {
		return "must not be empty nor have a colon"
	}
	return ""
}

func variableRule(s string) string {
	for i, r := range s {
		if r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r)) && (i == 0 || r < '0' || r > '9') {
			return "must be the name of an environment variable: letters, digits and underscores"
		}
	}
	return notEmpty(s)
}

// server takes one address of the list.
func server(to *string) value {
	return withoutLogin{parsed(to, func(s string) (string, string) {
		address, err := zkconn.ParseServer(s)
		if err != nil {
			return "", err.Error()
		}
		return address, ""
	})}
}

// pattern takes a policy's pattern.
func pattern(to *Pattern) value {
	return parsed(to, func(s string) (Pattern, string) { return Pattern{s}, checkPattern(s) })
}
