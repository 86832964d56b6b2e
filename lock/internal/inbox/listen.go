package inbox

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// An Ear receives the requests for one handle of a hold. Tell must not block.
type Ear interface{ Tell(Request) }

// ward is an entry of this client whose release other clients can request.
type ward struct {
	path  string
	ears  map[any]Ear     // the ear of each handle
	seen  int64           // Czxid of the last request that was read; 0: none
	reads <-chan zk.Event // watch of the last read; nil: none
	last  Request         // last request that was delivered; zero: none
	ended bool            // the entry has ended: a request found later is deleted
}

// ended is a ward that has ended, and the time of its end.
type ended struct {
	id   string
	ward *ward
	at   time.Time
}

// rememberEnded is the least time for which the inbox remembers an ended entry: a request that was
// made before the entry's end may appear in the list later.
const rememberEnded = 10 * time.Second

// listAgainAfter is the pause after which run lists again when a list or a read has failed, for
// example because an ACL forbids it.
const listAgainAfter = time.Minute

// Listen returns the ear of a handle on the hold of the entry with that path. The first call for
// a handle makes the ear with open. A request that exists already is delivered, too. The client's
// first call starts the goroutine that watches the requests.
func (b *Inbox) Listen(path string, handle any, open func() Ear) Ear {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := nodeOf(path)
	w := b.wards[id]
	if w == nil || w.ended {
		w = &ward{path: path, ears: map[any]Ear{}}
		b.wards[id] = w
	}
	ear, known := w.ears[handle]
	if known {
		return ear
	}
	ear = open()
	w.ears[handle] = ear
	switch {
	case w.last.Stat != nil:
		ear.Tell(w.last)
	case !b.used.Swap(true):
		b.Tasks.Go(b.run)
	default:
		b.nudge()
	}
	return ear
}

// Forget forgets a handle: its ear receives no further requests. It reports whether a request for
// the hold was ever delivered.
func (b *Inbox) Forget(path string, handle any) (asked bool) {
	if !b.used.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.wards[nodeOf(path)]
	if w == nil {
		return false
	}
	delete(w.ears, handle)
	return w.last.Stat != nil
}

// Ended must be called when an entry has ended for this client. It deletes a request to the entry, in
// the background, once the node has gone. If handedOn is set, the entry was detached, and the
// request stays for the next owner.
func (b *Inbox) Ended(path string, handedOn bool) {
	if !b.used.Load() {
		return
	}
	now, id := time.Now(), nodeOf(path)
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.over) > 0 && now.Sub(b.over[0].at) > rememberEnded {
		if old := b.over[0]; b.wards[old.id] == old.ward {
			delete(b.wards, old.id)
		}
		b.over = b.over[1:]
	}
	w := b.wards[id]
	switch {
	case w == nil || w.ended:
	case handedOn:
		delete(b.wards, id)
	case w.seen != 0:
		delete(b.wards, id)
		b.clearSoon(id)
	default:
		w.ended, w.ears = true, nil
		b.over = append(b.over, ended{id, w, now})
	}
}

// Wards returns the number of remembered entries. An entry that has ended may be remembered until
// another entry ends.
func (b *Inbox) Wards() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.wards)
}

func (b *Inbox) nudge() {
	select {
	case b.wake <- struct{}{}:
	default: // a token is there already
	}
}

// run watches the list of the requests, and delivers new ones, until the client closes.
func (b *Inbox) run() {
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
func (b *Inbox) list(ctx context.Context) (ids []string, changed <-chan zk.Event, err error) {
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
func (b *Inbox) tell(ctx context.Context, ids []string, anew bool) (err error) {
	for _, id := range ids {
		b.mu.Lock()
		w := b.wards[id]
		stray, read := w != nil && w.ended, w != nil && w.seen != 0
		// A server sends an event before it shows the change. A borrowed connection may pass it on later.
		changed := read && anew && (!b.Conn.Owned() || zkconn.Fired(w.reads))
		if stray {
			delete(b.wards, id)
		}
		b.mu.Unlock()
		switch {
		case stray:
			b.clearSoon(id)
		case w != nil && (!read || changed):
			err = errors.Join(err, b.tellOne(ctx, id, w))
		}
	}
	return err
}

func (b *Inbox) tellOne(ctx context.Context, id string, w *ward) error {
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

// take delivers r to the ward's ears, unless r could not be decoded or is the last request that was
// read. If the entry has ended while r was read, take deletes r: Ended did not, because no request was
// known. take reports whether r is new, even if r could not be decoded.
func (b *Inbox) take(id string, w *ward, r Request) bool {
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
		for _, ear := range w.ears {
			ear.Tell(r)
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
