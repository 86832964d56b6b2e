package kerberos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The exchanges with the KDC do not use the library's client: it takes no context, renews tickets in
// a goroutine, and reduces the KDC's errors to text.

// aes has the encryption types that the client requests. Java before 11 does not know the last two.
var aes = []int32{
	etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA1_96,
	etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.AES128_CTS_HMAC_SHA256_128,
}

// loginService returns the principal of a realm's ticket-granting service.
func loginService(realm string) principal {
	return principal{types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}}, realm}
}

// logIn gets a ticket-granting ticket for the client, with a key of the keytab (RFC 4120, 3.1).
func logIn(ctx context.Context, env *environment, client principal, keys *keytab.Keytab) (t *ticket, err error) {
	defer recovered(&err)
	req, err := messages.NewASReqForTGT(client.realm, env.Config, client.name)
	if err != nil {
		return nil, err
	}
	req.ReqBody.EType = slices.DeleteFunc(slices.Clone(aes), func(etype int32) bool {
		_, _, err := keys.GetEncryptionKey(client.name, client.realm, 0, etype)
		return err != nil
	})
	answer, err := sendLogin(ctx, env, req)
	if refused := new(messages.KRBError); errors.As(err, refused) && refused.ErrorCode == errorcode.KDC_ERR_PREAUTH_REQUIRED {
		if err := addProof(&req, client, keys, refused); err != nil {
			return nil, denied(err)
		}
		answer, err = sendLogin(ctx, env, req)
	}
	if err != nil {
		return nil, explain(err, env, client, client)
	}
	var rep messages.ASRep
	if err := rep.Unmarshal(answer); err != nil {
		return nil, fmt.Errorf("the KDC's answer: %w", err)
	}
	creds := credentials.NewFromPrincipalName(client.name, client.realm).WithKeytab(keys)
	if ok, err := rep.Verify(env.Config, creds, req); !ok {
		if d := rep.DecryptedEncPart; !d.AuthTime.IsZero() && time.Since(d.AuthTime).Abs() > env.LibDefaults.Clockskew {
			return nil, denied(skew(d.AuthTime, env.LibDefaults.Clockskew))
		}
		return nil, denied(fmt.Errorf("the KDC's answer cannot be decrypted with the keytab's key of %s: %s (%w)", client, newKeytab, err))
	}
	return newTicket(rep.KDCRepFields, client), nil
}

func sendLogin(ctx context.Context, env *environment, req messages.ASReq) ([]byte, error) {
	b, err := req.Marshal()
	if err != nil {
		return nil, err
	}
	return ask(ctx, env, req.ReqBody.Realm, b)
}

// addProof adds the time, encrypted with the client's key, as the KDC requires before it answers.
// refused has the KDC's hints.
func addProof(req *messages.ASReq, client principal, keys *keytab.Keytab, refused *messages.KRBError) error {
	etypes := req.ReqBody.EType
	var hints types.PADataSequence
	if err := hints.Unmarshal(refused.EData); err != nil {
		return fmt.Errorf("the KDC's hints for the login: %w", err)
	}
	for _, hint := range hints {
		if hint.PADataType != patype.PA_ETYPE_INFO2 {
			continue
		}
		infos, err := hint.GetETypeInfo2()
		if err != nil {
			return fmt.Errorf("the KDC's hints for the login: %w", err)
		}
		etypes = nil
		for _, info := range infos {
			if slices.Contains(req.ReqBody.EType, info.EType) {
				etypes = append(etypes, info.EType)
			}
		}
	}
	if len(etypes) == 0 {
		return fmt.Errorf("the keytab's keys of %s are not of the types that the KDC has: %s", client, newKeytab)
	}
	key, version, err := keys.GetEncryptionKey(client.name, client.realm, 0, etypes[0])
	if err != nil {
		return err
	}
	stamp, err := types.GetPAEncTSEncAsnMarshalled()
	if err != nil {
		return err
	}
	sealed, err := crypto.GetEncryptedData(stamp, key, keyusage.AS_REQ_PA_ENC_TIMESTAMP, version)
	if err != nil {
		return err
	}
	proof, err := sealed.Marshal()
	if err != nil {
		return err
	}
	req.PAData = append(req.PAData, types.PAData{PADataType: patype.PA_ENC_TIMESTAMP, PADataValue: proof})
	return nil
}

// mostReferrals limits the realms on the way to a service.
const mostReferrals = 5

// requestService gets a ticket for a service (RFC 4120, 3.3). The service's realm may be another
// one that the client's realm trusts, directly or by referrals (RFC 6806, 8).
func requestService(ctx context.Context, env *environment, login *ticket, service principal) (t *ticket, err error) {
	defer recovered(&err)
	for range mostReferrals {
		realm := login.service.name.NameString[1] // the realm whose KDC accepts login
		want := service
		if service.realm != realm {
			want = principal{loginService(service.realm).name, realm}
		}
		t, err := requestTicket(ctx, env, login, want)
		if err != nil {
			return nil, explain(err, env, login.client, want)
		}
		if t.service.name.Equal(service.name) {
			return t, nil
		}
		if n := t.service.name.NameString; len(n) == 2 && n[0] == "krbtgt" && n[1] != realm {
			if service.realm == realm {
				service.realm = n[1]
			}
			login = t
			continue
		}
		return nil, fmt.Errorf("the KDC of %s answers with a ticket for %s to a request for %s", realm, t.service, want)
	}
	return nil, denied(fmt.Errorf("the way to %s leads over more than %d realms: correct [domain_realm] in %s", service, mostReferrals, env.file))
}

// requestTicket gets one ticket from the KDC that accepts the login's ticket.
func requestTicket(ctx context.Context, env *environment, login *ticket, service principal) (*ticket, error) {
	cfg := *env.Config
	cfg.LibDefaults.Canonicalize = true // permits referrals
	cfg.LibDefaults.DefaultTGSEnctypeIDs = aes
	realm := login.service.name.NameString[1]
	req, err := messages.NewTGSReq(login.client.name, realm, &cfg, login.Ticket, login.key, service.name, false)
	if err != nil {
		return nil, err
	}
	b, err := req.Marshal()
	if err != nil {
		return nil, err
	}
	answer, err := ask(ctx, env, realm, b)
	if err != nil {
		return nil, err
	}
	var rep messages.TGSRep
	if err := rep.Unmarshal(answer); err != nil {
		return nil, fmt.Errorf("the KDC's answer: %w", err)
	}
	if err := rep.DecryptEncPart(login.key); err != nil {
		return nil, fmt.Errorf("the KDC's answer: %w", err)
	}
	if ok, err := rep.Verify(&cfg, req); !ok {
		return nil, fmt.Errorf("the KDC's answer: %w", err)
	}
	if !rep.DecryptedEncPart.SName.Equal(rep.Ticket.SName) {
		return nil, fmt.Errorf("the KDC's answer is for %s, and its ticket for %s", rep.DecryptedEncPart.SName.PrincipalNameString(), rep.Ticket.SName.PrincipalNameString())
	}
	return newTicket(rep.KDCRepFields, login.client), nil
}

func newTicket(rep messages.KDCRepFields, client principal) *ticket {
	d := rep.DecryptedEncPart
	start := d.StartTime
	if start.IsZero() {
		start = d.AuthTime
	}
	return &ticket{Ticket: rep.Ticket, client: client, service: principal{rep.Ticket.SName, rep.Ticket.Realm}, key: d.Key, start: start, end: d.EndTime}
}

const (
	kdcTimeout = 5 * time.Second // time limit of one try of one KDC
	mostReply  = 1 << 20         // most bytes of an answer
)

// noKDC is the error if no KDC answers.
type noKDC struct {
	realm string
	tries []error
}

func (e *noKDC) Error() string {
	return fmt.Sprintf("no KDC of %s answers: %v", e.realm, strings.ReplaceAll(errors.Join(e.tries...).Error(), "\n", "; "))
}

func (e *noKDC) Unwrap() []error { return e.tries }

// ask sends a request to the KDCs of a realm, by TCP and then by UDP, until one answers. If the
// answer is an error, ask fails with the [messages.KRBError]; if no KDC answers, with a noKDC. An
// error that says "unavailable" or "too big for UDP" counts as no answer.
func ask(ctx context.Context, env *environment, realm string, request []byte) ([]byte, error) {
	servers, err := kdcs(ctx, env, realm)
	if err != nil {
		return nil, err
	}
	if i := slices.Index(servers, env.known[realm]); i > 0 {
		servers[0], servers[i] = servers[i], servers[0]
	}
	failed := &noKDC{realm: realm}
	for i, network := range []string{"tcp", "udp"} {
		for j, server := range servers {
			// Each try leaves time for the tries after it.
			limit := kdcTimeout
			if end, ok := ctx.Deadline(); ok {
				limit = min(limit, time.Until(end)/time.Duration((2-i)*len(servers)-j))
			}
			answer, err := askOne(ctx, limit, network, server, request)
			if err != nil {
				failed.tries = append(failed.tries, fmt.Errorf("%s %s: %w", network, server, err))
				continue
			}
			env.known[realm] = server
			var refused messages.KRBError
			switch err := refused.Unmarshal(answer); {
			case err != nil:
				return answer, nil
			case refused.ErrorCode == errorcode.KDC_ERR_SVC_UNAVAILABLE || refused.ErrorCode == errorcode.KRB_ERR_RESPONSE_TOO_BIG:
				failed.tries = append(failed.tries, fmt.Errorf("%s %s: %w", network, server, refused))
			default:
				return nil, refused
			}
		}
		if ctx.Err() != nil {
			failed.tries = append(failed.tries, context.Cause(ctx))
			break
		}
	}
	return nil, failed
}

// lookupSRV asks DNS. Tests replace it.
var lookupSRV = net.DefaultResolver.LookupSRV

// kdcs returns the addresses of a realm's KDCs: those in krb5.conf, or else those in DNS.
func kdcs(ctx context.Context, env *environment, realm string) (servers []string, err error) {
	for _, r := range env.Realms {
		if r.Realm == realm {
			servers = append(servers, r.KDC...)
		}
	}
	for i, s := range servers {
		if _, _, err := net.SplitHostPort(s); err != nil { // an IPv6 address, to which the library adds no port
			servers[i] = net.JoinHostPort(strings.Trim(s, "[]"), "88")
		}
	}
	if len(servers) > 0 {
		return servers, nil
	}
	unknown := func(dns string) error {
		return denied(fmt.Errorf("where are the KDCs of the realm %s? %s has none of it in [realms], and %s: add it there, or correct the realm in the principal or in default_realm", realm, env.file, dns))
	}
	if !env.LibDefaults.DNSLookupKDC {
		return nil, unknown("its dns_lookup_kdc = false forbids to ask DNS")
	}
	_, records, err := lookupSRV(ctx, "kerberos", "tcp", realm)
	if err == nil {
		for _, r := range records {
			servers = append(servers, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), fmt.Sprint(r.Port)))
		}
		return servers, nil
	}
	return nil, unknown(fmt.Sprintf("DNS does not tell (%v)", err))
}

// askOne sends a request to one KDC, and returns its answer.
func askOne(ctx context.Context, limit time.Duration, network, server string, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, network, server)
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	if network == "udp" {
		return askUDP(c, request)
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return nil, withoutAddress(err)
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, withoutAddress(err)
	}
	length := binary.BigEndian.Uint32(head[:])
	if length == 0 || length > mostReply {
		return nil, fmt.Errorf("it is no KDC: an answer of %d bytes", length)
	}
	answer := make([]byte, length)
	_, err = io.ReadFull(c, answer)
	return answer, withoutAddress(err)
}

func askUDP(c net.Conn, request []byte) ([]byte, error) {
	if _, err := c.Write(request); err != nil {
		return nil, withoutAddress(err)
	}
	answer := make([]byte, 64<<10)
	n, err := c.Read(answer)
	return answer[:n], withoutAddress(err)
}

// withoutAddress returns an error of package net without the addresses, which the caller adds.
func withoutAddress(err error) error {
	if e := (*net.OpError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

const newKeytab = "the keytab is outdated or made with another password: make a new one (kadmin: ktadd)"

// skew returns the error for a clock that differs from the KDC's by more than limit. kdc is the
// KDC's time.
func skew(kdc time.Time, limit time.Duration) error {
	ahead, how := time.Since(kdc).Round(time.Second), "ahead of"
	if ahead < 0 {
		ahead, how = -ahead, "behind"
	}
	return fmt.Errorf("this machine's clock is %v %s the KDC's, and Kerberos permits %v: synchronize both by NTP (KRB_AP_ERR_SKEW)", ahead, how, limit)
}

// explain adds a remedy to an error of an exchange with the KDC. about is the requested principal.
func explain(err error, env *environment, client, about principal) error {
	if lost := (*noKDC)(nil); errors.As(err, &lost) {
		return fmt.Errorf("%w: see that one runs, that [realms] in %s names it, and that no firewall is in the way", err, env.file)
	}
	var refused messages.KRBError
	if !errors.As(err, &refused) {
		return err
	}
	hint := ""
	switch refused.ErrorCode {
	case errorcode.KRB_AP_ERR_SKEW:
		return denied(skew(refused.STime.Add(time.Duration(refused.Susec)*time.Microsecond), env.LibDefaults.Clockskew))
	case errorcode.KDC_ERR_C_PRINCIPAL_UNKNOWN:
		hint = fmt.Sprintf("the KDC does not know the client %s: correct zookeeper.sasl.principal (Principal), or create it (kadmin: addprinc)", client)
	case errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN, errorcode.KDC_ERR_SERVER_NOMATCH:
		// Not denied: another server of the ensemble may have a principal.
		return fmt.Errorf("the KDC does not know the service %s: name the servers in zookeeper.servers as their principals do, correct zookeeper.sasl.service (Service), or create the principal (kadmin: addprinc -randkey) (%w)", about, err)
	case errorcode.KDC_ERR_PREAUTH_FAILED, errorcode.KRB_AP_ERR_BAD_INTEGRITY:
		hint = fmt.Sprintf("the KDC refuses the key of %s: %s", client, newKeytab)
	case errorcode.KRB_AP_ERR_TKT_EXPIRED:
		hint = fmt.Sprintf("the ticket of %s has expired: run kinit; if it has not, compare this machine's clock with the KDC's", client)
	case errorcode.KDC_ERR_KEY_EXPIRED, errorcode.KDC_ERR_NAME_EXP:
		hint = fmt.Sprintf("%s or its password has expired: have it renewed (kadmin: modprinc, cpw), and make a new keytab", client)
	case errorcode.KDC_ERR_CLIENT_REVOKED:
		hint = fmt.Sprintf("%s is locked: have it unlocked (kadmin: modprinc -unlock)", client)
	case errorcode.KDC_ERR_ETYPE_NOSUPP:
		hint = fmt.Sprintf("the KDC has no AES key of %s, and other types are not supported: change its password, so that it gets one", about)
	case errorcode.KDC_ERR_WRONG_REALM:
		hint = fmt.Sprintf("%s is in another realm (%s): correct zookeeper.sasl.principal (Principal)", client, refused.CRealm)
	default:
		return denied(fmt.Errorf("the KDC refuses %s a ticket for %s: %w", client, about, err))
	}
	return denied(fmt.Errorf("%s (%w)", hint, err))
}
