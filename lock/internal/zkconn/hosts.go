package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"sync"
	"time"
)

// lookupTimeout limits the time for the resolution of names before each round of tries.
const lookupTimeout = 3 * time.Second

// pauseTime is the length of go-zookeeper's pause.
const pauseTime = time.Second

// mostBurst is the number of tries, in whole rounds, without a pause in the time of one pause
// after lost connections. With a single server, one try may find the session about to end, one
// that it has ended, one gets a new session, and others may break off.
const mostBurst = 8

// lookup resolves a name.
type lookup func(ctx context.Context, host string) ([]string, error)

// hosts gives go-zookeeper the server to try next: all addresses of all servers, in a random
// order that each client keeps. It resolves the names before each round. go-zookeeper's own
// provider resolves them once, and never finds a server again that has moved to another address.
type hosts struct {
	ctx    context.Context // ends when the connection is closed
	cfg    Config
	failed func(error) // receives names that cannot be resolved
	stuck  func() bool // reports whether unsent requests must be answered

	mu             sync.Mutex
	salt           uint64 // makes this client's order of addresses differ
	servers        []string
	addresses      []string          // of this round, in this client's order
	names          map[string]string // names of these addresses' servers
	next           int               // index of the next address
	triesThisRound int               // number of tries, with the last good address
	burst          int               // number of tries allowed without a pause
	refillAt       time.Duration     // monotonic time of the next refill
}

// Init sets the servers, as host:port. It does not look them up: a name that cannot be resolved
// yet is as temporary a failure as a refused connection.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers, h.salt = servers, h.cfg.Random.Uint64()
	return nil
}

// Len returns the number of addresses.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.addresses)
}

// Next returns the address to try, and whether go-zookeeper must first pause for a second: when
// all addresses failed repeatedly. Before the pause go-zookeeper answers unsent requests, and
// during it checks whether it was closed. So there is a pause for these two purposes, too.
func (h *hosts) Next() (address string, wait bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == len(h.addresses) {
		h.resolve()
	}
	if h.triesThisRound >= len(h.addresses) {
		h.triesThisRound = 0
		if wait = h.burst < len(h.addresses); !wait {
			h.burst -= len(h.addresses)
		}
	}
	if h.ctx.Err() != nil || h.stuck() {
		wait = true
	}
	address = h.addresses[h.next]
	h.next++
	h.triesThisRound++
	return address, wait
}

// Connected says that the last address worked. When that connection is lost, the others are tried
// first, and then all again without a pause. With go-zookeeper's own provider a client of a
// single server waits a second before it reconnects, and another second if its session has
// expired. Connected allows this once in the time of a pause, so a server that keeps dropping its
// clients is not overrun.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.triesThisRound = 1
	if now := h.cfg.Now(); now >= h.refillAt {
		h.burst, h.refillAt = mostBurst, now+pauseTime
	}
}

// resolve looks up all servers' addresses concurrently, so that a slow lookup does not delay the
// others; h.mu is held. The dialer gets the names that cannot be resolved now.
func (h *hosts) resolve() {
	ctx, cancel := context.WithTimeout(h.ctx, lookupTimeout)
	defer cancel()
	found := make([][]string, len(h.servers))
	var lookups sync.WaitGroup
	for i, server := range h.servers {
		lookups.Go(func() { found[i] = h.resolveOne(ctx, server) })
	}
	lookups.Wait()
	h.addresses, h.next = slices.Concat(found...), 0
	h.names = make(map[string]string, len(h.addresses))
	for i, server := range h.servers {
		for _, address := range found[i] {
			h.names[address] = hostOf(server)
		}
	}
	slices.SortFunc(h.addresses, func(a, b string) int { return cmp.Compare(h.rank(a), h.rank(b)) })
}

// resolveOne returns a server's addresses, or the server itself if they are unknown.
func (h *hosts) resolveOne(ctx context.Context, server string) []string {
	host, port, err := net.SplitHostPort(server)
	var found []string
	if err == nil {
		found, err = h.cfg.lookup(ctx, host)
	}
	if err == nil && len(found) == 0 {
		err = errors.New("the name has no addresses")
	}
	if err != nil {
		h.failed(fmt.Errorf("%s: %w", server, err))
		return []string{server}
	}
	for i, ip := range found {
		found[i] = net.JoinHostPort(ip, port)
	}
	return found
}

// nameOf returns the name of the server at an address of this round.
func (h *hosts) nameOf(address string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if name, ok := h.names[address]; ok {
		return name
	}
	return hostOf(address)
}

// rank returns the rank of an address in this client's order.
func (h *hosts) rank(address string) uint64 {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%x %s", h.salt, address)
	return hash.Sum64()
}
