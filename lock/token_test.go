// Tokens: order and text.

package lock_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/lock"
)

func TestTokensCompare(t *testing.T) {
	order := [][4]int64{
		{}, {1, 0, 0, 0}, {1, 0, 0, 1}, {1, 0, 1, 0}, {1, 0, 1, 3}, {1, 1, 0, 0}, {1, 1, 0, 2}, {1, 2, 0, 0}, {2, 0, 0, 0}, {1 << 40, 0, 0, 0},
	}
	token := func(p [4]int64) lock.Token {
		return lock.TokenOf(lock.TokenParts{Czxid: p[0], Sequence: int32(p[1]), Incarnation: int32(p[2]), Pass: int32(p[3])})
	}
	for i, a := range order {
		for j, b := range order {
			got, want := token(a).Compare(token(b)), min(1, max(-1, i-j))
			isTrue(t, got == want, "%v against %v: %d, want %d", a, b, got, want)
		}
	}
}

// TestTokenText: the text form of a token, which databases and logs contain, does not change, and
// parses to the same token.
func TestTokenText(t *testing.T) {
	for _, tt := range []struct {
		parts lock.TokenParts
		text  string
	}{
		{lock.TokenParts{}, "0000000000000000"},
		{lock.TokenParts{Czxid: 0x10000000f}, "000000010000000f"},
		{lock.TokenParts{Czxid: 0x10000000f, Sequence: 2}, "000000010000000f-00000002"},
		{lock.TokenParts{Czxid: math.MaxInt64, Sequence: math.MaxInt32}, "7fffffffffffffff-7fffffff"},
		{lock.TokenParts{Czxid: 0x10000000f, Incarnation: 2}, "000000010000000f-00000000-00000002"},
		{lock.TokenParts{Czxid: 0x10000000f, Sequence: 10, Pass: 3}, "000000010000000f-0000000a-00000000-00000003"},
		{lock.TokenParts{Czxid: 0x10000000f, Sequence: 1, Incarnation: 2, Pass: 1}, "000000010000000f-00000001-00000002-00000001"},
	} {
		token := lock.TokenOf(tt.parts)
		equal(t, "text", token.String(), tt.text)
		if got, err := lock.ParseToken(tt.text); err != nil || got != token {
			t.Errorf("%q is %#v, %v, want %#v", tt.text, got, err, token)
		}
		type row struct{ Token lock.Token }
		data, err := json.Marshal(row{token})
		want := `{"Token":"` + tt.text + `"}`
		isTrue(t, err == nil && string(data) == want, "JSON %s, %v, want %s", data, err, want)
		var back row
		if err := json.Unmarshal(data, &back); err != nil || back.Token != token {
			t.Errorf("%s is %#v, %v, want %#v", data, back.Token, err, token)
		}
	}
}

func TestTokenTextRefused(t *testing.T) {
	for _, text := range []string{
		"", "4294967311", "10000000f", "000000010000000F", "+00000010000000f", "0x0000010000000f", "000000010000000g",
		"8000000000000000", "ffffffffffffffff", " 00000010000000f", "000000010000000f\n",
		"000000010000000f-", "000000010000000f-2", "000000010000000f-00000000", "000000010000000f-80000000",
		"000000010000000f-0000000A", "000000010000000f.00000002", "000000010000000f-+0000002",
		"000000010000000f-00000002-00000000", "000000010000000f-00000000-00000000", "000000010000000f--00000001",
		"000000010000000f-00000002-00000001-00000001-00000001", strings.Repeat("0", 1000),
	} {
		token, err := lock.ParseToken(text)
		fails(t, err, lock.ErrInvalid, "token", text[:min(len(text), 10)], "hexadecimal digits")
		isTrue(t, token == (lock.Token{}) && len(err.Error()) <= 400, "%q: %v, %v", text, token, err)
		kept := lock.TokenOf(lock.TokenParts{Czxid: 7})
		isTrue(t, kept.UnmarshalText([]byte(text)) != nil && kept.Number() == 7, "%q set a token to %v", text, kept)
	}
	for _, parts := range []lock.TokenParts{{Czxid: -1}, {Sequence: -1}, {Incarnation: -1}, {Pass: -1}} {
		token := lock.TokenOf(parts)
		if _, err := lock.ParseToken(token.String()); err == nil {
			t.Errorf("%q, which no hold has, is a token", token.String())
		}
	}
}

// FuzzTokenText: a text is the form of at most one token, and texts sort, byte by byte, as their
// tokens do.
func FuzzTokenText(f *testing.F) {
	f.Add("000000010000000f", "000000010000000f-00000002")
	f.Add("7fffffffffffffff-7fffffff", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errX := lock.ParseToken(a)
		y, errY := lock.ParseToken(b)
		for _, p := range []struct {
			text  string
			token lock.Token
			err   error
		}{{a, x, errX}, {b, y, errY}} {
			isTrue(t, p.err != nil || p.token.String() == p.text, "%q is the token of %q", p.text, p.token)
		}
		isTrue(t, errX != nil || errY != nil || x.Compare(y) == strings.Compare(a, b), "%q, %q: tokens compare as %d", a, b, x.Compare(y))
	})
}

// FuzzTokenOrder: each token has a text, which parses to the same token, and texts sort as tokens
// do.
func FuzzTokenOrder(f *testing.F) {
	f.Add(int64(1), int32(0), int32(0), int32(0), int64(1), int32(0), int32(1), int32(0))
	f.Add(int64(9), int32(4), int32(0), int32(7), int64(9), int32(4), int32(1), int32(0))
	f.Add(int64(9), int32(4), int32(9), int32(7), int64(9), int32(5), int32(0), int32(0))
	f.Add(int64(9), int32(0), int32(math.MaxInt32), int32(0), int64(10), int32(0), int32(0), int32(0))
	f.Fuzz(func(t *testing.T, czxid int64, sequence, incarnation, pass int32, czxid2 int64, sequence2, incarnation2, pass2 int32) {
		var texts [2]string
		tokens := [2]lock.Token{
			lock.TokenOf(lock.TokenParts{Czxid: czxid & math.MaxInt64, Sequence: sequence & math.MaxInt32, Incarnation: incarnation & math.MaxInt32, Pass: pass & math.MaxInt32}),
			lock.TokenOf(lock.TokenParts{Czxid: czxid2 & math.MaxInt64, Sequence: sequence2 & math.MaxInt32, Incarnation: incarnation2 & math.MaxInt32, Pass: pass2 & math.MaxInt32}),
		}
		for i, token := range tokens {
			text, err := token.MarshalText()
			back, parse := lock.ParseToken(string(text))
			mustBeTrue(t, err == nil && parse == nil && back == token, "%#v: %q, %v, reads as %#v, %v", token, text, err, back, parse)
			texts[i] = string(text)
		}
		got, want := strings.Compare(texts[0], texts[1]), tokens[0].Compare(tokens[1])
		isTrue(t, got == want, "%q, %q: %d, their tokens %d", texts[0], texts[1], got, want)
	})
}
