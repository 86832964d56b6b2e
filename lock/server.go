package lock

import (
	"context"
	"errors"

	"github.com/holdfast-io/holdfast/lock/internal/servercheck"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// WithUnsafeServer has [Dial] go on with a server that it would refuse with
// [ErrUnsupported], at your own risk: the server lacks behavior that the protocol requires.
// So a lock may have two holders at once, or none can get it. The log warns of what is wrong.
func WithUnsafeServer() Option {
	return clientOption(func(c *config) error {
		c.unsafeServer = true
		return nil
	})
}

// checker is what looks whether the server is one that locks can rest on.
func (c *Client) checker() servercheck.Checker {
	return servercheck.Checker{
		Conn: c.conn, Clock: c.clock, Root: c.cfg.root, ACL: c.cfg.acl,
		NewID: func() string { return znode.FormatID(c.cfg.random.Uint64()) },
	}
}

// checkServer refuses a server that locks cannot rest on.
func (c *Client) checkServer(ctx context.Context) error {
	check := c.checker()
	_, err := check.Once(ctx)
	switch {
	case errors.As(err, new(*servercheck.Unchecked)):
		c.cfg.log.Info().AnErr("why", errors.Unwrap(err)).Msg("server not checked: locks rest on what it was not seen to do")
	case errors.Is(err, ErrUnsupported) && c.cfg.unsafeServer:
		c.cfg.log.Warn().AnErr("why", err).Msg("the server is not one that locks can rest on; going on because that was asked for")
	default:
		return err
	}
	return nil
}
