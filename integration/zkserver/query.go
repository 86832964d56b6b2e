package zkserver

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest/wire"
)

// queryTimeout limits one query of a server, which may be paused.
const queryTimeout = time.Minute

// fourLetter sends one of ZooKeeper's four-letter words and returns the answer.
func fourLetter(ctx context.Context, addr, word string) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err = wire.WithConn(ctx, addr, func(conn net.Conn) error {
		if _, err := io.WriteString(conn, word); err != nil {
			return err
		}
		all, err := io.ReadAll(conn)
		answer = string(all)
		return err
	})
	return answer, err
}

// Mntr returns the answer to the server's command "mntr", by key: numbers of connections, watches,
// nodes and packets, and a member's state. See "The Four Letter Words" in ZooKeeper's
// administrator's guide.
func (s *Server) Mntr(ctx context.Context) (map[string]string, error) {
	return s.query(ctx, "mntr", "\t")
}

// Zxid returns the id of the last transaction that the server applied. It rises by one for each
// transaction, including failed ones and those that open and close sessions, so a difference counts
// transactions. A change of the leader starts a higher epoch.
func (s *Server) Zxid(ctx context.Context) (int64, error) {
	stats, err := s.query(ctx, "srvr", ": ")
	if err != nil {
		return 0, err
	}
	zxid, err := strconv.ParseInt(stats["Zxid"], 0, 64)
	if err != nil {
		return 0, fmt.Errorf("zkserver: server %s: Zxid of srvr: %w", s.addr, err)
	}
	return zxid, nil
}

// Version returns the version that the server reports.
func (s *Server) Version(ctx context.Context) (Version, error) {
	stats, err := s.query(ctx, "srvr", ": ")
	if err != nil {
		return Version{}, err
	}
	told, _, _ := strings.Cut(stats["Zookeeper version"], ",") // without the build date
	version, err := ParseVersion(told)
	if err != nil {
		return Version{}, fmt.Errorf("zkserver: server %s: %w", s.addr, err)
	}
	return version, nil
}

// query sends a four-letter word and returns the lines of the answer as keys and values.
func (s *Server) query(ctx context.Context, word, separator string) (map[string]string, error) {
	answer, err := fourLetter(ctx, s.addr, word)
	if err != nil {
		return nil, fmt.Errorf("zkserver: server %s: %s: %w", s.addr, word, err)
	}
	values := make(map[string]string)
	for line := range strings.Lines(answer) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), separator); ok {
			values[key] = value
		}
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("zkserver: server %s: %s: %q", s.addr, word, answer)
	}
	return values, nil
}

// Connect returns a client of go-zookeeper that has a session and logs nothing, and its further
// events. A nil dial is net.DialTimeout.
func Connect(ctx context.Context, servers []string, timeout time.Duration, dial zk.Dialer) (*zk.Conn, <-chan zk.Event, error) {
	conn, events, err := zk.Connect(servers, timeout, zk.WithDialer(dialer(dial)), zk.WithLogInfo(false), zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return nil, nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, events, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, nil, context.Cause(ctx)
		}
	}
}
