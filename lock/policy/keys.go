package policy

import (
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

// schema is the complete list of keys, with each key's rules and destination.
func schema(c *Config) object {
	return object{
		{"zookeeper", zookeeperSchema(&c.ZooKeeper)},
		{"root", text(&c.Root, rootRule)},
		{"log", object{
			{"level", choice(&c.Log.Level, "trace", "debug", "info", "warn", "error")},
			{"format", choice(&c.Log.Format, "json", "console")},
		}},
		{"policies", policiesSchema(&c.Policies)},
		{"reaper", append(reaperSchema(&c.Reaper), statusSchema(&c.Status)...)},
		{"roots", listOf(&c.Roots, rootSchema, 1)},
	}
}

// reaperSchema is the part of the schema for the reaper.
func reaperSchema(r *Reaper) object {
	return object{
		{"schedule", text(&r.Schedule, checkSchedule)},
		{"concurrency", number(&r.Concurrency)},
		{"batch", number(&r.Batch)},
		{"max_deletes_per_second", number(&r.MaxDeletesPerSecond)},
		{"lock", text(&r.Lock, nameRule)},
	}
}

// statusSchema is the part of the schema for the reaper's status page. Its keys are among those of
// the reaper, but not among those of a single root.
func statusSchema(s *Status) object {
	return object{
		{"listen", parsed(&s.Listen, ParseListen)},
		{"hosts", listOf(&s.Hosts, func(to *string) value { return text(to, hostRule) }, 1)},
		{"show_metadata", boolean(&s.Metadata)},
	}
}

// zookeeperSchema is the part of the schema for the servers and the credentials.
func zookeeperSchema(z *ZooKeeper) object {
	auth, tls := new(Auth), new(TLS)
	server := func(to *string) value { return withoutLogin(parsed(to, zkconn.ParseServer)) }
	return object{
		{"servers", withoutLogin(listOf(&z.Servers, server, 1))},
		{"session_timeout", duration(&z.SessionTimeout, sessionTimeoutRule)},
		{"auth", checked{hidden(object{
			{"scheme", choice(&auth.Scheme, "digest")},
			{"user", hidden(text(&auth.User, userRule))},
			{"password_file", hidden(text(&auth.PasswordFile, pathRule))},
			{"password_env", hidden(text(&auth.PasswordEnv, variableRule))},
		}), func(d *decoder, path string) { z.Auth = d.checkAuth(path, auth) }}},
		{"tls", checked{object{
			{"ca_file", text(&tls.CAFile, pathRule)},
			{"cert_file", text(&tls.CertFile, pathRule)},
			{"key_file", hidden(text(&tls.KeyFile, pathRule))},
			{"server_name", text(&tls.ServerName, notEmpty)},
		}, func(d *decoder, path string) { z.TLS = d.checkTLS(path, tls) }}},
		{"unsafe_server", boolean(&z.UnsafeServer)},
	}
}

// policiesSchema is the part of the schema for a list of policies.
func policiesSchema(to **Set) value {
	policies := new([]Policy)
	return checked{listOf(policies, policyKeys, 0), func(d *decoder, path string) {
		*to = newSet(*policies, path, &d.mistakes)
	}}
}

// policyKeys is the part of the schema for one policy. The rules for its values are those of
// [NewSet], except that zero does not mean the default.
func policyKeys(p *Policy) value {
	return object{
		{"name", text(&p.Name, notEmpty)},
		{"match", parsed(&p.Match, func(s string) (Pattern, error) { return Pattern{s}, checkPattern(s) })},
		{"ttl", duration(&p.TTL, notZero)},
		{"max_ttl", duration(&p.MaxTTL, notZero)},
		{"grace", duration(&p.Grace, notZero)},
		{"max_hold", duration(&p.MaxHold, anyTime)},
		{"keep_parent", boolean(&p.KeepParent)},
		{"local_window", duration(&p.LocalWindow, func(t time.Duration) error {
			switch t {
			case 0:
				p.LocalWindow = lock.NoLocalWindow
			case lock.NoLocalWindow:
				return errors.New("must be at least 0s")
			}
			return nil
		})},
		{"idle", duration(&p.Idle, anyTime)},
		{"orphan_after", duration(&p.OrphanAfter, notZero)},
		{"schedule", text(&p.Schedule, notEmpty)},
	}
}

// rootSchema is the part of the schema for one root.
func rootSchema(r *Root) value {
	z := new(ZooKeeper)
	return object{
		{"name", text(&r.Name, notEmpty)},
		{"root", text(&r.Root, rootRule)},
		{"zookeeper", checked{zookeeperSchema(z), func(*decoder, string) { r.ZooKeeper = z }}},
		{"policies", policiesSchema(&r.Policies)},
		{"reaper", reaperSchema(&r.Reaper)},
	}
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("must not be empty")
	}
	return nil
}

func notZero(t time.Duration) error {
	if t == 0 {
		return errors.New("must be more than zero; delete the key for the default")
	}
	return nil
}

func anyTime(time.Duration) error { return nil }

func rootRule(root string) error { return ruleOf(znode.CheckRoot(root), "root", root) }

// nameRule returns the rule that the name of a lock breaks.
func nameRule(name string) error { return ruleOf(znode.CheckName(name), "lock name", name) }

// ruleOf returns an error of package znode without the value, which the message already has.
func ruleOf(err error, what, value string) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("%s %q: ", what, value)))
}

// sessionTimeoutRule allows what go-zookeeper can send: an int32 of milliseconds. The server's own
// limits follow from its tick time.
func sessionTimeoutRule(t time.Duration) error {
	return checkTime(t, 100*time.Millisecond, math.MaxInt32*time.Millisecond)
}

// userRule refuses a colon: it separates the user from the password in a digest.
func userRule(s string) error {
	if s == "" || strings.Contains(s, ":") {
		return errors.New("must not be empty nor have a colon")
	}
	return nil
}

// pathRule refuses a text that is a file's content instead of a file's name.
func pathRule(s string) error {
	if strings.ContainsAny(s, "\n\x00") || strings.Contains(s, "-----BEGIN") {
		return errors.New("must be the name of a file, not what stands in it")
	}
	return notEmpty(s)
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func variableRule(s string) error {
	if s != "" && !variable.MatchString(s) {
		return errors.New("must be the name of an environment variable: letters, digits and underscores")
	}
	return notEmpty(s)
}

func hostRule(host string) error {
	if host == "" || strings.ContainsAny(host, ":/@ ") {
		return errors.New("must be the name of a host, without a port")
	}
	return nil
}
