package lock

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// SASL authenticates a client to the servers by a mechanism of SASL, such as GSSAPI (Kerberos). A
// client runs one exchange on each new connection, before any other request. Implementations must
// be safe for concurrent use.
type SASL interface {
	// Start begins an exchange with a server, host:port. The host is the one given to Dial, not
	// its address. Start must end soon after ctx, which bounds the whole handshake. An error that
	// matches ErrDenied says that trying again is useless, for example because of a wrong password.
	// Dial then fails at once; after that, the client tries again as after any other error.
	Start(ctx context.Context, server string) (SASLExchange, error)
}

// SASLExchange is one exchange of tokens with a server. A client uses it in one goroutine at a
// time.
type SASLExchange interface {
	// Next takes the server's last token and returns the client's next one. The first challenge is
	// nil; a server's empty token is not. A token of nil ends the exchange: both sides are
	// authenticated. An empty token that is not nil is sent. ErrDenied means what it does in Start.
	Next(challenge []byte) (token []byte, err error)
	// Expires returns the time at which the credential ends; zero if it does not. It is asked once,
	// after the exchange. Before that time the client starts another exchange. If its credential
	// ends later, the client connects anew, between requests, and so uses the new credential. If
	// not, it logs that, keeps the connection and tries again later.
	Expires() time.Time
	// Close ends the exchange. It is called once, whatever the outcome.
	Close() error
}

// WithSASL authenticates a client made by [Dial] with SASL on each connection, before any other
// request. The nodes that it creates belong to that user alone, unless [WithACL] says otherwise:
// their ACL has the scheme auth, which the server replaces by the name that it knows the client by.
func WithSASL(s SASL) Option {
	return clientOption(func(c *config) error {
		if s == nil {
			return invalid("SASL", nil, "must not be nil: leave the option out to do without")
		}
		c.sasl = func(ctx context.Context, server string) (zkconn.SASLExchange, error) { return s.Start(ctx, server) }
		c.saslACL = zk.AuthACL(zk.PermAll)
		return nil
	})
}
