package lock

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Token is a fencing token. Tokens of one lock rise with every grant (of readers see
// [RWMutex]), also over deletions of the lock and restarts of everybody: a resource that
// remembers the highest token it has seen, and refuses lower ones, is safe from a holder that was paused and
// acts after it lost the lock. Package fence has that for what is kept in memory, and
// shows it for a database. Writes to ZooKeeper itself need no token: see [Hold.Txn].
//
// Compare tokens with [Token.Compare], or as text, which sorts in the same order.
//
// A store that keeps one integer can keep Czxid: ZooKeeper never gives a transaction's
// number twice, and that of later entries is higher. But it tells apart entries, not
// those who hold one after the other by the same entry. So it keeps off everybody who
// came before that entry, and fails to keep off whoever handed the entry itself on, to
// another process or, by a pass, to another goroutine of its own: they have the same Czxid,
// and only Incarnation and Pass tell them apart. Where entries are never handed on, and
// the policy's LocalWindow is [NoLocalWindow] or all writes of a process are in their order
// anyway, one integer does; the text is right everywhere.
type Token struct {
	Czxid       int64 // ZooKeeper transaction that created the entry
	Incarnation int32 // how often the entry was handed on to another process
	Pass        int32 // how often it was passed on within the process: see [WithLocalWindow]
}

// The text of a token: its parts as hexadecimal digits, each of a fixed width, joined by
// dashes. Parts that are 0 are left out at the end, so that a token sorts before those that
// go on where it ends, and a part that is added one day leaves older texts as they are.
const (
	czxidDigits = 16
	partDigits  = 8
	tokenRule   = "must be 16 lower-case hexadecimal digits, not above 7fffffffffffffff, which a dash and 8 digits, not above 7fffffff, may follow once or twice, the last of them not all 0"
)

// Compare returns -1, 0 or +1 as t is lower than, the same as, or higher than u.
func (t Token) Compare(u Token) int {
	return cmp.Or(cmp.Compare(t.Czxid, u.Czxid), cmp.Compare(t.Incarnation, u.Incarnation), cmp.Compare(t.Pass, u.Pass))
}

// String returns the text of the token, such as "000000010000000f",
// "000000010000000f-00000002" for the second incarnation, or
// "000000010000000f-00000000-00000001" for the first pass. Compared byte by byte, texts
// are in the order of [Token.Compare]; so are those of later releases, which may go on
// behind another dash. [ParseToken] reads it.
func (t Token) String() string {
	text := fmt.Sprintf("%0*x", czxidDigits, uint64(t.Czxid))
	if t.Incarnation != 0 || t.Pass != 0 {
		text += fmt.Sprintf("-%0*x", partDigits, uint32(t.Incarnation))
	}
	if t.Pass != 0 {
		text += fmt.Sprintf("-%0*x", partDigits, uint32(t.Pass))
	}
	return text
}

// ParseToken returns the token of a text that [Token.String] made. Any other text is an
// [ErrInvalid].
func ParseToken(text string) (Token, error) {
	var t Token
	parts := strings.Split(text, "-")
	ok := len(parts) <= 3
	number := func(place, bits int) int64 {
		if place >= len(parts) {
			return 0
		}
		n, err := strconv.ParseUint(parts[place], 16, bits)
		ok = ok && err == nil
		return int64(n)
	}
	t.Czxid, t.Incarnation, t.Pass = number(0, 63), int32(number(1, 31)), int32(number(2, 31))
	if !ok || t.String() != text { // as upper-case digits are not, nor others than so many
		return Token{}, invalid("token", fmt.Sprintf("%.60q", text), tokenRule)
	}
	return t, nil
}

// MarshalText returns the text that [Token.String] does, for JSON and the like. A token
// with a negative part, which no hold has, is an [ErrInvalid].
func (t Token) MarshalText() ([]byte, error) {
	if t.Czxid < 0 || t.Incarnation < 0 || t.Pass < 0 {
		return nil, invalid("token", fmt.Sprintf("{Czxid: %d, Incarnation: %d, Pass: %d}", t.Czxid, t.Incarnation, t.Pass),
			"its parts must be within 0..%d, and those after the first within 0..%d", int64(math.MaxInt64), math.MaxInt32)
	}
	return []byte(t.String()), nil
}

// UnmarshalText sets the token to what [ParseToken] makes of the text.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}
