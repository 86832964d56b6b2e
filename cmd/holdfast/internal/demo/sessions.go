package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// expireSessions has the server end the holder's session while it works.
func (d *demo) expireSessions(ctx context.Context) error {
	d.begin("b", "The server ends the holder's session while it works")
	if err := d.expireUnderZkLock(ctx); err != nil {
		return err
	}
	return d.expireUnderHoldfast(ctx)
}

func (d *demo) expireUnderZkLock(ctx context.Context) error {
	first, err := d.worker("the first", "zk.Lock")
	if err != nil {
		return err
	}
	second, err := d.worker("the second", "zk.Lock")
	if err != nil {
		return err
	}
	session, err := first.session(ctx, session{})
	if err != nil {
		return err
	}
	if _, err := first.tell(ctx, "lock", "in"); err != nil {
		return err
	}
	if err := second.order("lock"); err != nil {
		return err
	}
	if err := await(ctx, "two wait for zk.Lock", func() (bool, error) {
		children, _, err := d.tree.Children(ctx, d.Base.zkLock())
		return len(children) == 2, err
	}); err != nil {
		return err
	}
	d.say("zk.Lock of go-zookeeper: the first has the lock and works, the second waits.")
	if err := session.expire(ctx); err != nil {
		return err
	}
	d.say("The server has ended the first one's session %#x and does not know it any more.", session.id)

	watching, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	intruders := 0
	line, err := second.overhear(watching)
	if err != nil {
		return err
	}
	if line != "" {
		intruders++
		d.say("The second has the lock too, while the first still works: zk.Lock has told it nothing.")
	}
	if _, err := first.session(ctx, session); err != nil {
		return err
	}
	out, err := first.tell(ctx, "unlock", "out")
	if err != nil {
		return err
	}
	d.say("When the first is done, on a new session, it hears from Unlock: %s.", out)
	d.judge("zk.Lock: others let in while the holder works", "1", strconv.Itoa(intruders), intruders == 1)
	return nil
}

func (d *demo) expireUnderHoldfast(ctx context.Context) error {
	// Two thirds of the TTL, the least that is left between renewals, are longer
	// than it takes a client to notice in the worst case that its session is gone
	// (two thirds of its timeout) and to connect again, after pauses of a second:
	// once to be told so, and once for a new session; and twice as long.
	const name, ttl, grace = "orders/b", 15 * time.Second, 500 * time.Millisecond
	first, second, err := d.pair(ctx, name, ttl, grace)
	if err != nil {
		return err
	}
	old, err := first.session(ctx, session{})
	if err != nil {
		return err
	}
	d.say("Holdfast, with a TTL of %v: the first has the lock and works, the second waits.", ttl)
	if err := old.expire(ctx); err != nil {
		return err
	}
	expired := time.Now()
	d.say("The server has ended the first one's session %#x and does not know it any more.", old.id)
	session, err := first.session(ctx, old)
	if err != nil {
		return err
	}
	check, err := first.tell(ctx, "check", "valid")
	if err != nil {
		return err
	}
	d.say("The first has a new session, %#x. Is its hold valid? %s.", session.id, check)

	alone, err := d.staysAlone(ctx, second, expired, ttl+grace)
	if err != nil {
		return err
	}
	if err := d.carryOn(ctx, first); err != nil {
		return err
	}
	if alone {
		if _, err := second.hear(ctx, "in"); err != nil {
			return err
		}
		d.say("Now the second has the lock.")
	}
	_, err = second.tell(ctx, "unlock", "out")
	return err
}

// staysAlone judges whether the second stays out until more than that time has passed since
// the first one's session expired.
func (d *demo) staysAlone(ctx context.Context, second *process, expired time.Time, blocked time.Duration) (alone bool, err error) {
	watching, cancel := context.WithDeadline(ctx, expired.Add(blocked+time.Second))
	defer cancel()
	intruders := 0
	line, err := second.overhear(watching)
	switch {
	case err != nil:
		return false, err
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case line != "":
		intruders++
		d.say("The second has the lock too.")
	default:
		d.say("%v after the end of the session, more than the TTL and the grace: no other client has the lock.", tenths(time.Since(expired)))
	}
	d.judge("Holdfast: others let in while the holder works", "0", strconv.Itoa(intruders), intruders == 0)
	return intruders == 0, nil
}

// carryOn judges whether the first one's hold is valid still, and has it unlock.
func (d *demo) carryOn(ctx context.Context, first *process) error {
	check, err := first.tell(ctx, "check", "valid")
	if err != nil {
		return err
	}
	out, err := first.tell(ctx, "unlock", "out")
	if err != nil {
		return err
	}
	d.say("Is the first one's hold valid? %s. It hears from Unlock: %s.", check, out)
	carriesOn, seen := strings.HasPrefix(check, "yes") && out == "ok", "lost"
	if carriesOn {
		seen = "valid, ok"
	}
	d.judge("Holdfast: the holder carries on, and unlocks", "valid, ok", seen, carriesOn)
	return nil
}

// pair returns two workers of which one has a lock of ours, and the other waits.
func (d *demo) pair(ctx context.Context, name string, ttl, grace time.Duration) (first, second *process, err error) {
	if first, err = d.contender("the first", name, ttl, grace); err != nil {
		return nil, nil, err
	}
	if second, err = d.contender("the second", name, ttl, grace); err != nil {
		return nil, nil, err
	}
	if _, err := first.tell(ctx, "lock", "in"); err != nil {
		return nil, nil, err
	}
	if err := second.order("lock"); err != nil {
		return nil, nil, err
	}
	_, err = d.contenders(ctx, name, 2)
	return first, second, err
}

func (d *demo) contender(who, name string, ttl, grace time.Duration) (*process, error) {
	return d.worker(who, "holdfast", name, fmt.Sprint(ttl), fmt.Sprint(grace))
}
