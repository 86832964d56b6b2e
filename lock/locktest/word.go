package locktest

import (
	"fmt"
	"net"
	"slices"
	"time"
)

// version is the members' version: the release whose behavior is modelled.
const version = "3.8.6-locktest, built in memory"

// word returns a member's answer to a four-letter word; "" if it does not know the word. The
// formats are ZooKeeper's; listener is the member's address.
func (e *Ensemble) word(m *member, word string, listener net.Addr) string {
	e.lock()
	defer e.unlock()
	switch word {
	case "ruok":
		return "imok"
	case "srvr":
		return fmt.Sprintf("Zookeeper version: %s\nConnections: %d\nZxid: %#x\nMode: %s\nNode count: %d\n",
			version, e.connections(m), m.tree.zxid, e.mode(m), len(m.tree.nodes))
	case "mntr":
		watches := 0
		for _, watchers := range m.watches {
			watches += len(watchers)
		}
		ephemerals, size := 0, 0
		for path, n := range m.tree.nodes {
			size += len(path) + len(n.data)
			if n.ephemeralOwner != 0 {
				ephemerals++
			}
		}
		return fmt.Sprintf("zk_version\t%s\nzk_server_state\t%s\nzk_num_alive_connections\t%d\nzk_znode_count\t%d\n"+
			"zk_watch_count\t%d\nzk_ephemerals_count\t%d\nzk_approximate_data_size\t%d\nzk_global_sessions\t%d\nzk_uptime\t%d\n",
			version, e.mode(m), e.connections(m), len(m.tree.nodes),
			watches, ephemerals, size, len(e.sessions), time.Since(e.made).Milliseconds())
	case "conf":
		_, port, _ := net.SplitHostPort(listener.String())
		return fmt.Sprintf("clientPort=%s\ntickTime=%d\nmaxClientCnxns=0\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nserverId=%d\n",
			port, e.opts.TickTime.Milliseconds(), e.opts.MinSessionTimeout.Milliseconds(), e.opts.MaxSessionTimeout.Milliseconds(), e.number(m))
	case "envi":
		return "Environment:\nzookeeper.version=" + version + "\n"
	}
	return ""
}

// connections returns the number of a member's open connections.
func (e *Ensemble) connections(m *member) int {
	n := 0
	for _, s := range e.conns {
		if s.member == m && !s.closed {
			n++
		}
	}
	return n
}

// mode returns the name of a member's role.
func (e *Ensemble) mode(m *member) string {
	switch {
	case len(e.members) == 1:
		return "standalone"
	case m == e.leader:
		return "leader"
	}
	return "follower"
}

// number returns a member's number, from 1; a single one has 0, like a standalone server.
func (e *Ensemble) number(m *member) int {
	if len(e.members) == 1 {
		return 0
	}
	return slices.Index(e.members, m) + 1
}
