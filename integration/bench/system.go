package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bsm/redislock"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// mark stands beside the names of peers that lock with another system than
// ZooKeeper: what they promise is not the same.
const mark = "†"

// printNotes prints what the marks beside the peers' names mean.
func printNotes(w io.Writer, peers []*peer) {
	for _, p := range peers {
		if p.note != "" {
			fmt.Fprintf(w, "\n%s %s: %s\n", mark, strings.TrimSuffix(p.title, " "+mark), p.note)
		}
	}
}

// lease is how long a lock of another system is held, like Holdfast's, unless it
// is given back.
const lease = 2 * sessionTimeout

// polling is how clients wait for a lock that has no queue: they ask again after
// 16 ms, then less and less often, at last every 128 ms.
func polling() redislock.RetryStrategy {
	return redislock.ExponentialBackoff(16*time.Millisecond, 128*time.Millisecond)
}

// most is how many connections a client may have that needs one for each request
// under way.
const most = 64

// daemon is the server of another system: a process of its own, with a folder of
// its own.
type daemon struct {
	*zkserver.Process
	name, dir, address string
}

func (d *daemon) addr() string { return d.address }

// stopTimeout is how long a daemon may take to end.
const stopTimeout = 10 * time.Second

// startDaemon starts a daemon, which keeps what it has in a folder, and waits
// until it is ready. The folder is removed with it, or if it fails.
func startDaemon(ctx context.Context, name, dir, address string, cmd *exec.Cmd, ready func(context.Context) error) (_ *daemon, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	process, err := zkserver.StartProcess(cmd)
	if err != nil {
		return nil, err
	}
	d := &daemon{Process: process, name: name, dir: dir, address: address}
	var last error
	err = await(ctx, name+" is ready", func() (bool, error) {
		select {
		case <-process.Exited():
			return false, fmt.Errorf("%s did not start: %v", name, process.Err())
		default:
			last = ready(ctx)
			return last == nil, nil
		}
	})
	if err != nil {
		process.Kill()
		return nil, fmt.Errorf("%w (last answer: %v); its log:\n%s", err, last, d.log())
	}
	return d, nil
}

func (d *daemon) log() string {
	text, err := os.ReadFile(filepath.Join(d.dir, "server.log"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// close ends the process and removes its folder.
func (d *daemon) close() error {
	var err error
	select {
	case <-d.Exited():
		err = fmt.Errorf("%s had ended by itself: %v; its log:\n%s", d.name, d.Err(), d.log())
	default:
		_ = d.Signal(os.Interrupt) // fails only if it is gone
		select {
		case <-d.Exited():
		case <-time.After(stopTimeout):
			d.Kill()
			err = fmt.Errorf("%s had to be killed: it ran on for %v", d.name, stopTimeout)
		}
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

// freeAddr returns an address of 127.0.0.1 where no process listens.
func freeAddr() (addr, port string, err error) {
	ports, err := zkserver.FreePorts(1)
	if err != nil {
		return "", "", err
	}
	port = fmt.Sprint(ports[0])
	return net.JoinHostPort("127.0.0.1", port), port, nil
}

// wire counts what passes between a client and its server.
type wire struct{ requests, in, out atomic.Int64 }

func (w *wire) counts() zkserver.Counts {
	return zkserver.Counts{Requests: w.requests.Load(), BytesIn: w.in.Load(), BytesOut: w.out.Load()}
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return wiredConn{conn, w}, nil
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

// SyscallConn lets a client look whether the server has hung up.
func (c wiredConn) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(syscall.Conn).SyscallConn()
}
