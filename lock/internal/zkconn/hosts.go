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

// lookupTimeout bounds how long names are resolved before each round of tries.
const lookupTimeout = 3 * time.Second

// pauseTime is how long go-zookeeper pauses when it is told to.
const pauseTime = time.Second

// mostBurst is how many tries, in whole rounds, need no pause in the time of one, if
// connections are lost. With a single server, one may find the session about to end,
// one that it has ended, one gets a new one, and the others may break off.
const mostBurst = 8

// lookup resolves a name.
type lookup func(ctx context.Context, host string) ([]string, error)

// hosts tells go-zookeeper which server to try next: all addresses of all servers,
// in an order that each client draws for itself and then keeps. It resolves the
// names before each round. go-zookeeper's provider does so once, and never finds a
// server again that has moved to another address.
type hosts struct {
	ctx    context.Context // ends when there is nothing to connect for any more
	cfg    Config
	failed func(error) // is told of names that cannot be resolved
	stuck  func() bool // reports whether requests that were not sent must have an answer

	mu             sync.Mutex
	salt           uint64 // of the order
	servers        []string
	addresses      []string          // of this round
	names          map[string]string // what the servers of these are called
	next           int               // in addresses
	triesThisRound int               // the last address that was good included
	burst          int               // tries that need no pause
	refillAt       time.Duration     // monotonic time from which there are more of them
}

// Init takes the servers, as host:port. It does not look them up: that they cannot be
// resolved yet is as passing a fault as that they refuse connections.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers, h.salt = servers, h.cfg.Random.Uint64()
	return nil
}

// Len returns how many addresses there are.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.addresses)
}

// Next returns the address to try, and whether go-zookeeper is to pause for a second
// first: when all were tried again and again in vain. It is before the pause that
// go-zookeeper answers what could not be sent, and in it that it looks whether it was
// closed, so there is one, too, when either has to be.
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

// Connected takes the news that the last address was good. When it is lost, the
// others are tried first, and then all again without a pause: with go-zookeeper's own
// provider, a client of a single server is kept from it for a second, and for another
// one if its session has expired. A server that takes its clients and drops them
// again is not run down, because Connected allows this once in the time of a pause.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.triesThisRound = 1
	if now := h.cfg.Now(); now >= h.refillAt {
		h.burst, h.refillAt = mostBurst, now+pauseTime
	}
}

// resolve looks the servers' addresses up, all at once, so that a name that takes its
// time does not take the others'; h.mu is held. What cannot be resolved now is left to
// the dialer.
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

// resolveOne returns a server's addresses, or else itself.
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

// nameOf is what the server at an address of this round is called.
func (h *hosts) nameOf(address string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if name, ok := h.names[address]; ok {
		return name
	}
	return hostOf(address)
}

// rank places an address in this client's order.
func (h *hosts) rank(address string) uint64 {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%x %s", h.salt, address)
	return hash.Sum64()
}
