// Package digestmd5 is the client's side of SASL's mechanism DIGEST-MD5 (RFC 2831), as far as
// ZooKeeper uses it: it authenticates, but does not protect later messages.
package digestmd5

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// uri names the service in the exchange. It is the same for all ZooKeeper servers.
const uri = "zookeeper/zk-sasl-md5"

// mostChallenge is the length limit of a challenge in bytes, by RFC 2831.
const mostChallenge = 2048

// Errors of Exchange.Next.
var (
	// ErrChallenge: the server's token at the second call of Next is no valid challenge.
	ErrChallenge = errors.New("the server's token is no challenge of DIGEST-MD5")
	// ErrImpostor: the server's token at the third call of Next is no valid proof. The error wraps
	// zkconn.ErrDenied.
	ErrImpostor = fmt.Errorf("%w: the server has not proved that it knows the password: it is a false one", zkconn.ErrDenied)
)

// Exchange is one authentication of a user, see [zkconn.SASLExchange]. It is not safe for
// concurrent use.
type Exchange struct {
	user, password string
	cnonce         string // the client's random part
	step           int    // number of calls of Next
	expect         string // proof that the server's last token must have; "": not known yet
}

// New returns an exchange for a user.
func New(user, password string) *Exchange {
	return &Exchange{user: user, password: password, cnonce: rand.Text()}
}

// Expires returns the zero time: a password does not expire.
func (*Exchange) Expires() time.Time { return time.Time{} }

// Advice returns what to do if the server has refused the last token, as the end of a message.
func (x *Exchange) Advice() string {
	if x.step == 1 {
		return "it does not offer DIGEST-MD5: its section Server in the JAAS configuration is for another mechanism (a keytab means gssapi), or it is in FIPS mode, in which 3.9.6 and later refuse DIGEST-MD5 and which is the default, and needs fips-mode=false in zoo.cfg"
	}
	return fmt.Sprintf("see whether its section Server in the JAAS configuration has user_%s with this password; it reads the file when it starts", x.user)
}

// Next returns the client's next token: at the first call an empty one, at the second the response
// to the server's challenge. At the third call it returns nil if the server has proved that it
// knows the password. Otherwise it fails with ErrImpostor, or with zkconn.ErrDenied if the server
// has refused the user.
func (x *Exchange) Next(challenge []byte) ([]byte, error) {
	x.step++
	switch x.step {
	case 1:
		return []byte{}, nil
	case 2:
		return x.respond(challenge)
	}
	if len(challenge) == 0 { // the server has the option allowSaslFailedClients
		return nil, fmt.Errorf("%w: the server keeps the connection, but has refused the user: %s", zkconn.ErrDenied, x.Advice())
	}
	said, err := parse(challenge)
	if err != nil || !hmac.Equal([]byte(said["rspauth"]), []byte(x.expect)) {
		return nil, ErrImpostor
	}
	return nil, nil
}

// respond returns the response to a challenge, and computes the proof that the server must send.
func (x *Exchange) respond(challenge []byte) ([]byte, error) {
	said, err := parse(challenge)
	if err != nil {
		return nil, err
	}
	nonce, realm := said["nonce"], said["realm"]
	qop, given := said["qop"]
	switch {
	case nonce == "" || said["algorithm"] != "md5-sess":
		return nil, fmt.Errorf("%w: it has the nonce %q and the algorithm %q", ErrChallenge, nonce, said["algorithm"])
	case given && !slices.Contains(strings.FieldsFunc(qop, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }), "auth"):
		return nil, fmt.Errorf("%w that ZooKeeper sends: it wants the protection %q; must be auth", ErrChallenge, qop)
	}
	const count = "00000001"
	secret := md5.Sum([]byte(latin(x.user) + ":" + latin(realm) + ":" + latin(x.password)))
	session := hash(string(secret[:]) + ":" + nonce + ":" + x.cnonce)
	proof := func(who string) string {
		return hash(session + ":" + nonce + ":" + count + ":" + x.cnonce + ":auth:" + hash(who+":"+uri))
	}
	x.expect = proof("")
	response := fmt.Sprintf(`charset=utf-8,username=%s,realm=%s,nonce=%s,nc=%s,cnonce=%s,digest-uri=%s,maxbuf=65536,response=%s,qop=auth`,
		quote(x.user), quote(realm), quote(nonce), count, quote(x.cnonce), quote(uri), proof("AUTHENTICATE"))
	return []byte(response), nil
}

// hash returns the MD5 sum of s in hexadecimal.
func hash(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// latin returns the text in ISO 8859-1, as RFC 2831 hashes it. If the text has a character that ISO
// 8859-1 lacks, latin returns the text as it is.
func latin(s string) string {
	var b []byte
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b = append(b, byte(r))
	}
	return string(b)
}

// quote returns s as a quoted string of RFC 2831.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// parse returns the directives of a challenge: key=value or key="value", separated by commas. Keys
// are in lower case. Of several realms it returns the first.
func parse(challenge []byte) (map[string]string, error) {
	if len(challenge) > mostChallenge {
		return nil, fmt.Errorf("%w: it has %d bytes; must be at most %d", ErrChallenge, len(challenge), mostChallenge)
	}
	said := map[string]string{}
	for rest := string(challenge); ; {
		rest = strings.TrimLeft(rest, " \t\r\n,")
		if rest == "" {
			return said, nil
		}
		key, after, found := strings.Cut(rest, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		value, left, ok := parseValue(strings.TrimLeft(after, " \t"))
		if _, twice := said[key]; !found || key == "" || !ok || twice && key != "realm" {
			return nil, ErrChallenge
		} else if !twice { // the first of several realms counts
			said[key] = value
		}
		rest = left
	}
}

// parseValue returns the value at the beginning of s, quoted or not, and the rest of s. ok is false
// if there is no value, or if a quoted value is not closed, or is followed by other text than a
// comma.
func parseValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexByte(s, ',')
		if end < 0 {
			end = len(s)
		}
		return strings.TrimRight(s[:end], " \t\r\n"), s[end:], end > 0
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			rest = strings.TrimLeft(s[i+1:], " \t\r\n")
			return b.String(), rest, rest == "" || rest[0] == ','
		case c == '\\':
			if i++; i == len(s) {
				return "", "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
