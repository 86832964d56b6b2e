package lock

import (
	"context"
	"errors"

	"github.com/holdfast-io/holdfast/lock/internal/servercheck"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// WithUnsafeServer makes [Dial] accept, at your own risk, a server that it would refuse with
// [ErrUnsupported], because the server lacks behavior that the protocol requires. A lock may then
// have two holders at once, or no client may be able to take it. The client logs the server's
// defect as a warning.
func WithUnsafeServer() Option {
	return clientOption(func(c *config) error {
		c.unsafeServer = true
		return nil
	})
}

func (c *Client) checker() servercheck.Checker {
	return servercheck.Checker{
		Conn: c.conn, Clock: c.clock, Root: c.cfg.root, ACL: c.cfg.acl,
		NewID: func() string { return znode.FormatID(c.cfg.random.Uint64()) },
	}
}

// checkServer returns an error if the server lacks behavior that the protocol requires. If the
// server could not be checked, or WithUnsafeServer allows it, checkServer only logs that.
func (c *Client) checkServer(ctx context.Context) error {
	check := c.checker()
	_, err := check.Once(ctx)
	switch {
	case errors.As(err, new(*servercheck.Unchecked)):
		c.cfg.log.Info().AnErr("why", errors.Unwrap(err)).Msg("server not checked: it may lack behavior that the protocol requires")
	case errors.Is(err, ErrUnsupported) && c.cfg.unsafeServer:
		c.cfg.log.Warn().AnErr("why", err).Msg("the server lacks behavior that locks require; going on because WithUnsafeServer allows it")
	default:
		return err
	}
	return nil
}
