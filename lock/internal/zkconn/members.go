package zkconn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Members are the servers of an ensemble according to its dynamic configuration.
type Members struct {
	Version uint64   // version of the configuration; a later one is greater
	Servers []string // addresses for clients, host:port, sorted
}

// parseMembers reads the content of the node /zookeeper/config. Its lines are
//
//	server.<id>=<host>:<port>:<port>[:<role>][|<further host>:...][;[<address for clients>][;<address for TLS>]]
//	version=<hexadecimal>
//
// and lines of groups and weights, which are ignored. An address is a port or host:port. Without a
// host, or with one that stands for all of a machine's addresses, the hosts before the semicolon
// count. Observers serve clients, too.
//
// tls is "" for plain text. Otherwise it is the port for TLS of a line that has no address for TLS,
// as before ZooKeeper 3.10; anyPort: that port is unknown.
func parseMembers(text, tls string) (Members, error) {
	var m Members
	versioned := false
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "version":
			n, err := strconv.ParseUint(value, 16, 64)
			if err != nil {
				return Members{}, fmt.Errorf("version %q: must be a hexadecimal number", value)
			}
			m.Version, versioned = n, true
		case strings.HasPrefix(key, "server."):
			servers, err := clientAddresses(value, tls)
			if err != nil {
				return Members{}, fmt.Errorf("%s=%s: %w", key, value, err)
			}
			m.Servers = append(m.Servers, servers...)
		}
	}
	switch {
	case len(m.Servers) == 0:
		return Members{}, errors.New("it names no servers: the server is a standalone one, or none of ZooKeeper's")
	case !versioned:
		return Members{}, errors.New("it has no version")
	}
	slices.Sort(m.Servers)
	m.Servers = slices.Compact(m.Servers)
	return m, nil
}

var (
	errMemberForm = errors.New("must have the form host:port:port[:role];clientPort")
	errNoClient   = errors.New("it has no address for clients: append ;clientPort to this line in the configuration of the servers, by reconfig, and remove clientPort from their zoo.cfg")
	errTLSPort    = errors.New("it has no address for TLS, which ZooKeeper tells from 3.10 on; before, the configured servers must all have the same port")
)

// clientAddresses returns the addresses for clients, host:port, of a server's line. tls is that of
// parseMembers.
func clientAddresses(line, tls string) ([]string, error) {
	parts := append(strings.Split(line, ";"), "", "")
	var hosts []string
	for server := range strings.SplitSeq(parts[0], "|") {
		host, _, found := strings.Cut(server, ":")
		if rest, ok := strings.CutPrefix(server, "["); ok {
			host, _, found = strings.Cut(rest, "]:")
		}
		if !found || host == "" {
			return nil, errMemberForm
		}
		hosts = append(hosts, host)
	}
	host, port := splitClient(parts[1])
	switch {
	case tls != "" && parts[2] != "":
		host, port = splitClient(parts[2])
	case tls == anyPort:
		return nil, errTLSPort
	case tls != "":
		port = tls
	case port == "":
		return nil, errNoClient
	}
	if ip, err := netip.ParseAddr(host); host != "" && (err != nil || !ip.IsUnspecified()) {
		hosts = []string{host}
	}
	for i, host := range hosts {
		address, err := ParseServer(net.JoinHostPort(host, port))
		if err != nil {
			return nil, fmt.Errorf("address %q for clients: %w", net.JoinHostPort(host, port), err)
		}
		hosts[i] = address
	}
	return hosts, nil
}

// splitClient splits an address for clients, a port or host:port.
func splitClient(address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", address
	}
	return host, port
}

// anyPort is the result of commonPort for servers with different ports.
const anyPort = "*"

// commonPort returns the port of all servers, or anyPort if they have different ones.
func commonPort(servers []string) (port string) {
	for i, s := range servers {
		_, p, _ := net.SplitHostPort(s)
		if i > 0 && p != port {
			return anyPort
		}
		port = p
	}
	return port
}
