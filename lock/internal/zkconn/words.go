package zkconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// mostWords limits the answer to a four-letter word, in bytes. The answer to srvr has about 300.
const mostWords = 64 << 10

// Servers returns the servers given to Dial; none for a borrowed connection.
func (c *Conn) Servers() []string { return c.cfg.servers }

// Word sends a four-letter word to a server, host:port, and returns the answer. It makes a new
// connection with the dialer and TLS configuration of the session. If the server does not permit
// the word, the answer is a message about that. Word fails with a borrowed connection.
func (c *Conn) Word(ctx context.Context, server, word string) (string, error) {
	if !c.Owned() {
		return "", errors.New("the connection is borrowed: cannot open another one like it")
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit(c.cfg.SessionTimeout))
	defer cancel()
	stopped := context.AfterFunc(c.own.life, cancel)
	defer stopped()
	deadline, _ := ctx.Deadline()
	plain, err := c.dialWithin(ctx, "tcp", server, time.Until(deadline))
	if err != nil {
		return "", err
	}
	defer plain.Close()
	defer context.AfterFunc(ctx, func() { plain.Close() })()
	nc, err := c.secure(ctx, plain, hostOf(server))
	if err != nil {
		return "", err
	}
	return converse(ctx, nc, word)
}

// converse sends the word and reads the whole answer.
func converse(ctx context.Context, nc net.Conn, word string) (string, error) {
	_, err := io.WriteString(nc, word)
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(io.LimitReader(nc, mostWords))
	}
	switch {
	case ctx.Err() != nil:
		return "", ContextError(ctx)
	case err != nil && len(answer) == 0:
		return "", err
	case len(answer) == 0:
		return "", fmt.Errorf("no answer to %q", word)
	}
	return string(answer), nil
}
