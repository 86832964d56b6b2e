package zkserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// The superuser of ensembles with Options.Reconfig: only it may change the list of members.
const (
	Superuser   = "super:secret"
	superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
)

// member is a line in an ensemble's list of members.
type member struct {
	id, quorum, election int
	client               int // 0: the client port is only in the member's own zoo.cfg
}

// String returns the line, as in zoo.cfg.
func (m member) String() string {
	s := fmt.Sprintf("server.%d=%s:%d", m.id, loopback(m.quorum), m.election)
	if m.client != 0 {
		s += ":participant;" + loopback(m.client)
	}
	return s
}

// Add starts a further server, without data and on new ports, and makes it a member. Its id is the
// lowest unused one. It needs [Options.Reconfig], as Remove does. Neither may run concurrently with
// another method of the ensemble.
func (e *Ensemble) Add(ctx context.Context) (*Server, error) {
	ports, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	m := member{id: 1, quorum: ports[0], election: ports[1], client: ports[2]}
	var list []string
	for slices.ContainsFunc(e.servers, func(s *Server) bool { return s.member.id == m.id }) {
		m.id++
	}
	for _, s := range e.servers {
		list = append(list, s.member.String())
	}
	s, err := newMember(e.opts, m, m.client, append(list, m.String()))
	if err != nil {
		return nil, err
	}
	e.servers = append(e.servers, s)
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	return s, e.reconfigure(ctx, []string{m.String()}, nil)
}

// Remove ends a server's membership. The server still runs, and serves clients, until it is stopped
// by [Server.Stop] or the ensemble's Stop.
func (e *Ensemble) Remove(ctx context.Context, s *Server) error {
	if err := e.reconfigure(ctx, nil, []string{fmt.Sprint(s.member.id)}); err != nil {
		return err
	}
	e.servers = slices.DeleteFunc(e.servers, func(other *Server) bool { return other == s })
	e.removed = append(e.removed, s)
	return nil
}

// reconfigure changes the list of members. It retries, for at most startTimeout, until the change is
// acknowledged or the error is in final. An election or a new member's synchronization can delay the
// change, and the reply may be lost if the change removes the leader.
func (e *Ensemble) reconfigure(ctx context.Context, joining, leaving []string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, events, err := Connect(ctx, e.Addrs(), time.Minute, nil)
	if err != nil {
		return err
	}
	defer func() {
		conn.Close()
		for range events {
		}
	}()
	for {
		err := conn.AddAuth("digest", []byte(Superuser))
		if err == nil {
			_, err = conn.IncrementalReconfig(joining, leaving, -1)
		}
		if err == nil {
			return nil
		}
		if slices.ContainsFunc(final, func(e error) bool { return errors.Is(err, e) }) || wait.Sleep(ctx, pollInterval) != nil {
			return fmt.Errorf("zkserver: reconfigure, joining %q, leaving %q: %w", joining, leaving, errors.Join(err, context.Cause(ctx)))
		}
	}
}

// final has the errors after which a retry is useless.
var final = []error{zk.ErrAPIError, zk.ErrNoAuth, zk.ErrBadArguments, zk.ErrReconfigDisabled}
