package lock

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
)

// Token is a fencing token. Tokens of one lock rise with every grant (for readers see [RWMutex]),
// also over deletions of the lock and restarts of all processes. A resource that remembers the
// highest token it has seen, and refuses lower ones, is safe from a paused holder that writes after
// it lost the lock. Package fence does so for resources in memory, and has the statements for SQL
// databases. Writes to ZooKeeper itself need no token: see [Hold.Txn].
//
// Compare tokens with [Token.Compare], or as text, which sorts in the same order. Tokens of two locks
// can be equal: a record of tokens of several locks needs their names too.
//
// A store that keeps one integer can keep [Token.Number]. The zero Token is of no hold.
type Token struct{ parts access.Token }

// Number returns a number for a store that cannot keep a text: a later token never has a lower number.
// Equal numbers do not mean equal tokens: local handoffs ([WithLocalWindow]), an attach
// ([Client.Attach]), and goroutines of one client whose entries were created in one transaction keep
// the number. So the number fences off holders in other processes, unless entries are detached; each
// process must order its own writes. The text of a token suffices in all cases.
func (t Token) Number() int64 { return t.parts.Czxid }

// The text of a token: its parts in hexadecimal digits of a fixed width, joined by dashes.
// Trailing parts that are 0 are left out. So a token sorts before the tokens that extend it, and
// a part added by a later release does not change older texts.
const (
	czxidDigits = 16
	tokenParts  = 3
	partDigits  = 8
	tokenRule   = "must be 16 lower-case hexadecimal digits, not above 7fffffffffffffff, which a dash and 8 digits, not above 7fffffff, may follow up to three times, the last of them not all 0"
)

// Compare returns -1, 0 or +1 if t is lower than, equal to, or higher than u.
func (t Token) Compare(u Token) int {
	a, b := t.parts, u.parts
	return cmp.Or(cmp.Compare(a.Czxid, b.Czxid), cmp.Compare(a.Sequence, b.Sequence),
		cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Pass, b.Pass))
}

// String returns the text of the token, such as "000000010000000f-00000003" for an entry of the
// sequence 3, "000000010000000f-00000003-00000002" for its second incarnation, or
// "000000010000000f-00000003-00000000-00000001" after its first local handoff. Compared byte by
// byte, texts are in the order of [Token.Compare]. Later releases, which may add a part behind
// another dash, keep this order. [ParseToken] parses the text.
func (t Token) String() string {
	text := fmt.Sprintf("%0*x", czxidDigits, uint64(t.parts.Czxid))
	parts := t.rest()
	for last := len(parts) - 1; last >= 0; last-- {
		if parts[last] == 0 {
			continue
		}
		for _, part := range parts[:last+1] {
			text += fmt.Sprintf("-%0*x", partDigits, uint32(part))
		}
		break
	}
	return text
}

// rest returns the parts after the Czxid.
func (t Token) rest() [tokenParts]int32 {
	return [tokenParts]int32{t.parts.Sequence, t.parts.Incarnation, t.parts.Pass}
}

// ParseToken parses a text of [Token.String]. Any other text is an [ErrInvalid].
func ParseToken(text string) (Token, error) {
	var t Token
	parts := strings.Split(text, "-")
	ok := len(parts) <= 1+tokenParts
	number := func(place, bits int) int64 {
		if place >= len(parts) {
			return 0
		}
		n, err := strconv.ParseUint(parts[place], 16, bits)
		ok = ok && err == nil
		return int64(n)
	}
	t.parts = access.Token{Czxid: number(0, 63), Sequence: int32(number(1, 31)), Incarnation: int32(number(2, 31)), Pass: int32(number(3, 31))}
	if !ok || t.String() != text { // for example upper-case digits, or too few
		return Token{}, invalid("token", fmt.Sprintf("%.60q", text), tokenRule)
	}
	return t, nil
}

// MarshalText returns the text of [Token.String], for example for JSON.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses the text as [ParseToken] does.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}

// tokenOf returns the fencing token of an entry.
func tokenOf(e *queue.Entry) Token {
	return Token{access.Token{Czxid: e.Czxid(), Sequence: e.Name().TokenSequence(), Incarnation: e.Incarnation, Pass: e.Pass}}
}
