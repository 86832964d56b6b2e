package zkconn

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"unicode"
)

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
