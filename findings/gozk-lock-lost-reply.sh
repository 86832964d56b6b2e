#!/usr/bin/env bash
# go-zookeeper/zk v1.0.4, on ZooKeeper 3.8.0 (Debian bookworm): zk.Lock leaves its node behind in a live
# session if the reply to its create is lost and no server can be reached for three seconds. The client
# then blocks itself.
#
# A relay passes the create on to the server, drops the connection before the reply, and refuses new ones
# for three seconds, as a network or a restart does.
#
# Guess:  the create is "protected": the node has an id, by which the library finds it after a lost
#         reply. So Lock waits for a server and holds the lock, or it returns an error and the node is gone
#         when the client is connected again.
# Seen:   Lock returns an error after a second. The client is back within its session of 10 s, so
#         the node stays, and the client's next Lock waits behind it, as every other client's does.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
build github.com/go-zookeeper/zk@v1.0.4 <<'GO'
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// relay passes connections on to the server. Armed, it passes the next request that names the node on,
// drops the connection without its reply, and refuses others for three seconds.
type relay struct {
	server string
	armed  atomic.Bool
	closed atomic.Int64 // until then, in Unix milliseconds
}

func (r *relay) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		if time.Now().UnixMilli() < r.closed.Load() {
			client.Close()
			continue
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer client.Close()
			defer server.Close()
			for frame := range frames(client) {
				lost := len(frame) > 12 && binary.BigEndian.Uint32(frame[8:]) == 1 && r.armed.CompareAndSwap(true, false)
				if lost {
					r.closed.Store(time.Now().Add(3 * time.Second).UnixMilli())
					client.Close()
				}
				if _, err := server.Write(frame); err != nil {
					return
				}
				if lost {
					time.Sleep(time.Second) // the server does what it was asked
					return
				}
			}
		}()
		go func() {
			defer client.Close()
			io.Copy(client, server)
		}()
	}
}

// frames yields what a client sends, message by message, each with its length.
func frames(c net.Conn) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for {
			head := make([]byte, 4)
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			frame := append(head, make([]byte, binary.BigEndian.Uint32(head))...)
			if _, err := io.ReadFull(c, frame[4:]); err != nil || !yield(frame) {
				return
			}
		}
	}
}

func connect(addr string, timeout time.Duration) *zk.Conn {
	z, _, err := zk.Connect([]string{addr}, timeout, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		log.Fatal(err)
	}
	return z
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func main() {
	r := &relay{server: os.Args[1]}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go r.serve(l)
	other := connect(r.server, 10*time.Second)
	acl := zk.WorldACL(zk.PermAll)
	if _, err := other.Create("/lock", nil, 0, acl); err != nil {
		log.Fatal(err)
	}
	nodes := func() int {
		names, _, err := other.Children("/lock")
		if err != nil {
			log.Fatal(err)
		}
		return len(names)
	}
	z := connect(l.Addr().String(), 10*time.Second)
	if _, _, err := z.Exists("/lock"); err != nil {
		log.Fatal(err)
	}
	session := z.SessionID()
	r.armed.Store(true)
	err = zk.NewLock(z, "/lock", acl).Lock()
	fmt.Println("Lock:", err, "- nodes:", nodes())
	for {
		if _, _, err := z.Exists("/lock"); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Println("connected again, in the same session:", z.SessionID() == session)
	again := make(chan error, 1)
	go func() { again <- zk.NewLock(z, "/lock", acl).Lock() }()
	select {
	case err := <-again:
		fmt.Println("next Lock:", err)
	case <-time.After(25 * time.Second):
		fmt.Println("next Lock: waits for more than two session timeouts - nodes:", nodes())
	}
	z.Close()
}
GO
configure
start
expect 'Lock: zk: could not connect to a server - nodes: 1
connected again, in the same session: true
next Lock: waits for more than two session timeouts - nodes: 2' "$("$work/program" "127.0.0.1:$port")"
