package zkconn

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"
)

// ParseServer parses the address of a ZooKeeper server, host or host:port, and returns it as
// host:port. The default port is 2181. An IPv6 address must be in brackets. The error does not
// repeat credentials that s may have.
func ParseServer(s string) (string, error) {
	if strings.Contains(s, "@") {
		return "", errors.New("must be host or host:port: no credentials, which belong to zookeeper.auth or WithDigest")
	}
	if wrong := unlikeConnectString(s); len(wrong) > 0 {
		return "", errors.New("must be host or host:port: " + strings.Join(wrong, "; "))
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil { // perhaps there is no port
		host, port, err = net.SplitHostPort(s + ":2181")
	}
	if err != nil {
		return "", errors.New("must be host or host:port, an IPv6 address in brackets")
	}
	if host == "" || strings.ContainsFunc(host, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_:%", r)
	}) {
		return "", errors.New("must be host or host:port, one server each")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("must have a port from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

// unlikeConnectString returns a message for each part of s that a connect string may have and an
// address must not have: a scheme, several servers, a chroot. Other ZooKeeper clients take a
// connect string for all servers.
func unlikeConnectString(s string) (wrong []string) {
	if scheme, rest, found := strings.Cut(s, "://"); found {
		wrong = append(wrong, fmt.Sprintf("no scheme, delete %q", scheme+"://"))
		s = rest
	}
	s, chroot, found := strings.Cut(s, "/")
	if strings.Contains(s, ",") {
		wrong = append(wrong, "one server each, make a list of them")
	}
	switch chroot = strings.Trim(chroot, "/"); {
	case found && chroot == "":
		wrong = append(wrong, "no chroot, delete the slash")
	case found:
		wrong = append(wrong, fmt.Sprintf("no chroot, make it part of the root, as in %q", "/"+chroot+"/locks"))
	}
	return wrong
}

// ShowServer returns a server address without its credentials, for messages: everything before the
// last @ may be a user's name and password, as in URLs.
func ShowServer(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		return "[redacted]" + s[at:]
	}
	return s
}
