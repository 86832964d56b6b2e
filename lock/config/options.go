package config

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/lock"
)

// Options returns the options for [lock.Dial] that apply the configuration: root, policies, session
// timeout, TLS and credentials. It does not return the servers. Append other options, such as a
// logger. Without zookeeper.auth and zookeeper.sasl, every user can access the nodes that the client
// creates. With both, the nodes belong to the user of zookeeper.auth.
//
// The mechanism gssapi needs a [Kerberos]; without one Options fails. Options uses only the first
// Kerberos.
//
// Options reads the files with the password and the certificates. A missing or empty password is an
// error, and so is a password's or a key's file that every user of the machine can read or write.
// Errors match [ErrUnusable], and have the key's position in the configuration's file. If ctx ends
// first, for example while a file is a pipe without a writer, the error wraps ctx's cause, and the
// goroutine that reads is left behind.
func (c *Config) Options(ctx context.Context, kerberos ...Kerberos) ([]lock.Option, error) {
	type result struct {
		options []lock.Option
		err     error
	}
	done := make(chan result, 1)
	go func() {
		options, err := c.options(kerberos)
		done <- result{options, err}
	}()
	select {
	case r := <-done:
		return r.options, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("reading what the configuration names: %w", context.Cause(ctx))
	}
}

func (c *Config) options(kerberos []Kerberos) ([]lock.Option, error) {
	options := []lock.Option{
		lock.WithRoot(c.Root),
		lock.WithPolicies(c.Policies),
		lock.WithSessionTimeout(c.ZooKeeper.SessionTimeout),
	}
	if auth := c.ZooKeeper.Auth; auth != nil {
		password, err := c.password("zookeeper.auth", auth.PasswordFile, auth.PasswordEnv)
		if err != nil {
			return nil, err
		}
		options = append(options, lock.WithDigest(auth.User, password))
	}
	if c.ZooKeeper.SASL != nil {
		option, err := c.saslOption(kerberos)
		if err != nil {
			return nil, err
		}
		options = append(options, option)
	}
	if len(c.ZooKeeper.FurtherUsers) > 0 {
		acl, err := c.furtherUsers()
		if err != nil {
			return nil, err
		}
		options = append(options, lock.WithFurtherUsers(acl...))
	}
	if c.ZooKeeper.TLS != nil {
		source, err := c.tlsSource()
		if err != nil {
			return nil, err
		}
		options = append(options, lock.WithTLSSource(source))
	}
	if c.ZooKeeper.Reconfiguration {
		options = append(options, lock.WithReconfiguration())
	}
	if c.ZooKeeper.UnsafeServer {
		options = append(options, lock.WithUnsafeServer())
	}
	return options, nil
}
