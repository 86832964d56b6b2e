package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// Times of the chapters with crashes.
const (
	shortTTL   = 10 * time.Second // so long that live workers keep their leases on a busy machine
	shortGrace = 500 * time.Millisecond
	slack      = 5 * time.Second // extra time for a loaded machine
)

// killHolder is chapter c: the holder is killed, and the next waiter enters after TTL and grace.
func (d *demo) killHolder(ctx context.Context) {
	d.begin("c", "A holder is killed while others wait")
	const name = "orders/c"
	queue := d.queueUpHoldfast(ctx, name, shortTTL, shortGrace, "the first", "the second", "the third")
	d.say("With a TTL of %v and a grace of %v: the first has the lock, two wait.", shortTTL, shortGrace)

	queue[0].kill()
	killed := time.Now()
	state, err := d.tree.Inspect(ctx, name)
	check(err)
	entries := state.Contenders
	if len(entries) != len(queue) {
		check(fmt.Errorf("%d of %d entries are left of %s: the machine stood still for longer than the lease", len(entries), len(queue), name))
	}
	dead, now := entries[0], d.now(ctx)
	d.say("SIGKILL for the first. Its entry is there still; its lease has %v left.", tenths(dead.Expires.Sub(now)))

	var text string
	var purged int
	_, err = fmt.Sscan(queue[1].hear(ctx, "in"), &text, &purged)
	blocked, after := time.Since(killed), d.now(ctx).Sub(dead.Expires)
	check(err)
	token, err := lock.ParseToken(text)
	check(err)
	d.say("The second has purged that entry and has the lock: %v after the end of the lease, %v after the kill.", tenths(after), tenths(blocked))
	d.judge("a dead holder blocks for its TTL and the grace",
		fmt.Sprintf("%v after its lease", shortGrace), fmt.Sprintf("%v after", after.Round(10*time.Millisecond)),
		after >= shortGrace && after < shortGrace+slack)
	d.judge("the next waiter purges its entry", "1 purged", fmt.Sprintf("%d purged", purged), purged == 1)
	d.judge("and has a higher fencing token", fmt.Sprintf("above %v", dead.Token), token.String(), token.Compare(dead.Token) > 0)

	queue[1].tell(ctx, "unlock", "out")
	queue[2].hear(ctx, "in")
	d.say("The second unlocks; the third has the lock, and unlocks.")
	queue[2].tell(ctx, "unlock", "out")
}

// now returns the upper bound of the present ensemble time.
func (d *demo) now(ctx context.Context) time.Time {
	now, err := d.tree.Now(ctx)
	check(err)
	return now.Latest()
}

// reaperLock is the lock that the reaper itself holds.
const reaperLock = "reaper"

// killEverybody is chapter d: the holder and the waiter are killed, and the reaper deletes their
// entries.
func (d *demo) killEverybody(ctx context.Context) {
	d.begin("d", "A holder and all waiters are killed, and no client ever comes back")
	for _, p := range d.queueUpHoldfast(ctx, "shop/berlin/orders/42", shortTTL, shortGrace, "the first", "the second") {
		p.kill()
	}
	nodes := d.left(ctx)
	d.say("SIGKILL for both. %d nodes are left, among them two entries and their lock.", len(nodes))

	dir, err := os.MkdirTemp("", "holdfast-demo-")
	check(err)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "config.yaml")
	config := fmt.Sprintf("root: %s\npolicies: [{name: demo, match: '**', ttl: %v, grace: %v, orphan_after: 1s}]\nreaper: {schedule: '@every 1s', lock: %s}\n",
		d.base.locks(), shortTTL, shortGrace, reaperLock)
	check(os.WriteFile(file, []byte(config), 0o600))
	// The flag takes precedence over the environment, which may name other servers.
	reaper := d.start("the reaper", d.Reaper, d.Reaper, "--config", file, "--servers", strings.Join(d.Servers, ","))
	d.say("The reaper is started. It sweeps every second, with an orphan_after of 1s. It waits until the leases have ended, about %v.", shortTTL+shortGrace)
	var left []string
	err = until(ctx, "the tree is swept away", func() bool {
		if reaper.ended() {
			check(reaper.end())
		}
		left = slices.DeleteFunc(d.left(ctx), func(node string) bool {
			return strings.HasPrefix(node, d.base.locks()+"/"+reaperLock)
		})
		return len(left) == 0
	})
	check(context.Cause(ctx))
	if err != nil {
		d.say("These were not swept away: %s", strings.Join(left, " "))
	} else {
		d.say("All that is swept away.")
	}
	d.judge("the reaper sweeps away what the dead left",
		fmt.Sprintf("0 of %d nodes left", len(nodes)), fmt.Sprintf("%d left", len(left)), len(left) == 0)
	reaper.stop(ctx)
	d.say("The reaper is stopped.")
}

// tenths rounds a duration to a tenth of a second.
func tenths(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
