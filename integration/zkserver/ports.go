package zkserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
)

// FreePorts returns n ports of 127.0.0.1 that nobody uses now.
//
// They are not of the range from which the kernel serves outgoing connections.
// In there, any client could take a port before the server binds it; and a
// client that dials a server which is down could be connected to itself, and
// keep the server from coming back.
// None is given twice: whoever got it may not listen yet.
func FreePorts(n int) ([]int, error) {
	given.Lock()
	defer given.Unlock()
	const lowest, highest, tries = 10000, 65535, 1000
	first, last := ephemeralPorts()
	var ports []int
	for try := 0; try < tries && len(ports) < n; try++ {
		port := lowest + rand.IntN(highest-lowest+1)
		if given.ports[port] {
			continue
		}
		if try < tries/2 && first <= port && port <= last {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer l.Close() // not before all are found, so that they differ
		ports = append(ports, port)
	}
	if len(ports) < n {
		return nil, fmt.Errorf("zkserver: no %d free ports on 127.0.0.1 after %d tries", n, tries)
	}
	for _, port := range ports {
		given.ports[port] = true
	}
	return ports, nil
}

// given are the ports that this process has chosen.
var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// ephemeralPorts returns the range of ports of outgoing connections: Linux's
// setting, or else its default.
func ephemeralPorts() (first, last int) {
	setting, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		if _, err := fmt.Sscan(string(setting), &first, &last); err == nil {
			return first, last
		}
	}
	return 32768, 60999
}
