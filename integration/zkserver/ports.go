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
// They are below those that the kernel serves outgoing connections from. In there, any
// client could take a port before the server binds it; and a client that dials a server
// which is down could be connected to itself, and keep the server from coming back.
//
// None is given twice, by this process or another one that runs: the process that got it
// may not listen yet, or its server may be down for a moment.
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
