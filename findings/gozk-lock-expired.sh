#!/usr/bin/env bash
# go-zookeeper/zk v1.0.4, on ZooKeeper 3.8.0 (Debian bookworm): a zk.Lock whose session expired while it was
# held can neither be unlocked nor locked again, although its client has a new session.
#
# Guess:  Unlock returns an error once, as the lock was lost; after that the object is unlocked, and Lock
#         works as before.
# Seen:   Unlock fails for ever, for its node is gone, and therefore Lock always says that it has the lock
#         already. Another zk.Lock of the same path and client gets it. So a worker that keeps its zk.Lock,
#         and repeats Lock and Unlock, never works again after one expired session.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
build github.com/go-zookeeper/zk@v1.0.4 <<'GO'
package main

import (
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

// network is a client's way to the server, until it is cut.
type network struct {
	cut  atomic.Bool
	conn atomic.Value
}

func (n *network) dial(kind, address string, timeout time.Duration) (net.Conn, error) {
	if n.cut.Load() {
		return nil, errors.New("the network is down")
	}
	conn, err := net.DialTimeout(kind, address, timeout)
	if err == nil {
		n.conn.Store(conn)
	}
	return conn, err
}

func connect(timeout time.Duration, dial zk.Dialer) *zk.Conn {
	z, _, err := zk.Connect(os.Args[1:], timeout, zk.WithLogger(silent{}), zk.WithDialer(dial))
	if err != nil {
		log.Fatal(err)
	}
	return z
}

func main() {
	acl := zk.WorldACL(zk.PermAll)
	n := new(network)
	z, other := connect(2*time.Second, n.dial), connect(10*time.Second, net.DialTimeout)
	lock := zk.NewLock(z, "/lock", acl)
	fmt.Println("Lock:", lock.Lock())
	session := z.SessionID()

	n.cut.Store(true)
	n.conn.Load().(net.Conn).Close()
	theirs := zk.NewLock(other, "/lock", acl) // waits until the session has expired
	fmt.Println("another client, Lock:", theirs.Lock())
	fmt.Println("another client, Unlock:", theirs.Unlock())

	n.cut.Store(false)
	for {
		if _, _, err := z.Exists("/lock"); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("connected again, in another session:", z.SessionID() != session)
	for range 3 {
		fmt.Println("Lock:", lock.Lock())
		fmt.Println("Unlock:", lock.Unlock())
	}
	fmt.Println("another zk.Lock of the client:", zk.NewLock(z, "/lock", acl).Lock())
	z.Close()
	other.Close()
}
GO
configure
start
expect 'Lock: <nil>
another client, Lock: <nil>
another client, Unlock: <nil>
connected again, in another session: true
Lock: zk: trying to acquire a lock twice
Unlock: zk: node does not exist
Lock: zk: trying to acquire a lock twice
Unlock: zk: node does not exist
Lock: zk: trying to acquire a lock twice
Unlock: zk: node does not exist
another zk.Lock of the client: <nil>' "$("$work/program" "127.0.0.1:$port")"
