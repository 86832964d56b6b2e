package digestmd5

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// begun returns an exchange that has sent its empty first token, and uses the given client nonce.
func begun(t testing.TB, user, password, cnonce string) *Exchange {
	t.Helper()
	x := New(user, password)
	x.cnonce = cnonce
	if token, err := x.Next(nil); err != nil || token == nil || len(token) > 0 {
		t.Fatalf("first token %q, %v: must be empty", token, err)
	}
	return x
}

const challenge = `realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",qop="auth",charset=utf-8,algorithm=md5-sess`

// TestExchange: the proofs of the client and the server are those that Python's hashlib gives for
// the formulas of RFC 2831.
func TestExchange(t *testing.T) {
	for _, test := range []struct{ user, password, response, rspauth string }{
		{"svc", "secret", "d9b4c3de07f136ba33847f85abb9276a", "0c09e262054a9a228c537f352abc5cf3"},
		{"latin", "pässwörd", "e469d9321c4885864c76987f31e3d9eb", "c16e9ec3ebbfd8f7d025496eff02fc69"}, // hashed in ISO 8859-1
		{"пользователь", "пароль", "22b7e397592402ef0af6dfa1dcb112f1", "8422920b02a6c829ebe6869210feacfd"},
	} {
		x := begun(t, test.user, test.password, "OA6MHXh6VqTrRk")
		token, err := x.Next([]byte(challenge))
		iferr.Fatal(t, err)
		said, err := parse(token)
		iferr.Fatal(t, err)
		for key, want := range map[string]string{
			"username": test.user, "realm": "zk-sasl-md5", "nonce": "OA6MG9tEQGm2hh", "cnonce": "OA6MHXh6VqTrRk", "nc": "00000001",
			"qop": "auth", "digest-uri": "zookeeper/zk-sasl-md5", "charset": "utf-8", "response": test.response,
		} {
			if said[key] != want {
				t.Errorf("%s: %s is %q, want %q", test.user, key, said[key], want)
			}
		}
		if strings.Contains(string(token), test.password) {
			t.Errorf("%s: the password is sent", test.user)
		}
		if token, err := x.Next([]byte("rspauth=" + test.rspauth)); token != nil || err != nil {
			t.Errorf("%s: last token %q, %v", test.user, token, err)
		}
		if !x.Expires().IsZero() {
			t.Error("a password expires")
		}
	}
}

// TestFalseServer: a server that does not prove that it knows the password is refused with
// ErrDenied.
func TestFalseServer(t *testing.T) {
	for _, last := range []string{"rspauth=d9b4c3de07f136ba33847f85abb9276a", "rspauth=", "rspauth=00000000000000000000000000000000", "rspauth", "x=y", "", strings.Repeat("a", 3000)} {
		x := begun(t, "svc", "secret", "OA6MHXh6VqTrRk")
		iferr.Fatal(t, iferr.Of(x.Next([]byte(challenge))))
		if token, err := x.Next([]byte(last)); token != nil || !errors.Is(err, zkconn.ErrDenied) {
			t.Errorf("%.40q: token %q, %v", last, token, err)
		}
	}
}

// TestRefusedWithoutDisconnect: a server with allowSaslFailedClients keeps the connection of a
// client that it has refused. The client recognizes the refusal, and does not take the server for
// an impostor.
func TestRefusedWithoutDisconnect(t *testing.T) {
	x := begun(t, "svc", "wrong", "x")
	iferr.Fatal(t, iferr.Of(x.Next([]byte(challenge))))
	_, err := x.Next([]byte{})
	if !errors.Is(err, zkconn.ErrDenied) || errors.Is(err, ErrImpostor) || !strings.Contains(err.Error(), "user_svc") {
		t.Error(err)
	}
}

func TestChallenges(t *testing.T) {
	for text, good := range map[string]bool{
		challenge:                      true,
		`nonce=abc,algorithm=md5-sess`: true,
		` , nonce="a\"b\\c" ,, algorithm="md5-sess", realm="a", realm="b", stale=true,`: true,
		`nonce="a",algorithm=md5-sess,qop="auth-int, auth"`:                             true,
		`nonce="a",algorithm=md5-sess,qop="auth-int,auth-conf"`:                         false,
		`nonce="a",algorithm=md5`:                                                       false,
		`nonce="a"`:                                                                     false,
		`algorithm=md5-sess`:                                                            false,
		`nonce="a",nonce="b",algorithm=md5-sess`:                                        false,
		`nonce="a,algorithm=md5-sess`:                                                   false,
		`nonce="a\`:                                                                     false,
		`nonce="a"b,algorithm=md5-sess`:                                                 false,
		`=,nonce="a",algorithm=md5-sess`:                                                false,
		"\x60\x82\x02\x9e\x06\x09\x2a\x86\x48\x86":                                      false, // of GSSAPI
		"": false,
		challenge + "," + strings.Repeat(" ", 2048): false,
	} {
		x := begun(t, `u"v\w`, "secret", "c")
		token, err := x.Next([]byte(text))
		if good != (err == nil) || err != nil && !errors.Is(err, ErrChallenge) {
			t.Errorf("%.60q: %q, %v", text, token, err)
		}
		if err == nil {
			if said, err := parse(token); err != nil || said["username"] != `u"v\w` {
				t.Errorf("%.60q is answered by %q: %v", text, token, err)
			}
		}
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte(challenge), []byte("rspauth=0"))
	f.Fuzz(func(t *testing.T, first, last []byte) {
		x := begun(t, "svc", "secret", "c")
		if _, err := x.Next(first); err == nil {
			if token, err := x.Next(last); err == nil || token != nil {
				t.Errorf("%q and %q are a server that knows the password", first, last)
			}
		}
	})
}
