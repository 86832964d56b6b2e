package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// SASL returns an exchange for one connection to a server, host:port; see lock.SASL.
type SASL func(ctx context.Context, server string) (SASLExchange, error)

// SASLExchange is one exchange of tokens; see lock.SASLExchange.
type SASLExchange interface {
	Next(challenge []byte) (token []byte, err error)
	Expires() time.Time
}

// adviser is a SASLExchange that says what to do if the server refuses its last token.
type adviser interface{ Advice() string }

// staleness is a SASLExchange that says why its credential is not newer than the previous one.
type staleness interface{ Stale() error }

// Limits of an exchange.
const (
	mostTokens = 8        // tokens of the client; DIGEST-MD5 has 2, GSSAPI 3
	mostToken  = 64 << 10 // bytes of a server's token; Kerberos has up to about 12 kB
)

var errNoSASL = fmt.Errorf("%w: the server has no SASL, that is no section Server in a JAAS configuration that it can read", ErrDenied)

// exchangeTokens runs an exchange on a connection until the client has no further token. It fails if
// the server refuses a token or has no SASL.
func exchangeTokens(server io.ReadWriter, x SASLExchange) error {
	var challenge []byte
	for n := range mostTokens {
		token, err := x.Next(challenge)
		switch {
		case err != nil:
			return err
		case token == nil:
			return nil
		}
		if _, err := server.Write(saslRequest(token)); err != nil {
			return err
		}
		challenge, err = readToken(server)
		switch {
		case err != nil:
			return refusedToken(x, err)
		case n == 0 && len(challenge) == 0:
			return errNoSASL
		}
	}
	return fmt.Errorf("%w: it asks for more than %d SASL tokens", errNotZooKeeper, mostTokens)
}

// saslRequest returns the frame of a request with a SASL token.
func saslRequest(token []byte) []byte {
	return frame(append(int32s(xidSASL, opSASL, int32(len(token))), token...))
}

// readToken reads the answer to a token, and returns the server's token, which may be empty but is
// not nil.
func readToken(server io.Reader) ([]byte, error) {
	var head [4 + leastReply]byte // length, xid, zxid and error
	if _, err := io.ReadFull(server, head[:]); err != nil {
		return nil, err
	}
	length, xid := binary.BigEndian.Uint32(head[:]), int32(binary.BigEndian.Uint32(head[4:]))
	if most := leastReply + 4 + mostToken; length < leastReply || length > uint32(most) || xid != xidSASL {
		return nil, fmt.Errorf("%w: it answers a SASL token by a frame of %d bytes for request %d; must be %d to %d bytes for %d", errNotZooKeeper, length, xid, leastReply, most, xidSASL)
	}
	body := make([]byte, length-leastReply)
	if _, err := io.ReadFull(server, body); err != nil {
		return nil, err
	}
	switch code := int32(binary.BigEndian.Uint32(head[16:])); code {
	case 0:
	case codeAuthFailed, codeRequiresAuth:
		return nil, errRefusedToken
	default:
		return nil, named(fmt.Errorf("%s%d", unnamedCode, code))
	}
	if len(body) < 4 {
		return nil, fmt.Errorf("%w: its answer to a SASL token has %d bytes", errNotZooKeeper, len(body))
	}
	size := int32(binary.BigEndian.Uint32(body)) // -1: none
	if size < -1 || int(size) > len(body)-4 {
		return nil, fmt.Errorf("%w: it announces a SASL token of %d bytes in %d", errNotZooKeeper, size, len(body)-4)
	}
	return body[4 : 4+max(0, size)], nil
}

var errRefusedToken = fmt.Errorf("%w: the server refuses the client's token", ErrDenied)

// refusedToken adds the mechanism's advice to an error that says, or may say, that the server has
// refused a token. Servers before 3.5 only close the connection then, as they do if they stop.
func refusedToken(x SASLExchange, err error) error {
	if !errors.Is(err, errRefusedToken) {
		if !isClosing(err) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		err = fmt.Errorf("the server has closed the connection after the client's token, as servers before 3.5 do to refuse it: %w", err)
	}
	if a, ok := x.(adviser); ok {
		return fmt.Errorf("%w: %s", err, a.Advice())
	}
	return err
}

// login is the SASL authentication of one connection. Before the credential expires, login also
// looks for a newer one.
type login struct {
	start  func(ctx context.Context) (SASLExchange, error) // begins another exchange with the server
	first  SASLExchange                                    // the exchange for this connection
	random func() float64
	log    zerolog.Logger
	life   context.Context // ends when the Conn is closed

	until time.Time    // end of the credential; zero: it has none
	next  atomic.Int64 // Unix time in ns at which to look for a newer credential; 0: never
	ready atomic.Bool  // there is a newer credential
}

// startLogin gets the exchange for a connection to a server; nil without SASL.
func (c *Conn) startLogin(ctx context.Context, address string) (*login, error) {
	if c.cfg.SASL == nil {
		return nil, nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	server := net.JoinHostPort(c.own.hosts.nameOf(address), port)
	l := &login{
		start: func(ctx context.Context) (SASLExchange, error) {
			ctx, cancel := context.WithTimeout(ctx, handshakeLimit(c.cfg.SessionTimeout))
			defer cancel()
			return c.cfg.SASL(ctx, server)
		},
		random: c.cfg.Random.Float64, life: c.own.life,
		log: c.cfg.Log.With().Str("server", address).Logger(),
	}
	l.first, err = l.start(ctx)
	return l, err
}

// run authenticates the connection, and schedules the look for a newer credential.
func (l *login) run(server io.ReadWriter) error {
	if err := exchangeTokens(server, l.first); err != nil {
		return err
	}
	l.until = l.first.Expires()
	l.schedule()
	return nil
}

// Times until the next try to get a newer credential: at least leastLogin; lateLogin once the
// present credential has expired.
const (
	leastLogin = 5 * time.Second
	lateLogin  = time.Minute
)

// schedule sets the time of the next try to get a newer credential: after 75 to 85 % of the time
// until the present credential expires, but see leastLogin and lateLogin. The part is random, to
// spread the clients that have logged in at the same time.
func (l *login) schedule() {
	if l.until.IsZero() {
		return
	}
	left := time.Until(l.until)
	wait := max(leastLogin, time.Duration(float64(left)*(0.75+l.random()/10)))
	if left <= 0 {
		wait = lateLogin
	}
	l.next.Store(time.Now().Add(wait).UnixNano())
}

// due reports whether the connection must end because there is a newer credential. At the scheduled
// time it starts renew. serverConn calls due before each request, and so at least with each ping.
func (l *login) due() bool {
	if l == nil {
		return false
	}
	if next := l.next.Load(); next != 0 && time.Now().UnixNano() >= next && l.next.CompareAndSwap(next, 0) {
		go l.renew()
	}
	return l.ready.Load()
}

// renew gets a new exchange to see whether its credential expires later. If it does, renew sets
// ready. If not, renew schedules another try.
func (l *login) renew() {
	x, err := l.start(l.life)
	switch {
	case l.life.Err() != nil:
	case err == nil && (x.Expires().IsZero() || x.Expires().After(l.until)):
		l.log.Debug().Time("expired_at", l.until).Msg("connecting anew with a newer credential")
		l.ready.Store(true)
	default:
		if s, ok := x.(staleness); ok && err == nil {
			err = s.Stale()
		}
		l.log.Warn().AnErr("why", err).Time("expires_at", l.until).Msg("no newer SASL credential: a new connection will be refused when the present one has expired")
		l.schedule()
	}
}
