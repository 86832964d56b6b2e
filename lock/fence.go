package lock

import (
	"cmp"
	"fmt"
)

// Token is a fencing token. Tokens of one lock rise with every grant (of readers see
// [RWMutex]), also over deletions of the lock and restarts of everybody: a resource that remembers
// the highest token it has seen, and refuses lower ones, is safe from a holder
// that was paused and acts after it lost the lock.
//
// It is made of the zxid of the transaction that created the hold's entry, which
// ZooKeeper never gives twice. Compare tokens with [Token.Compare], or by their
// numbers in that order.
type Token struct {
	Czxid       int64 // ZooKeeper transaction that created the entry
	Incarnation int32 // how often the entry was handed on to another process
}

// Compare returns -1, 0 or +1 as t is lower than, the same as, or higher than u.
func (t Token) Compare(u Token) int {
	return cmp.Or(cmp.Compare(t.Czxid, u.Czxid), cmp.Compare(t.Incarnation, u.Incarnation))
}

// String gives the token's zxid as decimal number, followed by the incarnation
// behind a dot when it is not 0.
func (t Token) String() string {
	if t.Incarnation == 0 {
		return fmt.Sprint(t.Czxid)
	}
	return fmt.Sprintf("%d.%d", t.Czxid, t.Incarnation)
}
