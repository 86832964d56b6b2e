package policy

import (
	"errors"
	"net"
	"strconv"
)

// Status has the settings of the reaper's status page.
type Status struct {
	Listen   string   // address, as host:port; "", the default: nowhere
	Hosts    []string // names by which it may be asked for, beside localhost and addresses
	Metadata bool     // whether the metadata of entries is shown
}

// ParseListen parses an address to listen on, port or host:port, and returns it as host:port. The
// default host is 127.0.0.1: only this machine can connect.
func ParseListen(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = "", text
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", errors.New("must be a port or host:port, such as 9180 or 0.0.0.0:9180")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}
