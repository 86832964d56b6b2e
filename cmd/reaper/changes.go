package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

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

// changes reports changes of a file's contents: by a write in place, by the rename of another file
// to its name, or by a changed link on its path, as in Kubernetes. It also reports a file that cannot be
// read any more, once.
type changes struct {
	C     chan struct{}
	file  string
	every time.Duration // interval of reads without an event
	told  bool          // it was reported that the file cannot be read

	mu   sync.Mutex
	seen [sha256.Size]byte // hash of the contents at the last read; zero if the read failed
}

// newChanges returns the changes of the file from now on.
func newChanges(file string) *changes {
	c := &changes{file: file, every: looking, C: make(chan struct{}, 1)}
	c.look()
	return c
}

// settling is the time from an event to the read: before, the file may be half written. looking is
// the interval of reads without an event, because not all file systems send events.
const (
	settling = 250 * time.Millisecond
	looking  = time.Minute
)

// follow reports changes on C until ctx ends.
func (c *changes) follow(ctx context.Context, log zerolog.Logger) {
	var events chan fsnotify.Event
	var errs chan error
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn().Err(err).Msg("changes of the configuration file are noticed only after a minute")
	} else {
		defer watcher.Close()
		events, errs = watcher.Events, watcher.Errors
	}
	again := time.NewTicker(c.every)
	defer again.Stop()
	settled := time.After(settling) // a change before the watch begins has no event
	for {
		c.watch(watcher)
		event := false
		select {
		case <-events:
			event = true
		case <-errs: // events were lost
			event = true
		case <-settled:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if event {
			if settled == nil { // later events must not delay the read: a busy folder always has some
				settled = time.After(settling)
			}
			continue
		}
		changed, err := c.look()
		changed = c.alarm(err, settled != nil) || changed
		settled = nil
		if changed {
			select {
			case c.C <- struct{}{}:
			default: // an earlier report has not been received yet: one is enough
			}
		}
	}
}

// alarm reports whether to report err, the error of a read: once in a row of errors, and not right after
// an event, when the file may be about to be replaced.
func (c *changes) alarm(err error, event bool) bool {
	tell := err != nil && !event && !c.told
	c.told = err != nil && (c.told || tell)
	return tell
}

// watch watches the folders in which the file, or the target of its links, can be replaced. Call it
// repeatedly, because links change.
func (c *changes) watch(w *fsnotify.Watcher) {
	if w == nil {
		return
	}
	folders := map[string]bool{filepath.Dir(c.file): true}
	if real, err := filepath.EvalSymlinks(c.file); err == nil {
		folders[filepath.Dir(real)] = true
	}
	for _, folder := range w.WatchList() {
		if !folders[folder] {
			_ = w.Remove(folder) // fails if the folder was deleted, which ends its watch too
		}
		delete(folders, folder)
	}
	for folder := range folders {
		_ = w.Add(folder) // if it fails, the file is still read each minute
	}
}

// look reads the file, and reports whether its contents have changed since the last call. A reload
// calls look too. So if a refused file gets its earlier contents again, that counts as a change.
func (c *changes) look() (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.seen
	c.seen = [sha256.Size]byte{}
	info, err := os.Stat(c.file)
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s: must be a regular file, as it was at the start", c.file) // the read of a pipe would not return
	}
	f, err := os.Open(c.file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return false, err
	}
	c.seen = [sha256.Size]byte(hash.Sum(nil))
	return c.seen != before, nil
}
