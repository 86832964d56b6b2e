package kerberos

import (
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// exchange is the client's side of the authentication of one connection: mutual authentication
// (RFC 4121), and then the choice of no security layer (RFC 4752).
type exchange struct {
	ticket *ticket
	proof  types.Authenticator // the authenticator in the first token
	key    types.EncryptionKey // key of the wrap tokens
	flags  byte                // flags of the wrap tokens
	step   int                 // number of calls of Next
	stale  error               // why there is no newer ticket; nil: this one is fresh
}

func newExchange(t *ticket) (e *exchange, err error) {
	defer recovered(&err)
	proof, err := types.NewAuthenticator(t.client.realm, t.client.name)
	if err != nil {
		return nil, err
	}
	etype, err := crypto.GetEtype(t.key.KeyType)
	if err != nil {
		return nil, err
	}
	// The exchange has its own key, because other exchanges may use the same ticket.
	key, err := types.GenerateEncryptionKey(etype)
	if err != nil {
		return nil, err
	}
	proof.SubKey = key
	proof.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: contextFlags(gssapi.ContextFlagMutual | gssapi.ContextFlagInteg)}
	return &exchange{ticket: t, proof: proof, key: key}, nil
}

// contextFlags returns the authenticator's checksum field, which has the flags (RFC 4121, 4.1.1).
// There are no channel bindings.
func contextFlags(flags uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 16)
	b = append(b, make([]byte, 16)...)
	return binary.LittleEndian.AppendUint32(b, flags)
}

// Expires returns the time at which the ticket expires.
func (e *exchange) Expires() time.Time { return e.ticket.end }

// Stale returns why the exchange uses a ticket that is not fresh: the error of the request for a
// new one. It returns nil if the ticket is fresh.
func (e *exchange) Stale() error { return e.stale }

// Advice says what to do if the server refuses the last token. Only the server's log has the reason.
func (e *exchange) Advice() string {
	return fmt.Sprintf("see the server's log: its keytab must have the present key of %s (klist -kt; kadmin: ktadd), its clock must be that of the KDC, and its JAAS configuration must name this principal", e.ticket.service)
}

// Next returns the client's reply to the server's challenge; nil after the last challenge. The first
// call ignores the challenge. If the server refuses the ticket, or insists on a security layer, the
// error matches [lock.ErrDenied].
func (e *exchange) Next(challenge []byte) (token []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("kerberos: %s as %s: %w", e.ticket.service, e.ticket.client, err)
		}
	}()
	defer recovered(&err)
	e.step++
	switch e.step {
	case 1:
		return e.request()
	case 2:
		return []byte{}, e.verify(challenge)
	case 3:
		return e.layer(challenge)
	case 4:
		return nil, nil
	}
	return nil, errors.New("the exchange is over")
}

// Ids of GSS tokens (RFC 4121, 4.1 and 4.2).
const (
	tokenRequest = 0x0100
	tokenReply   = 0x0200
	tokenError   = 0x0300
)

// request returns the first token, with ticket and authenticator.
func (e *exchange) request() ([]byte, error) {
	req, err := messages.NewAPReq(e.ticket.Ticket, e.ticket.key, e.proof)
	if err != nil {
		return nil, err
	}
	types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
	b, err := req.Marshal()
	if err != nil {
		return nil, err
	}
	oid, err := asn1.Marshal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID()))
	if err != nil {
		return nil, err
	}
	return asn1tools.AddASNAppTag(append(binary.BigEndian.AppendUint16(oid, tokenRequest), b...), 0), nil
}

// parseToken returns the id and the content of a token.
func parseToken(token []byte) (id uint16, content []byte, err error) {
	var frame asn1.RawValue
	rest, err := asn1.Unmarshal(token, &frame)
	if err != nil || len(rest) > 0 || frame.Class != asn1.ClassApplication || frame.Tag != 0 {
		return 0, nil, errors.New("the server's token is none of GSSAPI")
	}
	var oid asn1.ObjectIdentifier
	content, err = asn1.Unmarshal(frame.Bytes, &oid)
	if err != nil || !oid.Equal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID())) || len(content) < 2 {
		return 0, nil, errors.New("the server's token is none of Kerberos")
	}
	return binary.BigEndian.Uint16(content), content[2:], nil
}

// verify checks the server's proof that it has the service's key. If the proof brings a key of the
// server, e uses that key for the wrap tokens.
func (e *exchange) verify(token []byte) error {
	id, content, err := parseToken(token)
	if err != nil {
		return err
	}
	if id == tokenError {
		var refused messages.KRBError
		if err := refused.Unmarshal(content); err != nil {
			return err
		}
		return denied(fmt.Errorf("the server refuses the ticket: %w", refused))
	}
	if id != tokenReply {
		return fmt.Errorf("the server answers with a token of type %#04x", id)
	}
	var rep messages.APRep
	if err := rep.Unmarshal(content); err != nil {
		return err
	}
	b, err := crypto.DecryptEncPart(rep.EncPart, e.ticket.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return fmt.Errorf("the server has not proved its name: %w", err)
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(b); err != nil {
		return err
	}
	if !part.CTime.Equal(e.proof.CTime.Truncate(time.Second)) || part.Cusec != e.proof.Cusec {
		return errors.New("the server has not proved its name: it answers another request")
	}
	if len(part.Subkey.KeyValue) > 0 {
		e.key, e.flags = part.Subkey, flagSubkey
	}
	return nil
}

// Flags of wrap tokens, and the only security layer that is accepted: none (RFC 4752, 3.3).
const (
	flagAcceptor = 1
	flagSubkey   = 4
	noLayer      = 1
)

// layer checks that the server offers to use no security layer, and returns the token that chooses
// none.
func (e *exchange) layer(token []byte) ([]byte, error) {
	offer, err := e.unwrap(token)
	if err != nil {
		return nil, fmt.Errorf("the server's offer of security layers: %w", err)
	}
	if len(offer) != 4 {
		return nil, fmt.Errorf("the server's offer of security layers has %d bytes; must be 4", len(offer))
	}
	if offer[0]&noLayer == 0 {
		return nil, denied(errors.New("the server insists on a security layer of SASL: set its javax.security.sasl.qop to auth, and use TLS"))
	}
	return e.wrap([]byte{noLayer, 0, 0, 0}) // no authorization name: the ticket's name counts
}

// unwrap checks a signed token of the server, and returns the token's content.
func (e *exchange) unwrap(token []byte) ([]byte, error) {
	if len(token) < gssapi.HdrLen {
		return nil, fmt.Errorf("a token of %d bytes", len(token))
	}
	// The checksum may be rotated to the front (RFC 4121, 4.2.5).
	if n := len(token) - gssapi.HdrLen; n > 0 {
		count := int(binary.BigEndian.Uint16(token[6:])) % n
		body := token[gssapi.HdrLen:]
		rotated := append([]byte(nil), token[:gssapi.HdrLen]...)
		token = append(append(rotated, body[count:]...), body[:count]...)
	}
	var w gssapi.WrapToken
	if err := w.Unmarshal(token, true); err != nil {
		return nil, err
	}
	if w.Flags&^flagAcceptor != e.flags {
		return nil, fmt.Errorf("a token with flags %#x; must be %#x", w.Flags, e.flags|flagAcceptor)
	}
	if ok, err := w.Verify(e.key, keyusage.GSSAPI_ACCEPTOR_SEAL); !ok {
		return nil, err
	}
	return w.Payload, nil
}

// wrap returns a signed token.
func (e *exchange) wrap(content []byte) ([]byte, error) {
	w, err := gssapi.NewInitiatorWrapToken(content, e.key)
	if err != nil {
		return nil, err
	}
	w.Flags, w.SndSeqNum, w.CheckSum = e.flags, uint64(e.proof.SeqNumber), nil
	if err := w.SetCheckSum(e.key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return nil, err
	}
	return w.Marshal()
}
