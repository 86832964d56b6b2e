package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// TTL and grace of the locks in the chapters with crashes. Workers that are not killed
// keep their leases on a busy machine too.
const (
	shortTTL   = 10 * time.Second
	shortGrace = 500 * time.Millisecond
	slack      = 5 * time.Second // that a loaded machine may take more than it should
)

// killHolder kills a holder while others wait.
func (d *demo) killHolder(ctx context.Context) error {
	d.begin("c", "A holder is killed while others wait")
	const name = "orders/c"
	queue, err := d.queueUp(ctx, name, "the first", "the second", "the third")
	if err != nil {
		return err
	}
	d.say("With a TTL of %v and a grace of %v: the first has the lock, two wait.", shortTTL, shortGrace)

	queue[0].kill()
	killed := time.Now()
	entries, err := d.contenders(ctx, name, 3)
	if err != nil {
		return err
	}
	now, err := d.tree.Now(ctx)
	if err != nil {
		return err
	}
	dead := entries[0]
	d.say("SIGKILL for the first. Its entry is there still; its lease has %v left.", tenths(dead.Expires.Sub(now.Latest())))

	if err := d.followDead(ctx, queue[1], dead, killed); err != nil {
		return err
	}
	if _, err := queue[1].tell(ctx, "unlock", "out"); err != nil {
		return err
	}
	if _, err := queue[2].hear(ctx, "in"); err != nil {
		return err
	}
	d.say("The second unlocks; the third has the lock, and unlocks.")
	_, err = queue[2].tell(ctx, "unlock", "out")
	return err
}

// queueUp returns workers in the order in which they queue for a lock, which the first one
// has.
func (d *demo) queueUp(ctx context.Context, name string, who ...string) ([]*process, error) {
	var queue []*process
	for i, who := range who {
		w, err := d.contender(who, name, shortTTL, shortGrace)
		if err != nil {
			return nil, err
		}
		queue = append(queue, w)
		if err := w.order("lock"); err != nil {
			return nil, err
		}
		if _, err := d.contenders(ctx, name, i+1); err != nil {
			return nil, err
		}
	}
	_, err := queue[0].hear(ctx, "in")
	return queue, err
}

// followDead waits until the second has the lock of the first, which was killed then, and
// judges when, and how, it got that.
func (d *demo) followDead(ctx context.Context, second *process, dead admin.Contender, killed time.Time) error {
	in, err := second.hear(ctx, "in")
	if err != nil {
		return err
	}
	blocked := time.Since(killed)
	now, err := d.tree.Now(ctx)
	if err != nil {
		return err
	}
	var text string
	var purged int
	if _, err := fmt.Sscan(in, &text, &purged); err != nil {
		return fmt.Errorf("the second said %q: %w", in, err)
	}
	token, err := lock.ParseToken(text)
	if err != nil {
		return err
	}
	after := now.Latest().Sub(dead.Expires)
	d.say("The second has purged that entry and has the lock: %v after the end of the lease, %v after the kill.", tenths(after), tenths(blocked))
	d.judge("a dead holder blocks for its TTL and the grace",
		fmt.Sprintf("%v after its lease", shortGrace), fmt.Sprintf("%v after", after.Round(10*time.Millisecond)),
		after >= shortGrace && after < shortGrace+slack)
	d.judge("the next waiter purges its entry", "1 purged", fmt.Sprintf("%d purged", purged), purged == 1)
	d.judge("and has a higher fencing token", fmt.Sprintf("above %v", dead.Token), token.String(), token.Compare(dead.Token) > 0)
	return nil
}

// killEverybody kills a holder and all waiters, and leaves their entries to the reaper.
func (d *demo) killEverybody(ctx context.Context) error {
	d.begin("d", "A holder and all waiters are killed, and no client ever comes back")
	const name = "shop/berlin/orders/42"
	first, second, err := d.pair(ctx, name, shortTTL, shortGrace)
	if err != nil {
		return err
	}
	first.kill()
	second.kill()
	nodes, err := d.left(ctx)
	if err != nil {
		return err
	}
	d.say("SIGKILL for both. %d nodes are left: two entries, their lock, and ancestors.", len(nodes))

	reaper, remove, err := d.startReaper()
	if err != nil {
		return err
	}
	defer remove()
	d.say("The reaper is started. It sweeps every second, with an orphan_after of 1s.")
	var left []string
	err = await(ctx, "the tree is swept away", func() (bool, error) {
		select {
		case <-reaper.gone:
			return false, fmt.Errorf("%s has ended: %v: %s", reaper.name, reaper.cmd.ProcessState, reaper.errors.Bytes())
		default:
		}
		all, err := d.left(ctx)
		left = slices.DeleteFunc(all, func(node string) bool {
			return strings.HasPrefix(node, d.Base.Root()+"/"+reaperLock)
		})
		return len(left) == 0, err
	})
	switch {
	case err == nil:
		d.say("All that is swept away.")
	case errors.Is(err, errTooLong):
		d.say("These were not swept away: %s", strings.Join(left, " "))
	default:
		return err
	}
	d.judge("the reaper sweeps away what the dead left",
		fmt.Sprintf("0 of %d nodes left", len(nodes)), fmt.Sprintf("%d left", len(left)), len(left) == 0)
	if err := reaper.stop(ctx); err != nil {
		return err
	}
	d.say("The reaper is stopped.")
	return nil
}

// reaperLock is the lock that the reaper itself holds.
const reaperLock = "reaper"

// startReaper starts the real reaper, with a configuration of its own. The caller
// removes that.
func (d *demo) startReaper() (p *process, remove func(), err error) {
	config, err := yaml.Marshal(map[string]any{
		"root": d.Base.Root(),
		"policies": []any{map[string]any{
			"name": "demo", "match": "**",
			"ttl": shortTTL.String(), "grace": shortGrace.String(), "orphan_after": "1s",
		}},
		"reaper": map[string]any{"schedule": "@every 1s", "lock": reaperLock},
	})
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return nil, nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		remove()
		return nil, nil, err
	}
	// By the flag, because the environment may name other servers than ours, and
	// would win over the file.
	p, err = d.start("the reaper", d.Reaper, d.Reaper, "--config", file, "--servers", strings.Join(d.Servers, ","))
	if err != nil {
		remove()
		return nil, nil, err
	}
	return p, remove, nil
}

// tenths rounds for people.
func tenths(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
