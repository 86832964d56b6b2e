package kerberos

// Tests of the tokens, on an acceptor with the service's keys.

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gasn1 "github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
)

func marshal(v any, tag int) ([]byte, error) {
	b, err := gasn1.Marshal(v)
	return asn1tools.AddASNAppTag(b, tag), err
}

// checkError checks an error of Start: it matches ErrDenied if and only if denied is set, contains the
// texts, and has one line and no secret.
func checkError(t *testing.T, err error, denied bool, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	t.Log(err)
	if errors.Is(err, lock.ErrDenied) != denied {
		t.Errorf("is ErrDenied: %v, want %v", !denied, denied)
	}
	for _, want := range says {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q in it", err, want)
		}
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%q shows what is in a file, or has several lines", err)
	}
}

func file(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	iferr.Fatal(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// service returns a client's ticket for a service, and the service's keys, without a KDC.
func service(t testing.TB) (*ticket, *keytab.Keytab) {
	t.Helper()
	client, err := parsePrincipal("svc", "EXAMPLE.COM")
	iferr.Fatal(t, err)
	server := principal{types.NewPrincipalName(3, "zookeeper/localhost"), "EXAMPLE.COM"}
	keys := keytab.New()
	iferr.Fatal(t, keys.AddEntry("zookeeper/localhost", server.realm, "password", time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96))
	now := time.Now().UTC().Truncate(time.Second)
	tk, key, err := messages.NewTicket(client.name, client.realm, server.name, server.realm, types.NewKrbFlags(), keys,
		etypeID.AES256_CTS_HMAC_SHA1_96, 1, now, now, now.Add(time.Hour), now.Add(time.Hour))
	iferr.Fatal(t, err)
	return &ticket{Ticket: tk, client: client, service: server, key: key, start: now, end: now.Add(time.Hour)}, keys
}

// TestExchange: acceptors may bring a key of their own, and rotate tokens. An acceptor that does
// not prove its name, or insists on a security layer, is refused.
func TestExchange(t *testing.T) {
	tk, keys := service(t)
	for name, test := range map[string]struct {
		change func(a *acceptor)
		refuse string
	}{
		"as Java":            {func(*acceptor) {}, ""},
		"no subkey":          {func(a *acceptor) { a.subkey = false }, ""},
		"rotated":            {func(a *acceptor) { a.rotate = 12 }, ""},
		"rotated twice":      {func(a *acceptor) { a.rotate = 28 }, ""},
		"only no layer":      {func(a *acceptor) { a.offer = noLayer }, ""},
		"insists on a layer": {func(a *acceptor) { a.offer = 2 | 4 }, "javax.security.sasl.qop"},
		"proof of another":   {func(a *acceptor) { a.late = time.Second }, "has not proved its name"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &acceptor{keys: keys, subkey: true, offer: noLayer | 2 | 4}
			test.change(a)
			e, err := newExchange(tk)
			iferr.Fatal(t, err)
			switch err := a.run(e); {
			case test.refuse == "" && (err != nil || a.client != "svc@EXAMPLE.COM"):
				t.Errorf("authenticated as %q, %v", a.client, err)
			case test.refuse != "" && (err == nil || !strings.Contains(err.Error(), test.refuse)):
				t.Errorf("%v, want %s", err, test.refuse)
			}
		})
	}
}

// TestDamagedTokens: the client notices each changed byte of the server's tokens that a key
// secures, and each cut-off end.
func TestDamagedTokens(t *testing.T) {
	tk, keys := service(t)
	for step := 1; step <= 2; step++ {
		for _, damage := range []func(token []byte, at int) []byte{
			func(token []byte, at int) []byte { token[at] ^= 1; return token },
			func(token []byte, at int) []byte { return token[:at] },
		} {
			for at := 0; ; at++ {
				e, err := newExchange(tk)
				iferr.Fatal(t, err)
				d := &damaging{exchange: e, step: step, at: at, damage: damage}
				err = (&acceptor{keys: keys, subkey: true, offer: noLayer | 2 | 4}).run(d)
				if d.over {
					break
				}
				// No key secures the frame of the first token, and the rotation of the second.
				unsecured := len(d.damaged) > at && (step == 1 && at < 50 || step == 2 && at >= 6 && at < 8)
				if err == nil && !unsecured {
					t.Errorf("token %d, byte %d: damage unnoticed", step, at)
				}
			}
		}
	}
}

// damaging is an exchange that gets one token damaged.
type damaging struct {
	*exchange
	step, at int
	damage   func([]byte, int) []byte
	damaged  []byte
	over     bool // the token is shorter
}

func (d *damaging) Next(token []byte) ([]byte, error) {
	if d.exchange.step == d.step {
		if d.at >= len(token) {
			d.over = true
		} else {
			token = d.damage(slices.Clone(token), d.at)
			d.damaged = token
		}
	}
	return d.exchange.Next(token)
}

// TestServerRefuses: the error for a server that refuses the ticket has the server's error code,
// and is ErrDenied.
func TestServerRefuses(t *testing.T) {
	tk, _ := service(t)
	e, err := newExchange(tk)
	iferr.Fatal(t, err)
	iferr.Fatal(t, iferr.Of(e.Next(nil)))
	refused := messages.NewKRBError(tk.service.name, tk.service.realm, errorcode.KRB_AP_ERR_MODIFIED, "")
	b, err := marshal(refused, asnAppTag.KRBError)
	iferr.Fatal(t, err)
	token, err := framed(tokenError, b)
	iferr.Fatal(t, err)
	_, err = e.Next(token)
	checkError(t, err, true, "zookeeper/localhost@EXAMPLE.COM as svc@EXAMPLE.COM", "the server refuses the ticket", "KRB_AP_ERR_MODIFIED")
}

// FuzzNext: no token that a fuzzer finds makes the client panic, or is accepted.
func FuzzNext(f *testing.F) {
	tk, _ := service(f)
	f.Add([]byte{}, 1)
	f.Add([]byte{0x60, 0x0d, 6, 9, 42, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2, 2, 0}, 1)
	f.Add([]byte{5, 4, 1, 0xff, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 2)
	f.Add([]byte{5, 4, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 7}, 2)
	f.Fuzz(func(t *testing.T, token []byte, step int) {
		e, err := newExchange(tk)
		iferr.Fatal(t, err)
		e.step = 1 + step&1
		if got, err := e.Next(token); err == nil {
			t.Errorf("step %d accepts %x, and answers %x", e.step, token, got)
		}
	})
}

// FuzzFiles: no keytab, credential cache or krb5.conf makes the client panic.
func FuzzFiles(f *testing.F) {
	f.Add([]byte("\x05\x04\x00\x0c\x00\x01\x00\x08"))
	f.Add([]byte("\x05\x02\x00\x00\x00\x10"))
	f.Add([]byte("[libdefaults]\ninclude x\n[realms]\nA = {\n}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := file(t, "file", string(data))
		client, err := parsePrincipal("svc", "EXAMPLE.COM")
		iferr.Fatal(t, err)
		_, _ = readKeytab(path, client)
		_, _ = readCache(path, "", "")
		_, _ = readConf(path)
	})
}
