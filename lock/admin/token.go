package admin

import (
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TokenOf returns the fencing token of an entry that was read. It lacks the number of local handoffs,
// which the entry does not show.
func TokenOf(e *znode.Entry) lock.Token {
	parts := access.Token{Czxid: e.Stat.Czxid, Sequence: e.TokenSequence()}
	if e.Leased() {
		parts.Incarnation = e.Record.Incarnation
	}
	return access.MakeToken(parts).(lock.Token)
}

// EntryToken returns a hold's token as [TokenOf] returns it: without the number of local handoffs.
func EntryToken(token lock.Token) lock.Token {
	parts := access.OfToken(token)
	parts.Pass = 0
	return access.MakeToken(parts).(lock.Token)
}
