package revoke

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// A Listener receives the requests for one handle of a hold. Tell must not block.
type Listener interface{ Tell(Request) }

// watchedEntry is an entry of this client whose release other clients can request.
type watchedEntry struct {
	path      string
	listeners map[any]Listener // the listener of each handle
	seen      int64            // Czxid of the last request that was read; 0: none
	reads     <-chan zk.Event  // watch of the last read; nil: none
	last      Request          // last request that was delivered; zero: none
	ended     bool             // the entry has ended: a request found later is deleted
}

// ended is an entry that has ended, and the time of its end.
type ended struct {
	id    string
	entry *watchedEntry
	at    time.Time
}

// rememberEnded is the least time for which Requests remembers an ended entry: a request that was
// made before the entry's end may appear in the list later.
const rememberEnded = 10 * time.Second

// listAgainAfter is the pause after which run lists again when a list or a read has failed, for
// example because an ACL forbids it.
const listAgainAfter = time.Minute

// Listen returns the listener of a handle on the hold of the entry with that path. The first call for
// a handle makes the listener with open. A request that exists already is delivered, too. The client's
// first call starts the goroutine that watches the requests.
func (b *Requests) Listen(path string, handle any, open func() Listener) Listener {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := nodeOf(path)
	w := b.watched[id]
	if w == nil || w.ended {
		w = &watchedEntry{path: path, listeners: map[any]Listener{}}
		b.watched[id] = w
	}
	listener, known := w.listeners[handle]
	if known {
		return listener
	}
	listener = open()
	w.listeners[handle] = listener
	switch {
	case w.last.Stat != nil:
		listener.Tell(w.last)
	case !b.used.Swap(true):
		b.Tasks.Go(b.run)
	default:
		b.nudge()
	}
	return listener
}

// Forget forgets a handle: its listener receives no further requests. It reports whether a request for
// the hold was ever delivered.
func (b *Requests) Forget(path string, handle any) (asked bool) {
	if !b.used.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.watched[nodeOf(path)]
	if w == nil {
		return false
	}
	delete(w.listeners, handle)
	return w.last.Stat != nil
}

// Ended must be called when an entry has ended for this client. It deletes a request to the entry, in
// the background, once the node has gone. If handedOn is set, the entry was detached, and the
// request stays for the next owner.
func (b *Requests) Ended(path string, handedOn bool) {
	if !b.used.Load() {
		return
	}
	now, id := time.Now(), nodeOf(path)
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.over) > 0 && now.Sub(b.over[0].at) > rememberEnded {
		if old := b.over[0]; b.watched[old.id] == old.entry {
			delete(b.watched, old.id)
		}
		b.over = b.over[1:]
	}
	w := b.watched[id]
	switch {
	case w == nil || w.ended:
	case handedOn:
		delete(b.watched, id)
	case w.seen != 0:
		delete(b.watched, id)
		b.clearSoon(id)
	default:
		w.ended, w.listeners = true, nil
		b.over = append(b.over, ended{id, w, now})
	}
}

// Watched returns the number of remembered entries. An entry that has ended may be remembered until
// another entry ends.
func (b *Requests) Watched() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.watched)
}

func (b *Requests) nudge() {
	select {
	case b.wake <- struct{}{}:
	default: // a token is there already
	}
}

// run watches the list of the requests, and delivers new ones, until the client closes.
func (b *Requests) run() {
	var ids []string
	var changed <-chan zk.Event // watch on the list in ids; nil: there is no list
	var told time.Time          // time of the last log line about lost requests
	stale := true               // the list may have changed, or not all listed requests were read
	for {
		var err error
		if stale {
			ids, changed, err = b.list(b.Closing)
		}
		if err == nil {
			err = b.tell(b.Closing, ids, stale)
		}
		var again <-chan time.Time
		wake := b.wake
		if errors.Is(err, zkconn.ErrClosed) {
			return
		}
		if stale = err != nil; stale && b.Closing.Err() == nil {
			if time.Since(told) >= listAgainAfter {
				told = time.Now()
				b.Log.Error().Err(err).Stringer("again_in", listAgainAfter).Msg("holds may not learn of requests to release them")
			}
			// Without a list, a new handle need not wake run: the next list has its request, too.
			if again = time.After(listAgainAfter); changed == nil {
				wake = nil
			}
		}
		select {
		case <-changed:
			stale = true
		case <-again:
		case <-wake:
		case <-b.Closing.Done():
			return
		}
	}
}

// list lists the requests, and returns a watch on the list. The watch also fires after each outage,
// in which a change may have been missed.
func (b *Requests) list(ctx context.Context) (ids []string, changed <-chan zk.Event, err error) {
	err = b.Conn.Retry(ctx, zkconn.DefaultBackoff, func() (err error) {
		ids, _, changed, err = b.Conn.WatchChildren(ctx, path(b.Root, ""))
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		return b.createParent(ctx, err)
	})
	return ids, changed, err
}

// tell reads the listed requests to entries of this client, and delivers new ones. It does not read a
// request again that has not changed since, as the watch of the last read shows. Unless anew is set, it
// only reads requests to entries for which it has not read a request yet.
func (b *Requests) tell(ctx context.Context, ids []string, anew bool) (err error) {
	var due []*watchedEntry
	for _, id := range ids {
		b.mu.Lock()
		w := b.watched[id]
		late, read := w != nil && w.ended, w != nil && w.seen != 0
		// A server sends an event before it shows the change. A borrowed connection may pass it on later.
		changed := read && anew && (!b.Conn.Owned() || zkconn.Fired(w.reads))
		if late {
			delete(b.watched, id)
		}
		b.mu.Unlock()
		switch {
		case late:
			b.clearSoon(id)
		case w != nil && (!read || changed):
			due = append(due, w)
		}
	}
	tellOne := func(w *watchedEntry) (struct{}, error) { return struct{}{}, b.tellOne(ctx, nodeOf(w.path), w) }
	for r := range zkconn.ReadEach(due, tellOne) {
		err = errors.Join(err, r.Err)
	}
	return err
}

func (b *Requests) tellOne(ctx context.Context, id string, w *watchedEntry) error {
	n, reads, err := b.Conn.Watch(ctx, path(b.Root, id))
	b.mu.Lock()
	if w.reads = reads; err != nil {
		w.reads = unknown // read it again
	}
	b.mu.Unlock()
	if errors.Is(err, zk.ErrNoNode) {
		return nil // the watch on the list fires for that change
	}
	if err != nil {
		return err
	}
	r := Request{Stat: n.Stat}
	r.Revocation, r.Err = znode.DecodeRevocation(id, n.Data)
	if r.Err == nil && b.Root+"/"+r.Entry != w.path {
		r.Err = errors.New("it names another entry")
	}
	if b.take(id, w, r) && r.Err != nil {
		b.Log.Warn().Err(r.Err).Str("request", path(b.Root, id)).Msg("a request to give up a lock cannot be understood, and is not told")
	}
	return nil
}

// take delivers r to the entry's listeners, unless r could not be decoded or is the last request that
// was read. If the entry has ended while r was read, take deletes r: Ended did not, because no request
// was known. take reports whether r is new, even if r could not be decoded.
func (b *Requests) take(id string, w *watchedEntry, r Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.seen == r.Stat.Czxid {
		return false
	}
	if w.ended {
		b.clearSoon(id)
	}
	if w.seen = r.Stat.Czxid; r.Err == nil {
		w.last = r
		for _, listener := range w.listeners {
			listener.Tell(r)
		}
	}
	return true
}

// unknown is the watch of a request that must be read again: it has fired.
var unknown = func() <-chan zk.Event {
	fired := make(chan zk.Event)
	close(fired)
	return fired
}()

// nodeOf returns the name of the entry with that path, which is also the name of its request.
func nodeOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
