package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// lookupTimeout bounds how long names are resolved before each round of tries.
const lookupTimeout = 3 * time.Second

// pause is how long go-zookeeper pauses when it is told to.
const pause = time.Second

// mostAtOnce is how many tries, in whole rounds, need no pause in the time of one, if
// connections are lost. With a single server, one may find the session about to end,
// one that it has ended, one gets a new one, and the others may break off.
const mostAtOnce = 8

// hosts tells go-zookeeper which server to try next: all addresses of all servers,
// in an order that each client draws for itself and then keeps. It resolves the
// names before each round. go-zookeeper's provider does so once, and never finds a
// server again that has moved to another address.
type hosts struct {
	cfg *config

	mu        sync.Mutex
	salt      uint64 // of the order
	servers   []string
	addresses []string      // of this round
	next      int           // in addresses
	tried     int           // in this round
	atOnce    int           // tries that need no pause
	again     time.Duration // monotonic time from which there are more of them
}

// Init takes the servers, as host:port. It fails if no name among them can be
// resolved: that is a mistake in the list more often than a passing fault.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers, h.salt = servers, h.cfg.random.Uint64()
	if failed := h.resolve(); len(failed) == len(servers) {
		return errors.Join(failed...)
	}
	return nil
}

// Len returns how many addresses there are.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.addresses)
}

// Next returns the address to try, and whether go-zookeeper is to pause for a second
// first: when all were tried again and again in vain.
func (h *hosts) Next() (address string, wait bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == len(h.addresses) {
		h.resolve()
	}
	if h.tried >= len(h.addresses) {
		h.tried = 0
		if wait = h.atOnce < len(h.addresses); !wait {
			h.atOnce -= len(h.addresses)
		}
	}
	address = h.addresses[h.next]
	h.next++
	h.tried++
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
	h.tried = 1
	if now := h.cfg.now().mono; now >= h.again {
		h.atOnce, h.again = mostAtOnce, now+pause
	}
}

// resolve looks the servers' addresses up; h.mu is held. What cannot be resolved
// now is left to the dialer.
func (h *hosts) resolve() (failed []error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	h.addresses, h.next = h.addresses[:0], 0
	for _, server := range h.servers {
		host, port, err := net.SplitHostPort(server)
		var found []string
		if err == nil {
			found, err = net.DefaultResolver.LookupHost(ctx, host)
		}
		if err != nil {
			h.cfg.log.Debug().Err(err).Str("server", server).Msg("cannot resolve the server's name now")
			h.addresses = append(h.addresses, server)
			failed = append(failed, err)
		}
		for _, ip := range found {
			h.addresses = append(h.addresses, net.JoinHostPort(ip, port))
		}
	}
	slices.SortFunc(h.addresses, func(a, b string) int { return cmp.Compare(h.rank(a), h.rank(b)) })
	return failed
}

// rank places an address in this client's order.
func (h *hosts) rank(address string) uint64 {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%x %s", h.salt, address)
	return hash.Sum64()
}

// ParseServer parses the address of a ZooKeeper server, host or host:port, and
// returns it as host:port. The default port is 2181. An IPv6 address is in
// brackets.
func ParseServer(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil { // there may be no port
		host, port, err = net.SplitHostPort(s + ":2181")
	}
	if err != nil {
		return "", errors.New("must be host or host:port, an IPv6 address in brackets")
	}
	if host == "" || strings.ContainsFunc(host, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_:%", r)
	}) {
		return "", errors.New("must be host or host:port, one server in each element")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("must have a port from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}
