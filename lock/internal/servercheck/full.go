package servercheck

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// between is the time between two transactions in which the leader's clock, which is read
// in milliseconds and may tick in some sixteenths of a second, has to go on.
const between = 100 * time.Millisecond

// Full checks the server that the session is with by what takes more than one transaction,
// too, and by its habits.
func (c *Checker) Full(ctx context.Context) error {
	if _, err := c.Conn.Exists(ctx, "/keeper/api_version"); err == nil {
		return Keeper("it has a node /keeper/api_version")
	} else if !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	before, missing, err := c.once(ctx)
	if err == nil {
		err = c.versions(ctx, missing)
	}
	for tries := 0; err == nil; tries++ {
		if err := pause(ctx, between); err != nil {
			return err
		}
		var after Stamp
		if after, err = c.Once(ctx); err != nil {
			break
		}
		why := rises(before, after)
		if why == nil || tries > 0 { // once the clock may have been set just then
			return why
		}
		before = after
	}
	return err
}

// versions makes a transaction that writes a node under a version that it does not have.
// So many of the root's components are missing.
func (c *Checker) versions(ctx context.Context, missing int) error {
	err := c.Conn.Retry(ctx, backoff, func() error {
		node := c.Root + "/clock-" + c.NewID()
		makes, deletes := ancestors(c.Root, missing, c.ACL)
		ops := append(makes,
			&zk.CreateRequest{Path: node, Acl: c.ACL},
			&zk.SetDataRequest{Path: node, Data: data, Version: 7},
			&zk.DeleteRequest{Path: node, Version: -1})
		_, err := c.Conn.Multi(ctx, nil, append(ops, deletes...)...)
		return err
	})
	switch op, cause := zkconn.RefusedOp(err); {
	case err == nil:
		return wrong("it has accepted a write under a version that the node does not have")
	case op < 0:
		return err
	case op == missing+1 && errors.Is(cause, zk.ErrBadVersion):
		return nil
	case op <= missing && (errors.Is(cause, zk.ErrNoNode) || errors.Is(cause, zk.ErrNodeExists)):
		return nil // the root has come or gone meanwhile
	case errors.Is(cause, zk.ErrNoAuth):
		return &Unchecked{fmt.Errorf("%w: a scratch node below %s", zkconn.ErrDenied, c.Root)}
	}
	return wrong("it refuses a write under a version that the node does not have, but for another reason: %v", err)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rises says what is wrong with the stamps of two transactions, the one made some time
// after the other was answered.
func rises(before, after Stamp) error {
	switch {
	case after.Zxid <= before.Zxid:
		return wrong("transaction %#x came after %#x: their numbers must rise", after.Zxid, before.Zxid)
	case after.Mtime <= before.Mtime:
		return wrong("transaction %#x has the time %d, and %#x, made %v later, %d: times must rise with transactions", before.Zxid, before.Mtime, after.Zxid, between, after.Mtime)
	}
	return nil
}

// Version is what a server tells of its release by the four-letter word srvr.
type Version struct {
	Release string // such as "3.9.3", or "ClickHouse Keeper v24.8"
}

const keeperName = "ClickHouse Keeper "

// IsKeeper reports whether it is a version of ClickHouse Keeper.
func (v Version) IsKeeper() bool { return strings.HasPrefix(v.Release, keeperName) }

var (
	zookeeperVersion = regexp.MustCompile(`(?m)^Zookeeper version: ([0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.-]*)`)
	keeperVersion    = regexp.MustCompile(`(?m)^ClickHouse Keeper version: ([0-9A-Za-z.-]{1,40})`)
)

// ParseVersion reads the answer to srvr. It reports false if that tells none, as where the
// word is not permitted.
func ParseVersion(answer string) (Version, bool) {
	if m := keeperVersion.FindStringSubmatch(answer); m != nil {
		return Version{keeperName + m[1]}, true
	}
	if m := zookeeperVersion.FindStringSubmatch(answer); m != nil {
		release, _, _ := strings.Cut(m[1], "-") // the commit, after a dash
		return Version{release}, true
	}
	return Version{}, false
}

// Warning is what a release of ZooKeeper is known for; "" if nothing. Both bugs lose
// writes that were acknowledged, and with them entries of holders.
func (v Version) Warning() string {
	n, ok := numbers(v.Release)
	switch {
	case !ok:
		return ""
	case n == [3]int{3, 9, 3}:
		return "ZooKeeper 3.9.3 can lose acknowledged writes, and locks with them, after a server has rejoined the ensemble (ZOOKEEPER-4925): use 3.9.5 or later"
	case losesByDiff(n):
		return "ZooKeeper " + v.Release + " can lose acknowledged writes, and locks with them, when servers fail while they catch up with a leader (DIFF sync, ZOOKEEPER-4785): use 3.8.6, 3.9.5 or later"
	}
	return ""
}

// losesByDiff reports whether a release has ZOOKEEPER-4785. The fix is in 3.8.5 and 3.9.2;
// the lines before, which log in the same way what they catch up with, have got none.
func losesByDiff(n [3]int) bool {
	switch {
	case n[0] != 3:
		return false
	case n[1] == 9:
		return n[2] < 2
	case n[1] == 8:
		return n[2] < 5
	}
	return n[1] == 7 || n[1] == 6
}

func numbers(release string) (n [3]int, ok bool) {
	parts := strings.Split(release, ".")
	if len(parts) < 3 {
		return n, false
	}
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(parts[i]); err != nil {
			return n, false
		}
	}
	return n, true
}
