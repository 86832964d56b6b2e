package lock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/digestmd5"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// SASL authenticates a client to the servers by a mechanism of SASL, such as GSSAPI (package
// lock/kerberos). A client runs one exchange on each new connection, before any other request.
// Implementations must be safe for concurrent use.
type SASL interface {
	// Start begins an exchange with a server, host:port. The host is the name given to Dial, or the
	// one in the ensemble's configuration ([WithReconfiguration]), and not its address. Start must
	// return soon after ctx ends. An error that matches [ErrDenied] says that the credentials are
	// wrong: [Dial] fails when the number of these errors in a row reaches the number of addresses.
	// After any other error, and after any error once Dial has returned, the client tries the next
	// server.
	Start(ctx context.Context, server string) (SASLExchange, error)
}

// SASLExchange is one exchange of tokens with a server. A client uses it in one goroutine at a
// time. If it also has the method
//
//	Advice() string
//
// and the server refuses a token, the client appends the text that Advice returns to the error. The
// text should say what to do.
type SASLExchange interface {
	// Next takes the server's last token and returns the client's next one. The first challenge is
	// nil; a later one is not, even if it is empty. A token of nil ends the exchange: both sides
	// are authenticated. A token that is empty and not nil is sent. An error that matches
	// [ErrDenied] says that the credentials are wrong.
	Next(challenge []byte) (token []byte, err error)
	// Expires returns the time at which the credential ends; zero if it never ends. The client
	// calls Expires after the exchange. When about four fifths of the credential's remaining time
	// are over, the client starts another exchange, and calls Expires of that exchange before Next.
	// If the new credential ends later, or never, the client reconnects to use it, between two
	// requests, because a server takes only one exchange on a connection. Otherwise the client logs
	// a warning, keeps the connection, and tries again later.
	Expires() time.Time
}

// WithSASL authenticates a client made by [Dial] with SASL on each connection, before any other
// request. The nodes that the client creates belong to its SASL user alone, unless [WithACL] or
// [WithDigest] is given. Their ACL has the scheme auth, which the server replaces by the names
// under which it knows the client.
func WithSASL(s SASL) Option {
	return clientOption(func(c *config) error {
		if s == nil {
			return invalid("SASL", nil, "must not be nil: leave the option out to do without")
		}
		return c.setSASL(func(ctx context.Context, server string) (zkconn.SASLExchange, error) {
			x, err := s.Start(ctx, server)
			if err == nil && x == nil {
				err = invalid("SASL", "Start", "returned neither an exchange nor an error")
			}
			return x, err
		}, zk.AuthACL(zk.PermAll))
	})
}

// WithSASLDigest is [WithSASL] with the mechanism DIGEST-MD5: the server has the user and the
// password in its JAAS configuration. The password is not sent, and a server that does not know it
// is refused. The nodes that the client creates belong to sasl:user, unless [WithACL] or
// [WithDigest] is given. If user has a slash or an @, their ACL is that of WithSASL instead.
func WithSASLDigest(user, password string) Option {
	return clientOption(func(c *config) error {
		if user == "" || password == "" {
			return invalid("SASL user", fmt.Sprintf("%q", user), "user and password must not be empty")
		}
		acl := zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: user}
		if strings.ContainsAny(user, "/@") { // the server changes it, as it does a Kerberos principal
			acl = zk.AuthACL(zk.PermAll)[0]
		}
		return c.setSASL(func(context.Context, string) (zkconn.SASLExchange, error) {
			return digestmd5.New(user, password), nil
		}, []zk.ACL{acl})
	})
}

// setSASL sets the mechanism, and the ACL that nodes have unless [WithACL] or [WithDigest] gives
// one.
func (c *config) setSASL(s zkconn.SASL, acl []zk.ACL) error {
	if c.sasl != nil {
		return invalid("options", "WithSASL", "must be given once: a connection has one SASL user")
	}
	c.sasl, c.saslACL = s, acl
	return nil
}
