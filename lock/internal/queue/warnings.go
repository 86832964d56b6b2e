package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// What keeps an entry in the way longer than by its lease: a waiter warns of it, and its final error
// names it.

// stays is the warning of an entry of another library.
const stays = "another library's entry stays ahead"

// warn logs a warning about the entries at the path, once while this client uses the lock. s is the
// contender in the way, if it is known; err may be nil.
func (v *view) warn(path string, s *sighting, err error, warning string) {
	trouble := errors.New(warning)
	if err != nil {
		trouble = fmt.Errorf("%s: %w", warning, err)
	}
	v.setTrouble(s, trouble)
	if v.lock.warnOnce(warning) {
		v.Log.Warn().Str("lock", v.Lock).Str("ahead", path).Err(err).Msg(warning)
	}
}

// warnDenied warns of a purge of those entries that was denied.
func (w *waiter) warnDenied(dead []*sighting, err error) {
	var first *sighting
	if len(dead) > 0 {
		first = dead[0]
	}
	w.warn(w.parent, first, err, "expired entries ahead cannot be deleted; waiting until another client does")
}

func (v *view) setTrouble(s *sighting, trouble error) {
	if v.trouble = trouble; s != nil {
		v.blocker(v.blocked(s))
	}
}

// clear ends the trouble if the entry that was read is no sign of one.
func (v *view) clear(s *sighting) {
	if v.trouble != nil && !s.expired {
		v.trouble = nil
		v.blocker(v.blocked(s))
	}
}

// warnOfForeign warns of an entry of another library that has been ahead for the request's TTL and
// grace: no lease ends it. It returns the time until then; negative: it has warned, or the entry is ours.
func (v *view) warnOfForeign(s *sighting) time.Duration {
	if s.entry.Ours() {
		return -1
	}
	late := v.Terms.TTL + v.Terms.Grace - (v.Clock.Mono() - s.since)
	if late > 0 {
		return late
	}
	session, todo := "none", "without a session it never goes by itself: delete it if no client uses it"
	if id := s.entry.Stat.EphemeralOwner; id != 0 {
		session = fmt.Sprintf("0x%x", uint64(id))
		todo = "it goes when its client deletes it, or with session " + session
	}
	v.setTrouble(s, errors.New(stays+": "+todo))
	if v.lock.warnOnce(stays) {
		w := v.Log.Warn().Str("lock", v.Lock).Str("ahead", v.path(s.entry.Name)).Str("session", session)
		if now := v.Clock.Now(); now.Zxid != 0 {
			w = w.Stringer("age", (now.Upper - time.Duration(s.entry.Stat.Ctime)*time.Millisecond).Round(time.Second))
		}
		w.Msg(stays + ": " + todo)
	}
	return -1
}

// checkHolders clears the trouble, or warns, by what the first waiter has read of the holders ahead.
func (w *waiter) checkHolders() {
	w.trouble = nil
	for _, n := range w.holders.names {
		if s := w.known[n.Node]; s != nil && s.entry.Stat != (znode.Stat{}) {
			w.warnOfForeign(s)
		}
	}
}
