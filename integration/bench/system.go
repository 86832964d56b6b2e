package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bsm/redislock"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// lease is the lease of another system's lock, as long as Holdfast's.
const lease = 2 * sessionTimeout

// polling returns the backoff of clients that wait for a lock without a queue: 16 ms at first, then
// longer, up to 128 ms.
func polling() redislock.RetryStrategy {
	return redislock.ExponentialBackoff(16*time.Millisecond, 128*time.Millisecond)
}

// most is the largest number of connections of a client that needs one for each concurrent request.
const most = 64

// daemon is another system's server, in a process and a folder of its own.
type daemon struct {
	server
	*zkserver.Process
	name, dir   string
	port, other string // port of addr; another address with a free port

	cmd    *exec.Cmd
	ready  func(ctx context.Context) error // returns an error until the daemon is ready
	hangUp func() error                    // ends this program's own connection; nil: there is none
}

// startDaemon starts a daemon and waits until it is ready. prepare gets the daemon with its folder
// and its addresses, and sets its command and functions. If startDaemon fails, no process and no
// folder remains.
func startDaemon(ctx context.Context, name string, prepare func(d *daemon) error) (_ *server, err error) {
	ports, err := zkserver.FreePorts(2)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-"+name+"-")
	if err != nil {
		return nil, err
	}
	d := &daemon{name: name, dir: dir, port: strconv.Itoa(ports[0]), other: fmt.Sprintf("127.0.0.1:%d", ports[1])}
	d.addr, d.close = "127.0.0.1:"+d.port, d.stop
	defer func() {
		if err != nil {
			err = errors.Join(err, d.discard())
		}
	}()
	if err := prepare(d); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if d.Process, err = zkserver.StartProcess(d.cmd); err != nil {
		return nil, err
	}
	var last error
	err = wait.Until(ctx, patience, name+" is ready", func() (bool, error) {
		last = d.ready(ctx)
		return last == nil, d.Running()
	})
	if err != nil {
		d.Kill()
		return nil, fmt.Errorf("%w (last answer: %v); its log:\n%s", err, last, d.log())
	}
	return &d.server, nil
}

func (d *daemon) log() string {
	text, err := os.ReadFile(filepath.Join(d.dir, "server.log"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// stop ends the process, closes this program's connection, and removes the folder. It fails if the
// process had ended before or had to be killed.
func (d *daemon) stop() error {
	err := d.Stop(os.Interrupt, 10*time.Second)
	if err != nil {
		err = fmt.Errorf("%s %w; its log:\n%s", d.name, err, d.log())
	}
	return errors.Join(err, d.discard())
}

// discard closes this program's connection and removes the folder.
func (d *daemon) discard() (err error) {
	if d.hangUp != nil {
		err = d.hangUp()
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

// wire counts the traffic between a client and its server.
type wire struct{ requests, in, out atomic.Int64 }

func (w *wire) counts() zkserver.Counts {
	return zkserver.Counts{Requests: w.requests.Load(), BytesIn: w.in.Load(), BytesOut: w.out.Load()}
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return wiredConn{conn, w}, err
}

type wiredConn struct {
	net.Conn
	wire *wire
}

func (c wiredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.in.Add(int64(n))
	return n, err
}

func (c wiredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.wire.out.Add(int64(n))
	return n, err
}

// SyscallConn lets a client's library check whether the server has closed the connection.
func (c wiredConn) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(syscall.Conn).SyscallConn()
}
