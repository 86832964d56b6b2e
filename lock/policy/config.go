package policy

import (
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Config is a whole configuration file. The library, the reaper and the command line read the same
// file.
type Config struct {
	ZooKeeper ZooKeeper
	Root      string // the node under which all locks are; default "/locks"
	Log       Log
	Policies  *Set
	Reaper    Reaper
	Status    Status // what the reaper serves
	Roots     []Root // the reaper's roots; none: Root alone

	file   string           // that it was read from
	places map[string]place // of its keys' values
	whole  *Config          // of a single root: the file's configuration; nil: this is it
}

// ZooKeeper has the servers of the ensemble and how to connect to them.
type ZooKeeper struct {
	Servers        []string      // as host:port; default 127.0.0.1:2181
	SessionTimeout time.Duration // requested timeout, the server may grant another; default 10s
	Auth           *Auth         // nil, the default: none
	TLS            *TLS          // nil, the default: plain text
	UnsafeServer   bool          // accept a server that cannot keep locks safe, see [lock.WithUnsafeServer]
}

// Auth is a credential that a connection presents. Exactly one of PasswordFile
// and PasswordEnv is set.
type Auth struct {
	Scheme       string // "digest"
	User         string
	PasswordFile string // the file that holds the password
	PasswordEnv  string // the environment variable that holds it

	path string // of its key in the file; "" is zookeeper.auth
}

// Log has the level and the form of the log.
type Log struct {
	Level  string // trace, debug, info, warn or error; default info
	Format string // json or console; default json
}

// Reaper has the settings of the reaper. A zero field means the default of package reaper, which
// also checks the limits.
type Reaper struct {
	Schedule    string // when policies without one of their own are swept
	Concurrency int    // requests in flight
	Batch       int    // deletes in one transaction
	Lock        string // the lock that makes one reaper the active one
	// MaxDeletesPerSecond limits the deletes of all sweeps together.
	MaxDeletesPerSecond int
}

// Default returns the configuration of a file without keys, {}.
func Default() *Config {
	return &Config{
		ZooKeeper: ZooKeeper{
			Servers:        []string{"127.0.0.1:2181"},
			SessionTimeout: lock.DefaultSessionTimeout,
		},
		Root:     lock.DefaultRoot,
		Log:      Log{Level: "info", Format: "json"},
		Policies: new(Set),
	}
}

// Options returns the options for [lock.Dial] that apply the configuration: root, policies, session
// timeout, TLS and credentials. It does not return the servers. Append other options, such as a
// logger.
//
// Without zookeeper.auth, every user can access the nodes that the client creates. Options reads
// the files with the password and the certificates. If that fails, the error is that of
// [Auth.Password] or [TLS.Config], with the key's position in the file.
func (c *Config) Options() ([]lock.Option, error) {
	options := []lock.Option{
		lock.WithRoot(c.Root),
		lock.WithPolicies(c.Policies),
		lock.WithSessionTimeout(c.ZooKeeper.SessionTimeout),
	}
	if auth := c.ZooKeeper.Auth; auth != nil {
		password, err := auth.Password()
		if err != nil {
			return nil, c.at(err)
		}
		options = append(options, lock.WithDigest(auth.User, password.Reveal()))
	}
	if c.ZooKeeper.TLS != nil {
		cfg, err := c.ZooKeeper.TLS.Config()
		if err != nil {
			return nil, c.at(err)
		}
		options = append(options, lock.WithTLS(cfg))
	}
	if c.ZooKeeper.UnsafeServer {
		options = append(options, lock.WithUnsafeServer())
	}
	return options, nil
}

// ParseServer parses the address of a ZooKeeper server, host or host:port, and returns it as
// host:port. The default port is 2181. An IPv6 address needs brackets.
func ParseServer(s string) (string, error) { return zkconn.ParseServer(s) }

// ShowServer returns a server's address in a form that is safe to print. It drops the text before
// an @, which may be a user name and a password as in a URL.
func ShowServer(s string) string { return zkconn.ShowServer(s) }
