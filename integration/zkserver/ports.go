package zkserver

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
)

// FreePorts returns n ports of 127.0.0.1 that are unused now.
//
// They are not of the range from which the kernel serves outgoing connections.
// In there, any client could take a port before the server binds it; and a
// client that dials a server which is down could be connected to itself, and
// keep the server from coming back.
//
// None is given twice, by this process or another one that runs: the process that got it
// may not listen yet, or its server may be down for a moment.
func FreePorts(n int) ([]int, error) {
	given.Lock()
	defer given.Unlock()
	const lowest, highest, tries = 10000, 65535, 1000
	first, last := ephemeralPorts()
	var ports []int
	for try := 0; try < tries && len(ports) < n; try++ {
		port := lowest + rand.IntN(highest-lowest+1)
		if given.ports[port] != nil {
			continue
		}
		if try < tries/2 && first <= port && port <= last {
			continue
		}
		mark, err := reserve(port)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			mark.Close()
			continue
		}
		l.Close()
		given.ports[port] = mark
		ports = append(ports, port)
	}
	if len(ports) < n {
		return nil, fmt.Errorf("zkserver: no %d free ports on 127.0.0.1 after %d tries", n, tries)
	}
	return ports, nil
}

// given are the ports that this process has chosen, each with what keeps others from it.
var given = struct {
	sync.Mutex
	ports map[int]io.Closer
}{ports: map[int]io.Closer{}}

// reserve keeps other processes from choosing the port, by a name that one at a time can
// have. It ends with the process, if it is not closed. Linux alone has such names; elsewhere
// no process is kept from a port.
func reserve(port int) (io.Closer, error) {
	if runtime.GOOS != "linux" {
		return io.NopCloser(nil), nil
	}
	return net.Listen("unix", "@holdfast-port-"+strconv.Itoa(port))
}

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
