package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/config"
)

// keys are changed keys of a configuration.
type keys []string

// add adds a key if its values differ, and reports whether they do.
func (k *keys) add(key string, old, next any) bool {
	if reflect.DeepEqual(old, next) {
		return false
	}
	*k = append(*k, key)
	return true
}

// changedTogether returns the changed keys that all roots share and that need a restart.
func changedTogether(old, next *config.Config) (changed keys) {
	changed.add("log", old.Log, next.Log)
	changed.add("reaper.listen, hosts or show_metadata", old.Status, next.Status)
	return changed
}

// changedForGood returns the changed keys of a root that need a restart. elsewhere means that the
// root's node or servers have changed, so that the root has other locks.
func changedForGood(old, next *config.Config) (changed keys, elsewhere bool) {
	a, b := old.ZooKeeper, next.ZooKeeper
	elsewhere = changed.add("zookeeper.servers", a.Servers, b.Servers)
	elsewhere = changed.add("root", old.Root, next.Root) || elsewhere
	changed.add("zookeeper.session_timeout", a.SessionTimeout, b.SessionTimeout)
	changed.add("zookeeper.auth", a.Auth, b.Auth)
	changed.add("zookeeper.sasl", a.SASL, b.SASL)
	a.Servers, a.SessionTimeout, a.Auth, a.SASL = b.Servers, b.SessionTimeout, b.Auth, b.SASL
	changed.add("zookeeper", a, b)
	changed.add("reaper.lock", old.Reaper.Lock, next.Reaper.Lock)
	return changed, elsewhere
}

// changes reports changes of a file's contents: by a write in place, by the rename of another file to
// its name, or by a changed link on its path, as in Kubernetes. It also reports a file that cannot be
// read any more, once. It reads the file again and again, because not all file systems tell of changes.
type changes struct {
	C     chan struct{}
	file  string
	every time.Duration // interval of reads

	last hash // of the read before

	mu   sync.Mutex
	seen hash // of the contents that were reported, or looked at by a reload
}

// hash is that of a file's contents; zero if the file cannot be read.
type hash [sha256.Size]byte

// newChanges returns the changes of the file from now on.
func newChanges(file string) *changes {
	c := &changes{file: file, every: time.Second, C: make(chan struct{}, 1)}
	_ = c.look() // the first load reports an error
	c.last = c.seen
	return c
}

// follow reports changes on C until ctx ends.
func (c *changes) follow(ctx context.Context) {
	again := time.NewTicker(c.every)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if now, _ := read(c.file); c.changed(now) {
			select {
			case c.C <- struct{}{}:
			default: // an earlier report has not been received yet: one is enough
			}
		}
	}
}

// changed reports whether to report the hash of a read: if it differs from what was seen, and two reads
// in a row have it. After one the file may be half written, or about to be replaced.
func (c *changes) changed(now hash) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	settled := now == c.last
	c.last = now
	if !settled || now == c.seen {
		return false
	}
	c.seen = now
	return true
}

// look reads the file for a reload. So if a refused file gets its earlier contents again, that counts
// as a change.
func (c *changes) look() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	c.seen, err = read(c.file)
	return err
}

// read returns the hash of a file.
func read(file string) (h hash, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return h, err
	}
	if !info.Mode().IsRegular() {
		return h, fmt.Errorf("%s: must be a regular file, as it was at the start", file) // the read of a pipe would not return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return h, err
	}
	return sha256.Sum256(text), nil
}
