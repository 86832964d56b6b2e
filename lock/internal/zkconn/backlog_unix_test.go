//go:build unix

package zkconn

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestDialOfAServerThatDoesNotAccept: Dial returns when its context ends, although the server
// accepts no connection.
func TestDialOfAServerThatDoesNotAccept(t *testing.T) {
	dialInVain(t, backlogged(t), testConfig(t), "")
}

// backlogged returns the address of a server that accepts no connection, and whose backlog is full.
func backlogged(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	iferr.Fatal(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	iferr.Fatal(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	iferr.Fatal(t, syscall.Listen(fd, 0))
	at, err := syscall.Getsockname(fd)
	iferr.Fatal(t, err)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*syscall.SockaddrInet4).Port))
	for {
		nc, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { nc.Close() })
	}
}
