// Options, names, policies and the texts of tokens: defaults, and what is refused.

package lock_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestBadOptions: Dial and New refuse each bad option at once. The error has the argument, the
// value and the rule.
func TestBadOptions(t *testing.T) {
	long := strings.Repeat("x", 5000)
	pairs := map[string]string{}
	for i := range 65 {
		pairs[strings.Repeat("k", i+1)] = ""
	}
	for _, tt := range []struct {
		name   string
		option lock.Option
		says   []string
	}{
		{"empty root", lock.WithRoot(""), []string{`root ""`, "must start with a slash"}},
		{"relative root", lock.WithRoot("locks"), []string{`root "locks"`, "must start with a slash"}},
		{"top root", lock.WithRoot("/"), []string{`root "/"`, "node of their own"}},
		{"slash behind", lock.WithRoot("/locks/"), []string{`root "/locks/"`, "empty component"}},
		{"two slashes", lock.WithRoot("/a//b"), []string{`root "/a//b"`, "empty component"}},
		{"dots", lock.WithRoot("/a/../b"), []string{`"/a/../b"`, `".." is relative`}},
		{"ZooKeeper's own", lock.WithRoot("/zookeeper/locks"), []string{"belongs to ZooKeeper itself"}},
		{"control character", lock.WithRoot("/a\x01"), []string{"U+0001"}},
		{"long root", lock.WithRoot("/" + long), []string{"5001 bytes", "at most 512"}},
		{"no TTL", lock.WithTTL(0), []string{"ttl 0s", "at least 100ms"}},
		{"negative TTL", lock.WithTTL(-time.Second), []string{"ttl -1s", "at least 100ms"}},
		{"short TTL", lock.WithTTL(99 * time.Millisecond), []string{"ttl 99ms", "at least 100ms"}},
		{"fine TTL", lock.WithTTL(time.Second + time.Microsecond), []string{"ttl 1.000001s", "whole milliseconds"}},
		{"no grace", lock.WithGrace(0), []string{"grace 0s", "at least 100ms"}},
		{"short grace", lock.WithGrace(lock.MinGrace - time.Millisecond), []string{"grace 99ms", "at least 100ms"}},
		{"fine grace", lock.WithGrace(time.Second + 1), []string{"grace 1.000000001s", "whole milliseconds"}},
		{"long grace", lock.WithGrace(2 * time.Hour), []string{"grace 2h0m0s", "max_ttl, which is 1h0m0s"}},
		{"long TTL", lock.WithTTL(lock.MaxTime + time.Hour), []string{"ttl 8761h0m0s", "at most 8760h"}},
		{"very long grace", lock.WithGrace(lock.MaxTime + time.Hour), []string{"grace 8761h0m0s", "at most 8760h"}},
		{"no logger", lock.WithSlog(nil), []string{"logger", "must not be nil"}},
		{"empty logger", lock.WithSlog(new(slog.Logger)), []string{"logger", "must not be nil"}},
		{"no observer", lock.WithObserver(nil), []string{"observer", "must not be nil"}},
		{"no policies", lock.WithPolicies(nil), []string{"policies", "must not be nil"}},
		{"no ACL", lock.WithACL(), []string{"acl []", "must not be empty"}},
		{"no user", lock.WithDigest("", "p"), []string{`digest user ""`, "must not be empty"}},
		{"no password", lock.WithDigest("u", ""), []string{`digest user "u"`, "must not be empty"}},
		{"no SASL", lock.WithSASL(nil), []string{"SASL", "must not be nil"}},
		{"no further users", lock.WithFurtherUsers(), []string{"further users", "must not be empty"}},
		{"further users of all", lock.WithFurtherUsers(zk.DigestACL(zk.PermAll, "u", "p")...), []string{"WithFurtherUsers", "must be given with WithDigest"}},
		{"no SASL user", lock.WithSASLDigest("", "p"), []string{`SASL user ""`, "must not be empty"}},
		{"no SASL password", lock.WithSASLDigest("u", ""), []string{`SASL user "u"`, "must not be empty"}},
		{"user with a colon", lock.WithDigest("a:b", "p"), []string{`digest user "a:b"`, "must not have a colon"}},
		{"no owner", lock.WithOwner(""), []string{"owner is empty"}},
		{"long owner", lock.WithOwner(long), []string{"5000 bytes", "at most 256"}},
		{"odd owner", lock.WithOwner("\xff"), []string{"not valid UTF-8"}},
		{"much metadata", lock.WithMetadata(map[string]string{"k": long}), []string{"5001 bytes", "at most 4096"}},
		{"many pairs", lock.WithMetadata(pairs), []string{"65 pairs", "at most 64"}},
		{"empty key", lock.WithMetadata(map[string]string{"": "v"}), []string{"empty key", `"v"`}},
		{"odd value", lock.WithMetadata(map[string]string{"k": "\xff"}), []string{`"k"`, "not valid UTF-8"}},
		{"no unlock timeout", lock.WithUnlockTimeout(0), []string{"unlock timeout 0s", "must be positive"}},
		{"endless unlock timeout", lock.WithUnlockTimeout(math.MaxInt64), []string{"unlock timeout 2562047h47m16.854775807s", "at most 8760h"}},
		{"short session", lock.WithSessionTimeout(time.Millisecond), []string{"session timeout 1ms", "at least 100ms"}},
		{"long session", lock.WithSessionTimeout(597 * time.Hour), []string{"session timeout 597h0m0s", "at most 596h"}},
		{"no dialer", lock.WithDialer(nil), []string{"dialer", "must not be nil"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fails(t, second(lock.Dial(soon(t), []string{"127.0.0.1:1"}, tt.option)), lock.ErrInvalid, append(tt.says, "invalid argument")...)
			mustBe(t, second(lock.New(new(zk.Conn), tt.option)), lock.ErrInvalid)
		})
	}
	both := []lock.Option{lock.WithPolicies(policies{}), lock.WithTTL(ttl)}
	for range 2 {
		fails(t, second(lock.Dial(soon(t), []string{"127.0.0.1:1"}, both...)), lock.ErrInvalid, "WithPolicies with WithTTL or WithGrace", "give WithTTL to a single lock")
		both = []lock.Option{lock.WithGrace(grace), lock.WithPolicies(policies{})}
	}
	user := lock.WithSASLDigest("u", "p")
	fails(t, second(lock.Dial(soon(t), []string{"127.0.0.1:1"}, user, user)), lock.ErrInvalid, "WithSASL", "must be given once")
	for _, servers := range [][]string{nil, {""}, {"a:1", " "}, {"a:1,b:1"}, {"zk://a:1"}, {"a b:1"}, {"a:99999"}, {"::1"}} {
		fails(t, second(lock.Dial(soon(t), servers)), lock.ErrInvalid, "server")
	}
	fails(t, second(lock.Dial(soon(t), []string{"h1:2181,h2:2181/chroot"})), lock.ErrInvalid, `server "h1:2181,h2:2181/chroot"`, "one server each", "no chroot")
	_, err := lock.Dial(nil, []string{"127.0.0.1:1"}) //lint:ignore SA1012 it is what is tested
	fails(t, err, lock.ErrInvalid, "context", "must not be nil")
	fails(t, second(lock.New(nil)), lock.ErrInvalid, "connection", "must not be nil")
	for _, o := range []lock.Option{lock.WithDigest("u", "p"), lock.WithDialer(zk.Dialer(new(locktest.Ensemble).Dial)), lock.WithTLS(new(tls.Config)), lock.WithSASLDigest("u", "p")} {
		fails(t, second(lock.New(new(zk.Conn), o)), lock.ErrInvalid, "WithDigest, WithSASL, WithDialer or WithTLS", "is for Dial", "AddAuth")
	}
	fails(t, second(lock.New(new(zk.Conn), lock.WithReconfiguration())), lock.ErrInvalid, "WithReconfiguration", "is for Dial", "the caller's connection chooses its servers")
}

// soon returns a context that ends after a minute, for calls that must fail before they wait.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestBadNamesAndLockOptions: the first use of a lock with a bad name or option returns ErrInvalid
// with the rule, and so does Validate, whatever else is wrong with the call. Neither sends a request.
func TestBadNamesAndLockOptions(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, MaxTTL: 2 * ttl, Grace: grace, MaxHold: ttl}))
		for _, tt := range []struct {
			name   string
			option lock.LockOption
			says   []string
		}{
			{"", nil, []string{"lock name is empty"}},
			{"/x", nil, []string{`"/x"`, "must not start with a slash"}},
			{"x/", nil, []string{`"x/"`, "empty component"}},
			{"x//y", nil, []string{"empty component"}},
			{"x/./y", nil, []string{`"." is relative`}},
			{"..", nil, []string{`".." is relative`}},
			{"x\x00", nil, []string{"U+0000"}},
			{"x\u0080", nil, []string{"U+0080"}},
			{"\xff", nil, []string{"not valid UTF-8"}},
			{"x/lock-0000000001", nil, []string{`"lock-0000000001"`, "taken for a lock entry"}},
			{"0123456789abcdef-lock-0000000001/x", nil, []string{"taken for a lock entry"}},
			{strings.Repeat("x", 513), nil, []string{"513 bytes", "at most 512"}},
			{"x", lock.WithTTL(0), []string{`lock "x"`, "ttl 0s", "at least 100ms"}},
			{"x", lock.WithTTL(math.MaxInt64), []string{`lock "x"`, "ttl", "at most 8760h"}},
			{"x", lock.WithTTL(2*ttl + time.Millisecond), []string{`lock "x"`, "ttl 20.001s", "max_ttl, which is 20s"}},
			{"x", lock.WithTTL(ttl + time.Second), []string{`lock "x"`, "max_hold 10s", "at least ttl, which is 11s"}},
			{"x", lock.WithMaxHold(-1), []string{`lock "x"`, "max_hold -1ns"}},
			{"x", lock.WithMaxHold(ttl - time.Millisecond), []string{`lock "x"`, "max_hold 9.999s"}},
			{"x", lock.WithMaxHold(ttl + 1), []string{`lock "x"`, "max_hold 10.000000001s"}},
			{"x", lock.WithMaxHold(lock.MaxTime + time.Millisecond), []string{`lock "x"`, "max_hold 8760h0m0.001s"}},
			{"x", lock.WithMetadata(map[string]string{"": ""}), []string{`lock "x"`, "empty key"}},
		} {
			cost := w.cost("a", func() {
				m := a.Mutex(tt.name, tt.option)
				fails(t, second(m.Lock(w.ctx)), lock.ErrInvalid, tt.says...)
				mustBe(t, second(m.TryLock(w.ctx)), lock.ErrInvalid)
				for kind, err := range map[string]error{
					"Mutex": m.Validate(), "RWMutex": a.RWMutex(tt.name, tt.option).Validate(),
					"Semaphore": a.Semaphore(tt.name, 3, tt.option).Validate(), "Election": a.Election(tt.name, tt.option).Validate(),
					"All": a.All([]string{"fine", tt.name}, tt.option).Validate(),
				} {
					if mustBe(t, err, lock.ErrInvalid); err != nil && !strings.Contains(err.Error(), tt.says[0]) && kind != "All" {
						t.Errorf("%s: %v", kind, err)
					}
				}
			})
			equal(t, "cost", cost.total(), 0)
		}
		barging := a.Mutex("x", lock.WithTTL(1)).WithBarging()
		mustBe(w, second(barging.TryLock(w.ctx)), barging.Validate())
		ended, cancel := context.WithCancel(w.ctx)
		cancel()
		fails(w, a.Revoke(ended, strings.Repeat("x", 1<<20), ""), lock.ErrInvalid, "1048576 bytes", "at most 512")
	})
}

// TestPolicies: the defaults of a policy; a lock with a bad policy from the program's own code is refused.
// The error has the field, the value and the rule.
func TestPolicies(t *testing.T) {
	for p, want := range map[lock.Policy]lock.Policy{
		{}:                   {Name: "default", TTL: 30 * time.Second, MaxTTL: time.Hour, Grace: 2 * time.Second, LocalWindow: 10 * time.Millisecond},
		{TTL: 2 * time.Hour}: {Name: "default", TTL: 2 * time.Hour, MaxTTL: 2 * time.Hour, Grace: 2 * time.Second, LocalWindow: 10 * time.Millisecond},
		{Name: "p", TTL: ttl, MaxTTL: time.Minute, Grace: grace, MaxHold: time.Hour, KeepParent: true, LocalWindow: lock.NoLocalWindow}: {Name: "p", TTL: ttl, MaxTTL: time.Minute, Grace: grace, MaxHold: time.Hour, KeepParent: true, LocalWindow: lock.NoLocalWindow},
	} {
		got := p.WithDefaults()
		equal(t, "policy", got, want)
		mustBe(t, got.Validate(), nil)
	}
	simulate(t, locktest.Options{}, func(w *world) {
		for p, says := range map[lock.Policy]string{
			{TTL: time.Millisecond}:             "ttl 1ms: must be at least 100ms",
			{TTL: -1}:                           "ttl -1ns: must be at least 100ms",
			{TTL: time.Minute, MaxTTL: ttl}:     "ttl 1m0s: must be at most max_ttl, which is 10s",
			{MaxTTL: time.Millisecond}:          "max_ttl 1ms: must be at least 100ms",
			{Grace: time.Millisecond}:           "grace 1ms: must be at least 100ms",
			{Grace: 2 * time.Hour}:              "grace 2h0m0s: must be at most max_ttl, which is 1h0m0s",
			{TTL: time.Minute, MaxHold: ttl}:    "max_hold 10s: must be at least ttl, which is 1m0s",
			{MaxHold: -time.Second}:             "max_hold -1s: must be at least 0s",
			{TTL: lock.MaxTime + time.Hour}:     "8761h0m0s: must be at most 8760h",
			{MaxHold: lock.MaxTime + time.Hour}: "max_hold 8761h0m0s: must be at most 8760h",
			{TTL: ttl, Grace: grace, MaxTTL: 1}: "max_ttl 1ns: must be at least 100ms",
		} {
			c := w.dial("a", lock.WithPolicies(policies(p)))
			fails(t, second(c.Mutex("x").Lock(w.ctx)), lock.ErrInvalid, `lock "x"`, says)
			err := p.WithDefaults().Validate()
			isTrue(t, err != nil && strings.Contains(err.Error(), says), "%+v: %v, want %s", p, err, says)
		}
	})
}

// TestOptionsApply: the nodes that a client writes have the root, TTL, owner, metadata and ACL of
// its options. A later change of a map that was given as metadata, or returned as such, changes no entry.
func TestOptionsApply(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		acl := zk.WorldACL(zk.PermRead | zk.PermWrite | zk.PermCreate | zk.PermDelete)
		data := map[string]string{"a": "1"}
		c, err := lock.Dial(w.ctx, w.Servers(), lock.WithDialer(w.Dialer("a")), nil, lock.WithRoot("/top/locks"), lock.WithTTL(5*time.Second),
			lock.WithGrace(3*time.Second), lock.WithOwner("Zoë's job"), lock.WithMetadata(data), lock.WithACL(acl...))
		w.ok(err)
		data["a"], data["c"] = "changed", "late"
		defer c.Close()
		h := w.lock(c, "x/y", lock.WithMetadata(map[string]string{"b": "<2>"}))
		isTrue(t, strings.HasPrefix(h.EntryPath(), "/top/locks/x/y/"), "entry %s", h.EntryPath())
		for _, n := range w.Dump("/top") {
			isTrue(t, len(n.ACL) != 0 && n.ACL[0].Perms == acl[0].Perms && n.ACL[0].Scheme == "world", "ACL of %s: %v", n.Path, n.ACL)
		}
		for path, kind := range map[string]znode.Kind{"/top": znode.Dir, "/top/locks": znode.Dir, "/top/locks/x": znode.Dir, "/top/locks/x/y": znode.Mutex} {
			p, err := znode.DecodeParent(w.node(path).Data)
			isTrue(t, err == nil && p.Kind == kind, "%s: %+v, %v; want a %s", path, p, err, kind)
		}
		r := w.record(h.EntryPath())
		now := time.Now().UnixMilli()
		isTrue(t, r.Owner == "Zoë's job" && r.TTL == 5000, "record %+v", r)
		isTrue(t, len(r.Metadata) == 2 && r.Metadata["a"] == "1" && r.Metadata["b"] == "<2>", "record %+v", r)
		inRange(t, "lease ends at", r.ExpiresAt, now+5000-2, now+5000+2)
		w.unlock(h)
		h = w.lock(c, "x/y", lock.WithTTL(7*time.Second))
		equal(t, "TTL of the record", w.record(h.EntryPath()).TTL, 7000)
		w.unlock(h)

		given, described := map[string]string{"job": "1"}, map[string]string{"job": "2"}
		with := lock.WithMetadata(given)
		x := w.lock(c, "x", with)
		given["job"], x.Metadata()["job"] = "changed", "changed"
		y := w.lock(c, "y", with)
		w.ok(admin.Describe(w.ctx, x, described))
		described["job"] = "changed"
		time.Sleep(ttl) // renewals write the records again
		equal(t, "metadata of x", w.record(x.EntryPath()).Metadata["job"], "2")
		equal(t, "metadata of y", w.record(y.EntryPath()).Metadata["job"], "1")
	})
}

// TestShortTTLIsWarnedOf: a TTL that is too short for a stalled connection is logged with the
// numbers, and again only if another one is less than half of it.
func TestShortTTLIsWarnedOf(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.unlock(w.lock(a, "x"))
		w.unlock(w.lock(a, "x", lock.WithTTL(sessionTimeout)))
		isTrue(t, !strings.Contains(w.logged(), "shorter than the session timeout"), "warned of a TTL that is long enough")
		for range 3 {
			w.unlock(w.lock(a, "x", lock.WithTTL(3*time.Second)))
			w.unlock(w.lock(a, "y", lock.WithTTL(time.Second)))
			w.unlock(w.lock(a, "z", lock.WithTTL(2*time.Second)))
		}
		equal(t, "warnings of two TTLs", strings.Count(w.logged(), "shorter than the session timeout"), 2)
		mustSay(t, errors.New(w.logged()), `"ttl":"3s"`, `"session_timeout":"6s"`,
			`"dead_connection_noticed_after":"4s"`, `"left_of_ttl_at_a_renewal":"2s"`)
	})
}

// TestNoRoomForValue: an election whose metadata leaves no room for a value is refused by Validate,
// not only by Campaign.
func TestNoRoomForValue(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		pairs := map[string]string{}
		for i := range 64 {
			pairs[strings.Repeat("k", i+1)] = ""
		}
		for what, m := range map[string]map[string]string{"65 pairs": pairs, "4110 bytes": {"k": strings.Repeat("x", 4095)}} {
			w.ok(a.Mutex("x", lock.WithMetadata(m)).Validate())
			e := a.Election("x", lock.WithMetadata(m))
			fails(w, e.Validate(), lock.ErrInvalid, `lock "x"`, what)
			mustBe(w, second(e.Campaign(w.ctx, "")), e.Validate())
		}
		most := strings.Repeat("v", 4096-len("election.value"))
		l, err := a.Election("x").Campaign(w.ctx, most)
		w.ok(err)
		mustBe(w, l.Proclaim(w.ctx, most+"v"), lock.ErrInvalid)
		w.ok(l.Resign())
	})
}

// TestOptionsOfEveryLock: one slice of options fits a client and each kind of lock. A lock's own options
// go before those of its client. Validate returns nil for usable locks, and ErrInvalid for zero locks and
// for arguments that are not allowed.
func TestOptionsOfEveryLock(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		opts := []lock.LockOption{lock.WithTTL(7 * time.Second), nil, lock.WithMetadata(map[string]string{"a": "1"})}
		c, err := lock.Dial(w.ctx, w.Servers(), lock.WithDialer(w.Dialer("a")), lock.WithDefaults(opts...))
		w.ok(err)
		defer c.Close()
		r := w.record(w.lock(c, "x").EntryPath())
		isTrue(t, r.TTL == 7000 && r.Metadata["a"] == "1", "record %+v", r)
		equal(t, "TTL", w.record(w.lock(c, "y", lock.WithTTL(8*time.Second)).EntryPath()).TTL, 8000)
		for _, err := range []error{
			c.Mutex("x", opts...).Validate(), c.RWMutex("x", opts...).Validate(), c.Semaphore("x", 1, opts...).Validate(),
			c.Election("x", opts...).Validate(), c.All([]string{"y", "x"}, opts...).Validate(), c.Any([]string{"x"}, opts...).Validate(),
			c.Mutex("x", lock.WithTTL(ttl), lock.WithMaxHold(ttl)).WithBarging().Validate(),
			c.Semaphore("x", lock.MaxPermits).Validate(), c.Election("x").WithPriority(2).Validate(),
		} {
			mustBe(t, err, nil)
		}
		for _, err := range []error{
			new(lock.Mutex).Validate(), new(lock.RWMutex).Validate(), new(lock.Semaphore).Validate(), new(lock.Election).Validate(), new(lock.All).Validate(),
			c.Semaphore("x", 0).Validate(), c.Election("x").WithPriority(0).Validate(), c.Mutex("/x").WithBarging().Validate(),
			c.All([]string{"x", "x"}).Validate(), c.All(nil).Validate(),
		} {
			mustBe(t, err, lock.ErrInvalid)
		}
		_, err = lock.Dial(w.ctx, w.Servers(), lock.WithDefaults(lock.WithTTL(1)))
		fails(t, err, lock.ErrInvalid, "ttl 1ns: must be at least 100ms")
	})
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
		got, err := lock.ParseToken(tt.text)
		isTrue(t, err == nil && got == token, "%q is %#v, %v, want %#v", tt.text, got, err, token)
		type row struct{ Token lock.Token }
		data, err := json.Marshal(row{token})
		want := `{"Token":"` + tt.text + `"}`
		isTrue(t, err == nil && string(data) == want, "JSON %s, %v, want %s", data, err, want)
		var back row
		err = json.Unmarshal(data, &back)
		isTrue(t, err == nil && back.Token == token, "%s is %#v, %v, want %#v", data, back.Token, err, token)
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
		isTrue(t, second(lock.ParseToken(token.String())) != nil, "%q, which no hold has, is a token", token.String())
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
		isTrue(t, errX != nil || x.String() == a, "%q is the token of %q", a, x)
		isTrue(t, errY != nil || y.String() == b, "%q is the token of %q", b, y)
		isTrue(t, errX != nil || errY != nil || x.Compare(y) == strings.Compare(a, b), "%q, %q: tokens compare as %d", a, b, x.Compare(y))
	})
}

// FuzzTokenOrder: each token has a text, which parses to the same token, and texts sort as tokens
// do.
func FuzzTokenOrder(f *testing.F) {
	f.Add(int64(1), int32(0), int32(0), int32(0), int64(1), int32(0), int32(1), int32(0))
	f.Add(int64(1), int32(0), int32(0), int32(0), int64(1), int32(0), int32(0), int32(1))
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
