package demo

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// expireSessions is chapter b: the server ends the holder's session while the holder works, first with
// zk.Lock and then with Holdfast.
func (d *demo) expireSessions(ctx context.Context) {
	d.begin("b", "The server ends the holder's session while it works")
	d.expireUnderZkLock(ctx)
	d.expireUnderHoldfast(ctx)
}

func (d *demo) expireUnderZkLock(ctx context.Context) {
	queue := d.queueUp(ctx, d.base.zkLock(), []string{"zk.Lock"}, "the first", "the second")
	first, second := queue[0], queue[1]
	d.say("zk.Lock of go-zookeeper: the first has the lock and works, the second waits.")
	d.expire(ctx, first)
	if d.intrudes(ctx, "zk.Lock", second, time.Now().Add(10*time.Second), 1) {
		d.say("The second has the lock too, while the first still works: zk.Lock has told it nothing.")
	}
	first.tell(ctx, "renew", "session")
	d.say("When the first is done, on a new session, it hears from Unlock: %s.", first.tell(ctx, "unlock", "out"))
}

func (d *demo) expireUnderHoldfast(ctx context.Context) {
	// Right before a renewal, two thirds of the TTL are left: 10 s. At worst a client needs half of
	// that: two thirds of the session timeout until the connection counts as dead, and a pause of a
	// second before each of two connections, one to learn that the session has ended and one for
	// the new session.
	const ttl, grace = 15 * time.Second, 500 * time.Millisecond
	queue := d.queueUpHoldfast(ctx, "orders/b", ttl, grace, "the first", "the second")
	first, second := queue[0], queue[1]
	d.say("Holdfast, with a TTL of %v: the first has the lock and works, the second waits.", ttl)
	d.expire(ctx, first)
	expired := time.Now()
	d.say("The first has a new session, %s. Is its hold valid? %s.", first.tell(ctx, "renew", "session"), first.tell(ctx, "check", "valid"))

	d.say("Now the demo waits %v, longer than the TTL and the grace.", ttl+grace+time.Second)
	intruded := d.intrudes(ctx, "Holdfast", second, expired.Add(ttl+grace+time.Second), 0)
	if intruded {
		d.say("The second has the lock too.")
	} else {
		d.say("%v after the end of the session, more than the TTL and the grace: no other client has the lock.", tenths(time.Since(expired)))
	}
	valid, out := first.tell(ctx, "check", "valid"), first.tell(ctx, "unlock", "out")
	d.say("Is the first one's hold valid? %s. It hears from Unlock: %s.", valid, out)
	carriesOn, seen := strings.HasPrefix(valid, "yes") && out == "ok", "lost"
	if carriesOn {
		seen = "valid, ok"
	}
	d.judge("Holdfast: the holder carries on, and unlocks", "valid, ok", seen, carriesOn)
	if !intruded {
		second.hear(ctx, "in")
		d.say("Now the second has the lock.")
	}
	second.tell(ctx, "unlock", "out")
}

// expire makes the server end the session of w, and prints the session's id.
func (d *demo) expire(ctx context.Context, w *process) {
	d.say("The server has ended %s one's session %s and does not know it any more.", w.name, w.tell(ctx, "expire", "expired"))
}

// intrudes reports whether the waiting worker gets the lock before the time until, while the holder
// still works. It records the verdict; expected is the number of workers that should get the lock, 0
// or 1. what names the kind of lock.
func (d *demo) intrudes(ctx context.Context, what string, waiting *process, until time.Time, expected int) bool {
	watching, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	intruders := 0
	if waiting.overhear(watching) != "" {
		intruders++
	}
	check(context.Cause(ctx))
	d.judge(what+": others let in while the holder works", strconv.Itoa(expected), strconv.Itoa(intruders), intruders == expected)
	return intruders > 0
}
