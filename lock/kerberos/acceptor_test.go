package kerberos

import (
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/holdfast-io/holdfast/lock"
)

// acceptor is the server's side of an exchange, with a keytab. Its fields make it misbehave.
type acceptor struct {
	keys   *keytab.Keytab
	subkey bool // the acceptor brings a key of its own, as Java's does
	offer  byte // security layers
	rotate uint16
	late   time.Duration // added to the time that proves the server's name

	client string // the authenticated principal
}

func newAcceptor(t *testing.T, path string) *acceptor {
	t.Helper()
	keys, err := keytab.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return &acceptor{keys: keys, subkey: true, offer: noLayer | 2 | 4}
}

// run runs an exchange to its end, and checks the client's tokens.
func (a *acceptor) run(e lock.SASLExchange) error {
	request, err := e.Next(nil)
	if err != nil {
		return err
	}
	id, content, err := parseToken(request)
	if err != nil || id != tokenRequest {
		return fmt.Errorf("the first token: %#x, %w", id, err)
	}
	var req messages.APReq
	if err := req.Unmarshal(content); err != nil {
		return err
	}
	if ok, err := req.Verify(a.keys, 5*time.Minute, types.HostAddress{}, nil); !ok {
		return err
	}
	auth := req.Authenticator
	key, flags := auth.SubKey, byte(0)
	part := messages.EncAPRepPart{CTime: auth.CTime.Add(a.late), Cusec: auth.Cusec, SequenceNumber: 7}
	if a.subkey {
		etype, err := crypto.GetEtype(key.KeyType)
		if err != nil {
			return err
		}
		if part.Subkey, err = types.GenerateEncryptionKey(etype); err != nil {
			return err
		}
		key, flags = part.Subkey, flagSubkey
	}
	reply, err := a.reply(part, req.Ticket.DecryptedEncPart.Key)
	if err != nil {
		return err
	}
	empty, err := e.Next(reply)
	if err != nil {
		return err
	}
	if empty == nil || len(empty) > 0 {
		return fmt.Errorf("the token after the server's proof: %x, want an empty one", empty)
	}
	w := gssapi.WrapToken{Flags: flags | flagAcceptor, EC: 12, SndSeqNum: 7, Payload: []byte{a.offer, 0, 0xff, 0xff}}
	if err := w.SetCheckSum(key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil {
		return err
	}
	offer, err := w.Marshal()
	if err != nil {
		return err
	}
	choice, err := e.Next(a.rotated(offer))
	if err != nil {
		return err
	}
	if err := w.Unmarshal(choice, false); err != nil {
		return err
	}
	if ok, err := w.Verify(key, keyusage.GSSAPI_INITIATOR_SEAL); !ok {
		return err
	}
	if w.Flags != flags || w.SndSeqNum != uint64(auth.SeqNumber) || string(w.Payload) != string([]byte{noLayer, 0, 0, 0}) {
		return fmt.Errorf("the choice is %+v", w)
	}
	if end, err := e.Next([]byte{}); end != nil || err != nil {
		return fmt.Errorf("after the end: %x, %w", end, err)
	}
	if more, err := e.Next(nil); more != nil || err == nil {
		return errors.New("the exchange goes on after its end")
	}
	a.client = auth.CName.PrincipalNameString() + "@" + auth.CRealm
	return nil
}

// reply returns the token that proves the server's name.
func (a *acceptor) reply(part messages.EncAPRepPart, key types.EncryptionKey) ([]byte, error) {
	plain, err := marshal(part, asnAppTag.EncAPRepPart)
	if err != nil {
		return nil, err
	}
	rep := messages.APRep{PVNO: 5, MsgType: 15}
	if rep.EncPart, err = crypto.GetEncryptedData(plain, key, keyusage.AP_REP_ENCPART, 0); err != nil {
		return nil, err
	}
	b, err := marshal(rep, asnAppTag.APREP)
	if err != nil {
		return nil, err
	}
	return framed(tokenReply, b)
}

func framed(id uint16, content []byte) ([]byte, error) {
	oid, err := asn1.Marshal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID()))
	return asn1tools.AddASNAppTag(append(binary.BigEndian.AppendUint16(oid, id), content...), 0), err
}

// rotated rotates the body of a wrap token by a.rotate bytes.
func (a *acceptor) rotated(token []byte) []byte {
	body := token[gssapi.HdrLen:]
	n := int(a.rotate) % len(body)
	head := append([]byte(nil), token[:gssapi.HdrLen]...)
	binary.BigEndian.PutUint16(head[6:], a.rotate)
	return append(append(head, body[len(body)-n:]...), body[:len(body)-n]...)
}
