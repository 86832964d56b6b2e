package zkconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// configNode has the ensemble's dynamic configuration, from ZooKeeper 3.5 on.
const configNode = "/zookeeper/config"

// Members reads the servers of the ensemble's dynamic configuration. It fails with servers before
// ZooKeeper 3.5, with a standalone server, and if an ACL forbids the read.
func (c *Conn) Members(ctx context.Context) (Members, error) {
	node, err := c.Get(ctx, configNode)
	return c.members(node, err)
}

// members decodes the result of a read of configNode, and explains its error.
func (c *Conn) members(node Node, err error) (Members, error) {
	var m Members
	switch {
	case errors.Is(err, zk.ErrNoNode):
		err = errors.New("there is none: ZooKeeper has it from 3.5 on")
	case errors.Is(err, zk.ErrNoAuth):
		err = errors.New("an ACL forbids to read it")
	case err == nil:
		tls := ""
		if c.cfg.TLS != nil {
			tls = commonPort(c.cfg.servers)
		}
		m, err = parseMembers(string(node.Data), tls)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", configNode, err)
	}
	return m, err
}

// follow keeps the servers to try up to date with the ensemble's dynamic configuration, until the
// connection is closed. It reads the node again when it has changed, after each lost connection, and
// after about a minute, even if the node could not be read.
func (c *Conn) follow() {
	defer close(c.own.followed)
	complaint := ""
	for {
		node, changed, err := c.Watch(c.open, configNode)
		m, err := c.members(node, err)
		if c.open.Err() != nil {
			return
		}
		if err == nil {
			c.take(m)
			complaint = ""
		} else if err.Error() != complaint {
			complaint = err.Error()
			c.cfg.Log.Warn().AnErr("why", err).Strs("servers", c.own.hosts.known()).
				Msg("cannot follow the ensemble's configuration: going on with the known servers")
		}
		again := c.own.hosts.lookAgain()
		timer := time.NewTimer(c.cfg.Jitter(again+again/8, again/8)) // not earlier: it would be in vain
		select {
		case <-changed:
		case <-timer.C:
		case <-c.open.Done():
		}
		timer.Stop()
	}
}

// take makes the members the servers to connect to. If the present server was removed, it closes
// the connection: a removed server would go on to serve its clients until it is stopped.
func (c *Conn) take(m Members) {
	h := c.own.hosts
	if before, changed := h.follow(m); changed {
		c.cfg.Log.Info().Strs("from", before).Strs("to", m.Servers).Str("version", fmt.Sprintf("%x", m.Version)).
			Msg("the ensemble's servers changed")
	}
	if live := c.own.live.Load(); live != nil && h.isRemoved(live.address) {
		c.cfg.Log.Info().Str("server", live.address).Msg("the ensemble has removed this server: connecting to another one")
		live.Close()
	}
}

// follow makes the members the servers to try. It ignores a configuration that is older than the
// known one, from a server that lags behind. It reports whether the servers to try have changed, and
// if so, returns the previous ones.
func (h *hosts) follow(m Members) (before []string, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = slices.Sorted(slices.Values(h.configured))
	if h.members != nil {
		if m.Version < h.members.Version {
			return nil, false
		}
		before = h.members.Servers
	}
	if h.members != nil && slices.Equal(before, m.Servers) {
		h.members = &m
		return nil, false
	}
	for _, s := range before {
		if h.members != nil && !slices.Contains(h.removed, s) {
			h.removed = append(h.removed, s)
		}
	}
	h.removed = slices.DeleteFunc(h.removed, func(s string) bool { return slices.Contains(m.Servers, s) })
	h.members, h.stale, h.fallback, h.failures, h.settled = &m, true, false, 0, ""
	return before, !slices.Equal(before, m.Servers)
}

// forget makes follow accept any version of the configuration: the servers may have lost their data.
func (h *hosts) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.members != nil {
		h.members.Version = 0
	}
}

// known returns the members of the ensemble once they were read, and the configured servers until
// then.
func (h *hosts) known() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.members != nil {
		return h.members.Servers
	}
	return h.configured
}

// isRemoved reports whether the server at an address is a former member. A server that never was a
// member, such as a load balancer, is not removed. During a fallback a former member counts as
// removed only from stayTill on; isRemoved then ends the fallback.
func (h *hosts) isRemoved(address string) bool {
	h.mu.Lock()
	server, ok := h.names[address]
	members, removed := h.members, slices.Clone(h.removed)
	skip := h.fallback && h.cfg.Now() < h.stayTill || len(removed) == 0 || h.settled == address
	if !skip {
		h.settled = address
	}
	h.mu.Unlock()
	if skip {
		return false
	}
	if !ok {
		server = address
	}
	// A server may have several names.
	is, _, unknown := h.lookUp(members.Servers)
	if len(unknown) > 0 { // a later call must judge the address again
		h.mu.Lock()
		defer h.mu.Unlock()
		h.settled = ""
		return false
	}
	if slices.Contains(is, address) || slices.Contains(members.Servers, server) {
		return false
	}
	was, _, _ := h.lookUp(removed)
	if !slices.Contains(was, address) && !slices.Contains(removed, server) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fallback {
		h.fallback, h.stale, h.failures = false, true, 0
	}
	return true
}

// lookAgain returns the time until the members are read again.
func (h *hosts) lookAgain() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if left := h.stayTill - h.cfg.Now(); h.fallback && left > 0 {
		return min(max(left, time.Second), lookAgain)
	}
	return lookAgain
}
