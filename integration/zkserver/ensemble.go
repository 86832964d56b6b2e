package zkserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
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
	removed []*Server // former members, see Remove
	opts    Options
	links   links // nil without Options.Links
}

// StartEnsemble starts n servers, and waits until each serves. n must be 3 or more, or 1 for a
// standalone server. The context limits only the start; Stop ends the servers.
func StartEnsemble(ctx context.Context, n int, opts Options) (*Ensemble, error) {
	if n < 3 && n != 1 {
		return nil, fmt.Errorf("zkserver: an ensemble of %d servers: must be 3 or more, or 1", n)
	}
	if opts.Reconfig && (opts.Links || n == 1) {
		return nil, errors.New("zkserver: Options.Reconfig needs an ensemble of 3 or more without Options.Links")
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
	if err == nil { // concurrently, because no server serves without a quorum
		err = e.each(func(s *Server) error { return s.Restart(ctx) })
	}
	if err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// newEnsemble creates the folders of an ensemble's servers. A third of the ports is for clients, a
// third for followers, and a third for elections. With an error it also returns the servers already
// created.
func newEnsemble(opts Options, ports []int) (*Ensemble, error) {
	e, n := &Ensemble{opts: opts}, len(ports)/3
	clients, quorum, election := ports[:n], ports[n:2*n], ports[2*n:]
	members := make([]member, n)
	for i := range members {
		members[i] = member{id: i + 1, quorum: quorum[i], election: election[i]}
		if opts.Reconfig {
			members[i].client = clients[i]
		}
	}
	if opts.Links {
		var err error
		if e.links, err = newLinks(quorum, election); err != nil {
			return e, err
		}
	}
	for i := range n {
		var list []string
		// A standalone server has no list of members.
		for j := 0; n > 1 && j < n; j++ {
			if e.links != nil && i != j {
				list = append(list, fmt.Sprintf("server.%d=%s", j+1, e.links.addr(i, j)))
			} else {
				list = append(list, members[j].String())
			}
		}
		own := opts
		if i < len(opts.MemberEnv) {
			own.Env = slices.Concat(opts.Env, opts.MemberEnv[i])
		}
		s, err := newMember(own, members[i], clients[i], list)
		if err != nil {
			return e, err
		}
		e.servers = append(e.servers, s)
	}
	return e, nil
}

// newMember creates the folder of a member. client is its client port; list has the lines of all
// members for its zoo.cfg.
func newMember(opts Options, m member, client int, list []string) (*Server, error) {
	// The limits are in ticks. On a slow machine a join takes long.
	s, err := newServer(opts, client, append(list, "initLimit=60", "syncLimit=10")...)
	if err != nil {
		return nil, err
	}
	s.member = m
	data := filepath.Join(s.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(m.id)), 0o600); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
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

// Leader waits until a member answers as the leader, for at most five minutes, and returns that member.
func (e *Ensemble) Leader(ctx context.Context) (*Server, error) {
	leaders, err := e.await(ctx, "leader", 1)
	if err != nil {
		return nil, err
	}
	return leaders[0], nil
}

// Whole waits until all members but one answer as followers, for at most five minutes.
func (e *Ensemble) Whole(ctx context.Context) error {
	_, err := e.await(ctx, "follower", len(e.servers)-1)
	return err
}

// await waits until at least n members are in a mode, for at most startTimeout, and returns them.
func (e *Ensemble) await(ctx context.Context, mode string, n int) ([]*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		var mu sync.Mutex
		modes := make(map[string][]*Server)
		var asked sync.WaitGroup
		for _, s := range e.servers {
			asked.Go(func() {
				is := s.mode(ctx)
				mu.Lock()
				defer mu.Unlock()
				modes[is] = append(modes[is], s)
			})
		}
		asked.Wait()
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

// Isolate partitions a member from all others, as [Ensemble.Part] does.
func (e *Ensemble) Isolate(s *Server) {
	for _, other := range e.servers {
		if other != s {
			e.Part(s, other)
		}
	}
}

// Strand lets a member be elected, but not be followed, until Heal: it holds back all messages between it and the
// others except those of elections.
func (e *Ensemble) Strand(s *Server) {
	i := slices.Index(e.servers, s)
	for ends, relays := range e.links {
		if ends[0] == i || ends[1] == i {
			relays[0].Stall()
		}
	}
}

// Heal ends all partitions, and delivers the messages that were held back.
func (e *Ensemble) Heal() {
	e.links.each((*Relay).Resume)
}

// Stop stops all servers, as [Server.Stop] does.
func (e *Ensemble) Stop() error {
	err := stopServers(slices.Concat(e.servers, e.removed))
	e.links.each((*Relay).Close)
	return err
}

// maxElectionAddr is the largest length of the address in the first message of an election
// connection, in bytes, as in QuorumCnxManager.InitialMessage.
const maxElectionAddr = 512

// links has the relays between an ensemble's members: from each member to each other one, a relay
// to its port for followers and one to its election port. A member knows the others only by its own
// relays' addresses.
type links map[[2]int][2]*Relay

// newLinks creates the links between members with the given ports.
func newLinks(quorum, election []int) (links, error) {
	l := links{}
	for from := range quorum {
		for to := range quorum {
			if from == to {
				continue
			}
			toQuorum, err := newRelay(loopback(quorum[to]))
			if err != nil {
				return l, err
			}
			toElection, err := newRelay(loopback(election[to]))
			if err != nil {
				toQuorum.Close()
				return l, err
			}
			l[[2]int{from, to}] = [2]*Relay{toQuorum, toElection}
		}
	}
	for ends, relays := range l {
		// A follower may connect before the member that it has elected listens. If that is refused, the
		// follower dials again. But a relay has accepted the connection, and if it closes it, the
		// follower begins another election, and the new leader waits for followers in vain.
		relays[0].patient = true
		back := l[[2]int{ends[1], ends[0]}][1].Addr()
		relays[1].opening = func(r io.Reader) ([]byte, error) { return redirectElection(r, back) }
	}
	l.each((*Relay).start)
	return l, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// addr returns the address by which member from reaches member to, as in zoo.cfg.
func (l links) addr(from, to int) string {
	relays := l[[2]int{from, to}]
	_, election, _ := net.SplitHostPort(relays[1].Addr())
	return relays[0].Addr() + ":" + election
}

// between calls f for the relays between two members, in both directions.
func (l links) between(a, b int, f func(*Relay)) {
	for _, ends := range [][2]int{{a, b}, {b, a}} {
		for _, r := range l[ends] {
			f(r)
		}
	}
}

func (l links) each(f func(*Relay)) {
	for _, relays := range l {
		f(relays[0])
		f(relays[1])
	}
}

// redirectElection reads the first message of an election connection, and returns it with the
// member's address replaced. A member that is called by a member with a lower id hangs up and calls
// back at that address, which must be a relay's too.
//
// The message is a protocol version int64, below 0, the member's id int64, and its address, a
// length int32 and as many bytes; QuorumCnxManager.InitialMessage. Servers before 3.5 send only
// their id.
func redirectElection(r io.Reader, addr string) ([]byte, error) {
	opening := make([]byte, 8, 20)
	if _, err := io.ReadFull(r, opening); err != nil {
		return nil, err
	}
	if int64(binary.BigEndian.Uint64(opening)) >= 0 {
		return opening, nil
	}
	opening = opening[:20]
	if _, err := io.ReadFull(r, opening[8:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(opening[16:])
	if size > maxElectionAddr {
		return nil, fmt.Errorf("zkserver: election address of %d bytes: must be at most %d", size, maxElectionAddr)
	}
	if _, err := io.CopyN(io.Discard, r, int64(size)); err != nil {
		return nil, err
	}
	opening = binary.BigEndian.AppendUint32(opening[:16], uint32(len(addr)))
	return append(opening, addr...), nil
}
