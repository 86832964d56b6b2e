package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// lookupTimeout limits the time for the resolution of all names before a round of tries.
const lookupTimeout = 3 * time.Second

// pauseTime is the length of the pause that go-zookeeper makes if Next asks for it.
const pauseTime = time.Second

// mostBurst is the number of tries, in whole rounds, that are made without a pause after lost
// connections. Connected allows that many tries once in each pauseTime. With a single server, one
// try may find the session about to end, a second finds that the session has ended, a third gets a
// new session, and further tries may break off.
const mostBurst = 8

// fallbackAfter is the time after which the configured servers are tried, too, if no member
// answers. The election of a leader takes less.
const fallbackAfter = 3 * time.Second

// Limits of hosts.stay. A client whose fallback has led it to a removed server tries the members
// again after leastStay. If no member answers, it tries again after twice that time, and so on up
// to mostStay.
const (
	leastStay = 10 * time.Second
	mostStay  = time.Hour
)

// lookup resolves a host name to IP addresses.
type lookup func(ctx context.Context, host string) ([]string, error)

// hosts is the zk.HostProvider of an owned connection: it gives go-zookeeper the address to try
// next. A round has all addresses of all servers, in a random order that the client keeps. hosts
// resolves the names before each round. go-zookeeper's own provider resolves them once, and never
// finds a server again that has moved to another address.
//
// Once the ensemble's members are known ([hosts.follow]), they are the servers. If no member
// answers for fallbackAfter, the configured servers are tried, too.
type hosts struct {
	ctx   context.Context // ends when the connection is closed
	cfg   Config
	began func(addresses []string, unknown map[string]error) // receives each round, with the errors of its names that cannot be resolved

	mu             sync.Mutex
	salt           uint64            // random; it determines this client's order of addresses
	configured     []string          // the servers given to Dial
	addresses      []string          // addresses of this round, in this client's order
	names          map[string]string // the server of each address
	next           int               // index of the next address
	triesThisRound int               // number of tries since its reset: to 0 after a round, to 1 by Connected
	burst          int               // number of tries allowed without a pause
	refillAt       time.Duration     // monotonic time from which burst may be set to mostBurst again

	members  *Members      // nil: not followed, or not known yet
	removed  []string      // former members
	stale    bool          // the servers to try have changed since the round began
	failures int           // number of tries since the members changed, or a server answered
	failing  time.Duration // monotonic time of the first of the failures
	fallback bool          // no member answers: the configured servers are tried, too
	stay     time.Duration // time for which the last fallback may use a removed server
	stayTill time.Duration // monotonic time at which stay is over
	settled  string        // the address that isRemoved need not judge again; "": none
}

// Init sets the servers, as host:port. It does not look them up: a name that cannot be resolved
// yet is as temporary a failure as a refused connection.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.configured, h.salt = servers, h.cfg.Random.Uint64()
	return nil
}

// Len returns the number of addresses of this round.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.addresses)
}

// Next returns the address to try, and whether go-zookeeper must first pause for a second. It must
// pause after rounds that have used up burst. In the pause it notices that it was closed, so Next
// also asks for a pause if the connection is closed.
func (h *hosts) Next() (address string, wait bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.cfg.Now()
	if h.failures == 0 {
		h.failing = now
	}
	if h.members != nil && !h.stale && !h.fallback && h.failures >= len(h.addresses) && now-h.failing >= fallbackAfter {
		h.fallback, h.stale, h.stay = true, true, min(max(2*h.stay, leastStay), mostStay)
		h.stayTill = now + h.stay
		if others := h.others(); len(others) > 0 {
			h.cfg.Log.Warn().Strs("members", h.members.Servers).Strs("servers", others).Msg("no member of the ensemble answers: trying the configured servers, too")
		}
	}
	if h.stale || h.next == len(h.addresses) {
		h.resolve()
	}
	if h.triesThisRound >= len(h.addresses) {
		h.triesThisRound = 0
		if wait = h.burst < len(h.addresses); !wait {
			h.burst -= len(h.addresses)
		}
	}
	if h.ctx.Err() != nil {
		wait = true
	}
	address = h.addresses[h.next]
	h.next++
	h.triesThisRound++
	h.failures++
	return address, wait
}

// Connected records that the last address worked. When that connection is lost, the other addresses
// are tried first, and then all again without a pause. With go-zookeeper's own provider a client of
// a single server waits a second before it reconnects, and another second if its session has
// expired. Connected allows mostBurst tries in each pauseTime, so a server that keeps dropping its
// clients is not overrun.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.triesThisRound, h.failures, h.settled = 1, 0, ""
	if h.fallback && h.next > 0 && slices.Contains(h.members.Servers, h.names[h.addresses[h.next-1]]) {
		h.fallback, h.stale = false, true
	}
	if !h.fallback {
		h.stay = 0
	}
	if now := h.cfg.Now(); now >= h.refillAt {
		h.burst, h.refillAt = mostBurst, now+pauseTime
	}
}

// resolve begins a round: it looks up the addresses of the servers to try; h.mu is held.
func (h *hosts) resolve() {
	servers := h.configured
	if h.members != nil {
		servers = h.members.Servers
	}
	var unknown map[string]error
	h.addresses, h.names, unknown = h.lookUp(servers)
	if h.fallback {
		addresses, names, more := h.lookUp(h.others())
		maps.Copy(unknown, more)
		// The members have just failed, perhaps because certificates or principals have other names.
		h.addresses = append(addresses, slices.DeleteFunc(h.addresses, func(a string) bool { return names[a] != "" })...)
		maps.Copy(h.names, names)
	}
	h.next, h.stale = 0, false
	h.began(h.addresses, unknown)
}

// others returns the configured servers that are not members; h.mu is held.
func (h *hosts) others() []string {
	return slices.DeleteFunc(slices.Clone(h.configured), func(s string) bool { return slices.Contains(h.members.Servers, s) })
}

// lookUp returns the servers' addresses in this client's order, and a map from each address to its
// server. It looks all servers up concurrently. A server whose name cannot be resolved is its own
// address; unknown has the reasons.
func (h *hosts) lookUp(servers []string) (addresses []string, names map[string]string, unknown map[string]error) {
	ctx, cancel := context.WithTimeout(h.ctx, lookupTimeout)
	defer cancel()
	found, errs := make([][]string, len(servers)), make([]error, len(servers))
	var lookups sync.WaitGroup
	for i, server := range servers {
		lookups.Go(func() { found[i], errs[i] = h.resolveOne(ctx, server) })
	}
	lookups.Wait()
	names, unknown = map[string]string{}, map[string]error{}
	for i, server := range servers {
		if errs[i] != nil {
			found[i], unknown[server] = []string{server}, fmt.Errorf("%s: %w", server, errs[i])
		}
		for _, address := range found[i] {
			addresses, names[address] = append(addresses, address), server
		}
	}
	slices.SortFunc(addresses, func(a, b string) int { return cmp.Compare(h.rank(a), h.rank(b)) })
	return addresses, names, unknown
}

// resolveOne returns a server's addresses, host:port.
func (h *hosts) resolveOne(ctx context.Context, server string) ([]string, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	found, err := h.cfg.lookup(ctx, host)
	if err == nil && len(found) == 0 {
		err = errors.New("the name has no addresses")
	}
	for i, ip := range found {
		found[i] = net.JoinHostPort(ip, port)
	}
	return found, err
}

// nameOf returns the host name of the server at an address of this round; for any other address it
// returns the host in the address.
func (h *hosts) nameOf(address string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if server, ok := h.names[address]; ok {
		return hostOf(server)
	}
	return hostOf(address)
}

// rank returns a number for an address: addresses are tried in the order of their ranks.
func (h *hosts) rank(address string) uint64 {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%x %s", h.salt, address)
	return hash.Sum64()
}
