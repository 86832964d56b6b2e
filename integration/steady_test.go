package integration_test

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// steady is a connection without package lock whose requests survive the loss of a server.
// go-zookeeper itself fails pending requests when a connection ends, and waiting requests at the
// first refused reconnect. Create and Multi are not repeated after a request that the server may
// have applied.
type steady struct {
	*zk.Conn
	ctx context.Context // limit of all retries
}

// again repeats a request until the request succeeds, fails for another reason than a lost
// connection, or fails with an error of unless. It also returns when s.ctx ends.
func (s steady) again(request func() error, unless ...error) {
	for s.ctx.Err() == nil {
		err := request() // waits while there is no server
		if err == nil || !isAny(err, zk.ErrNoServer, zk.ErrSessionExpired, zk.ErrConnectionClosed) || isAny(err, unless...) {
			return
		}
	}
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

func (s steady) AddAuth(scheme string, auth []byte) (err error) {
	s.again(func() error { err = s.Conn.AddAuth(scheme, auth); return err })
	return err
}

func (s steady) Get(path string) (data []byte, stat *zk.Stat, err error) {
	s.again(func() error { data, stat, err = s.Conn.Get(path); return err })
	return data, stat, err
}

func (s steady) Exists(path string) (exists bool, stat *zk.Stat, err error) {
	s.again(func() error { exists, stat, err = s.Conn.Exists(path); return err })
	return exists, stat, err
}

func (s steady) Children(path string) (children []string, stat *zk.Stat, err error) {
	s.again(func() error { children, stat, err = s.Conn.Children(path); return err })
	return children, stat, err
}

func (s steady) Sync(path string) (synced string, err error) {
	s.again(func() error { synced, err = s.Conn.Sync(path); return err })
	return synced, err
}

func (s steady) Delete(path string, version int32) error {
	var tries int
	var err error
	s.again(func() error { tries++; err = s.Conn.Delete(path, version); return err })
	if tries > 1 && errors.Is(err, zk.ErrNoNode) { // an earlier try has deleted the node
		return nil
	}
	return err
}

// Ensure creates a node. It is no error if the node exists, because an earlier try may have created
// it.
func (s steady) Ensure(path string, data []byte, acl []zk.ACL) (err error) {
	s.again(func() error { _, err = s.Conn.Create(path, data, 0, acl); return err })
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Write sets the data of a node, whatever its version. It may write twice.
func (s steady) Write(path string, data []byte) (err error) {
	s.again(func() error { _, err = s.Conn.Set(path, data, -1); return err })
	return err
}

// Restrict sets the ACL of a node, whatever its version. It may set the ACL twice.
func (s steady) Restrict(path string, acl []zk.ACL) (err error) {
	s.again(func() error { _, err = s.Conn.SetACL(path, acl, -1); return err })
	return err
}

func (s steady) Create(path string, data []byte, flags int32, acl []zk.ACL) (made string, err error) {
	s.again(func() error { made, err = s.Conn.Create(path, data, flags, acl); return err }, zk.ErrConnectionClosed)
	return made, err
}

// dialAnswered is a [zk.Dialer]. It closes a connection if the server sends nothing within ten
// seconds. A busy or starting server may accept a connection and never serve it. go-zookeeper would
// wait for ten session timeouts.
func dialAnswered(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	// wall clock: a busy server that never answers makes no event
	return &answered{conn, time.AfterFunc(10*time.Second, func() { conn.Close() })}, nil
}

type answered struct {
	net.Conn
	giveUp *time.Timer
}

func (c *answered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.giveUp.Stop()
	}
	return n, err
}

// Multi sends a transaction. It repeats only transactions that the server has not received.
func (s steady) Multi(ops ...any) (res []zk.MultiResponse, err error) {
	s.again(func() error { res, err = s.Conn.Multi(ops...); return err }, zk.ErrConnectionClosed)
	return res, err
}
