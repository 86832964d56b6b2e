package zkserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// modeTimeout limits the query for a member's mode, which a paused member does not answer.
const modeTimeout = time.Second

// Ensemble is a set of servers that replicate each other.
type Ensemble struct {
	servers []*Server
	links   links // nil without Options.Links
}

// StartEnsemble starts n servers, 3 or more, or a standalone one, and waits until each serves. The
// context limits only the start; Stop ends the servers.
func StartEnsemble(ctx context.Context, n int, opts Options) (*Ensemble, error) {
	if n < 3 && n != 1 {
		return nil, fmt.Errorf("zkserver: an ensemble of %d servers: must be 3 or more, or 1", n)
	}
	opts = opts.withDefaults()
	if opts.Installation == (Installation{}) {
		var err error
		if opts.Installation, err = Find(ctx); err != nil {
			return nil, err
		}
	}
	ports, err := FreePorts(3 * n)
	if err != nil {
		return nil, err
	}
	e, err := newEnsemble(opts, ports)
	if err == nil { // all at once: none of them serves without a quorum
		err = e.each(func(s *Server) error { return s.Restart(ctx) })
	}
	if err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// newEnsemble creates the folders of an ensemble's servers, which have three ports each. With an
// error it also returns those already created.
func newEnsemble(opts Options, ports []int) (*Ensemble, error) {
	e, n := new(Ensemble), len(ports)/3
	clients, quorum, election := ports[:n], ports[n:2*n], ports[2*n:]
	if opts.Links {
		var err error
		if e.links, err = newLinks(quorum, election); err != nil {
			return e, err
		}
	}
	for i := range n {
		config := []string{"initLimit=60", "syncLimit=10"} // in ticks; on a starved machine it takes long to join
		for j := range n {
			if n == 1 {
				break // a standalone server has no list of members
			}
			addr := fmt.Sprintf("%s:%d", loopback(quorum[j]), election[j])
			if e.links != nil && i != j {
				addr = e.links.addr(i, j)
			}
			config = append(config, fmt.Sprintf("server.%d=%s", j+1, addr))
		}
		own := opts
		if i < len(opts.MemberEnv) {
			own.Env = slices.Concat(opts.Env, opts.MemberEnv[i])
		}
		s, err := newServer(own, clients[i], config...)
		if err != nil {
			return e, err
		}
		e.servers = append(e.servers, s)
		data := filepath.Join(s.dir, "data")
		if err := os.Mkdir(data, 0o700); err != nil {
			return e, err
		}
		if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(i+1)), 0o600); err != nil {
			return e, err
		}
	}
	return e, nil
}

// each calls f for all servers concurrently and joins the errors.
func (e *Ensemble) each(f func(*Server) error) error {
	return wait.All(len(e.servers), func(i int) error { return f(e.servers[i]) })
}

// Servers returns the members. Each may be killed, paused and restarted.
func (e *Ensemble) Servers() []*Server { return e.servers }

// Addrs returns the members' addresses for clients.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.servers))
	for i, s := range e.servers {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Leader waits for the end of an election, and returns the leader.
func (e *Ensemble) Leader(ctx context.Context) (*Server, error) {
	leaders, err := e.await(ctx, "leader", 1)
	if err != nil {
		return nil, err
	}
	return leaders[0], nil
}

// Whole waits until all members follow one leader.
func (e *Ensemble) Whole(ctx context.Context) error {
	_, err := e.await(ctx, "follower", len(e.servers)-1)
	return err
}

// await waits until at least n members are in a mode, and returns them.
func (e *Ensemble) await(ctx context.Context, mode string, n int) ([]*Server, error) {
	for {
		var mu sync.Mutex
		modes := make(map[string][]*Server)
		_ = e.each(func(s *Server) error {
			is := s.mode(ctx)
			mu.Lock()
			defer mu.Unlock()
			modes[is] = append(modes[is], s)
			return nil
		})
		if len(modes[mode]) >= n {
			return modes[mode], nil
		}
		if wait.Sleep(ctx, pollInterval) != nil {
			return nil, fmt.Errorf("zkserver: must be %d %s among %v, but they are %q: %w", n, mode, e.Addrs(), slices.Collect(maps.Keys(modes)), context.Cause(ctx))
		}
	}
}

// mode returns a member's mode, leader or follower, or the reason why it is unknown. A standalone
// server leads.
func (s *Server) mode(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, modeTimeout)
	defer cancel()
	stats, err := s.query(ctx, "srvr", ": ")
	if err != nil {
		return err.Error()
	}
	return strings.Replace(stats["Mode"], "standalone", "leader", 1)
}

// Part partitions two members until Heal: their messages to each other are held back, as by a
// network that swallows packets. It needs [Options.Links], and panics without.
func (e *Ensemble) Part(a, b *Server) {
	e.links.between(slices.Index(e.servers, a), slices.Index(e.servers, b), (*Relay).Stall)
}

// Heal ends all partitions, and delivers the messages that were held back.
func (e *Ensemble) Heal() {
	e.links.each((*Relay).Resume)
}

// Stop stops all servers, as [Server.Stop] does.
func (e *Ensemble) Stop() error {
	err := e.each((*Server).Stop)
	e.links.each((*Relay).Close)
	return err
}
