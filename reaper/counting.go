package reaper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// unread handles the error of a read, and reports whether the node is missing. It counts a refusal
// by the ACL as denied, and any other error as a failure.
func (s *sweep) unread(ctx context.Context, path, what, policy string, err error) (missing bool) {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return true
	case errors.Is(err, zk.ErrNoAuth):
		s.deny(path, what, policy, err)
	case ctx.Err() == nil:
		s.fail(fmt.Errorf("%s %s: %w", what, path, err))
	}
	return false
}

func (s *sweep) deny(path, what, policy string, err error) {
	s.find(deniedByACL, Denial{path, what, err.Error()}, policy, func(c *Counts) { c.Denied++ })
}

// counted counts a node with its verdict. It records the path if an operator should look at the
// node.
func (s *sweep) counted(v Verdict, path, policy string) {
	count, node := func(c *Counts) { c.count(v) }, Denial{Path: path, What: v.String()}
	switch v {
	case Undecodable:
		s.find(damaged, node, policy, count)
	case Format1:
		s.find(ofFormat1, node, policy, count)
	default:
		s.count(policy, count)
	}
}

// find records a node that an operator should look at, and counts it. If this sweep does not cover
// the policy, only the total has it.
func (s *sweep) find(why finding, node Denial, policy string, count func(*Counts)) {
	s.mu.Lock()
	s.findings[why].add(node)
	if s.report.Policies[policy] == nil {
		count(&s.report.Total)
	}
	s.mu.Unlock()
	s.count(policy, count)
}

// used counts the live entries of a lock.
func (s *sweep) used(policy string, now instant, u use) {
	since := func(seconds uint32) float64 {
		if seconds == 0 {
			return 0
		}
		return max(0, now.Earliest().Sub(time.Unix(int64(seconds), 0)).Seconds())
	}
	s.count(policy, func(c *Counts) {
		c.Live += int(u.live)
		c.Waiting += int(u.waiting)
		c.LongestWait = max(c.LongestWait, since(u.joined))
		c.OldestHold = max(c.OldestHold, since(u.granted))
	})
}

// late records the longest time for which a node could have been deleted and was not: since is when
// that time began.
func (s *sweep) late(policy string, now instant, since time.Time) {
	s.count(policy, func(c *Counts) { c.OldestOverdue = max(c.OldestOverdue, now.Earliest().Sub(since).Seconds()) })
}

// count applies f to the counts of a policy, and to the total. It does nothing for "" or for a policy
// that this sweep does not cover.
func (s *sweep) count(policy string, f func(*Counts)) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.report.Policies[policy]
	if c == nil {
		return
	}
	if _, ok := s.looked[policy]; !ok {
		s.looked[policy] = now
	}
	f(c)
	f(&s.report.Total)
	c.Seconds = now.Sub(s.looked[policy]).Seconds()
}
