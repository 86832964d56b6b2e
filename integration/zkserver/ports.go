package zkserver

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
)

// FreePorts returns n ports of 127.0.0.1 that are unused now.
//
// They are below the range for outgoing connections. In that range, a client could take a port
// before the server binds it. A client that dials a stopped server could even connect to itself,
// and block the server's port.
//
// This process never returns a port twice, because a server may be down for a moment. On Linux, a
// port that another running process has chosen is not returned either.
func FreePorts(n int) ([]int, error) {
	given.Lock()
	defer given.Unlock()
	const lowest, highest, tries = 10000, 32767, 1000
	var ports []int
	for try := 0; try < tries && len(ports) < n; try++ {
		port := lowest + rand.IntN(highest-lowest+1)
		if given.ports[port] != nil {
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

// given has the ports that this process has chosen, each with its reservation.
var given = struct {
	sync.Mutex
	ports map[int]io.Closer
}{ports: map[int]io.Closer{}}

// reserve prevents other processes from choosing the port, by an abstract socket with the port in
// its name. The reservation ends at Close or with the process. Only Linux has such sockets;
// elsewhere reserve does nothing.
func reserve(port int) (io.Closer, error) {
	if runtime.GOOS != "linux" {
		return io.NopCloser(nil), nil
	}
	return net.Listen("unix", "@holdfast-port-"+strconv.Itoa(port))
}
