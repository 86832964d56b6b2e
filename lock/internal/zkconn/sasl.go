package zkconn

import (
	"context"
	"time"
)

// SASL begins an exchange with a server, host:port; see lock.SASL.
type SASL func(ctx context.Context, server string) (SASLExchange, error)

// SASLExchange is one exchange of tokens; see lock.SASLExchange.
type SASLExchange interface {
	Next(challenge []byte) (token []byte, err error)
	Expires() time.Time
	Close() error
}
