package locktest_test

import (
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// sessionCases has the scenarios of sessions and their connections.
var sessionCases = []scenario{
	{
		name: "a session outlives its connection",
		run: func(s *script) {
			c, other := s.newRaw(sessionTimeout), s.connect()
			c.must(1, s.root+"/e", []byte(nil), open, int32(1))
			gone := s.existsW(other, "/e")
			c.Close()
			next, err := s.again(c)
			s.logf("again: %v, same session %v, same password %v, same timeout %v", err,
				next.session == c.session, string(next.password) == string(c.password), next.timeout == c.timeout)
			s.quiet(other, gone)
			next.must(3, s.root+"/e", false)
			s.logf("with a wrong password")
			c.password = make([]byte, 16)
			bad, err := s.again(c)
			s.logf("again: %v, session %d, timeout %v", err, bad.session, bad.timeout)
			s.frames(bad, 1)
			s.logf("which has cut the good one's connection")
			s.frames(next, 1)
			s.logf("a second connection cuts the first")
			c.password = next.password
			first, err := s.again(c)
			s.logf("again: %v", err)
			second, err := s.again(c)
			s.logf("again: %v", err)
			s.frames(first, 1)
			second.send(1, 11)
			s.frames(second, 1)
			s.logf("to close it ends it")
			second.send(2, -11)
			s.frames(second, 2)
			s.event(gone)
			last, err := s.again(c)
			s.logf("again: %v, session %d, timeout %v", err, last.session, last.timeout)
			s.frames(last, 1)
		},
		want: `
existsW /e: c1 m1 p1 v0 cv0 av0 len0 kids0 ephemeral
again: <nil>, same session true, same password true, same timeout true
no event
with a wrong password
again: <nil>, session 0, timeout 0s
closed
which has cut the good one's connection
closed
a second connection cuts the first
again: <nil>
again: <nil>
closed
reply -2
to close it ends it
reply 2
closed
event deleted /e
again: <nil>, session 0, timeout 0s
closed
`,
	},
	{
		name: "a session expires",
		run: func(s *script) {
			other := s.connect()
			c := s.newRaw(3 * time.Second)
			c.must(1, s.root+"/e", []byte(nil), open, int32(1))
			gone := s.existsW(other, "/e")
			start := time.Now()
			// wall clock: longer than the session timeout
			for time.Since(start) < c.timeout*3/2 {
				c.send(-2, 11)
				if r := c.reply(); r.xid != -2 || r.code != 0 {
					s.t.Fatalf("ping: %v", r)
				}
				time.Sleep(c.timeout / 4) // wall clock: the pace of pings
			}
			s.quiet(other, gone)
			s.frames(c, 1)
			s.event(gone)
			dead, err := s.again(c)
			s.logf("again: %v, session %d, timeout %v, password %q", err, dead.session, dead.timeout, dead.password)
			s.frames(dead, 1)
		},
		want: `
existsW /e: c1 m1 p1 v0 cv0 av0 len0 kids0 ephemeral
no event
closed
event deleted /e
again: <nil>, session 0, timeout 0s, password "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
closed
`,
	},
	{
		name: "a client library learns that its session ended",
		run: func(s *script) {
			tap := &tap{}
			lib := connect(s.t, s.servers, func(network, address string, timeout time.Duration) (net.Conn, error) {
				conn, err := s.dial(network, address, timeout)
				return &tappedConn{conn, tap}, err
			}, sessionTimeout)
			c := lib.Conn
			s.create(c, "/e", nil, ephemeral, open)
			watch := s.getW(c, "/e")
			thief := dialRaw(s.t, s.servers, s.dial)
			thief.session, thief.password = c.SessionID(), tap.password()
			if err := thief.handshake(sessionTimeout); err != nil || thief.session != c.SessionID() {
				s.t.Fatalf("attach to session %#x: %v, session %#x", c.SessionID(), err, thief.session)
			}
			thief.send(1, -11)
			s.frames(thief, 2)
			s.event(watch)
			lib.await(zk.StateExpired, zk.StateHasSession)
			s.exists(c, "/e")
		},
		want: `
create /e: /e
getW /e: null c1 m1 p1 v0 cv0 av0 len0 kids0 ephemeral
reply 1
closed
event not watching /e
exists /e: no
`,
	},
	{
		name: "a client that has seen more than the server is refused",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			c.must(9, s.root)
			c.lastZxid += 1 << 40
			_, err := s.again(c)
			s.logf("closed: %v", isClosed(err))
			fresh := dialRaw(s.t, s.servers, s.dial)
			fresh.lastZxid = c.lastZxid
			err = fresh.handshake(sessionTimeout)
			s.logf("closed: %v", isClosed(err))
		},
		want: `
closed: true
closed: true
`,
	},
	{
		name: "frames that are no requests",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			s.logf("too short for what they ask: the connection stays")
			c.send(1, 1)
			c.send(2, 1, s.root)
			c.send(3, 4, int32(1<<20))
			c.send(4, 5, s.root, int32(-7))
			c.send(5, 14, int32(1), false)
			c.send(6, 14, int32(99), false, int32(-1))
			c.send(7, 3, int32(-1), false)
			c.send(8, 101, int64(0), int32(5))
			c.send(9, 3, s.root, false, "and something behind it")
			s.frames(c, 9)
			s.logf("an unknown operation")
			c.send(10, 77)
			s.frames(c, 2)
			s.logf("too short to be one")
			c = s.newRaw(sessionTimeout)
			c.Write(frame(int32(1)))
			s.frames(c, 1)
			s.logf("too long")
			c = s.newRaw(sessionTimeout)
			c.Write(pack(int32(1 << 20)))
			s.frames(c, 1)
			s.logf("of negative length")
			c = s.newRaw(sessionTimeout)
			c.Write(pack(int32(-1)))
			s.frames(c, 1)
			s.logf("no handshake")
			c = dialRaw(s.t, s.servers, s.dial)
			c.Write(frame(int32(0), int64(0)))
			s.frames(c, 1)
		},
		want: `
too short for what they ask: the connection stays
reply 1: code -5
reply 2: code -5
reply 3: code -5
reply 4: code -5
reply 5: code -5
reply 6: code -5
reply 7: code -5
reply 8: code -5
reply 9
an unknown operation
reply 10: code -6
closed
too short to be one
closed
too long
closed
of negative length
closed
no handshake
closed
`,
	},
	{
		name: "the longest frame",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			room := 0xfffff - len(frame(int32(1), int32(1), s.root+"/a", []byte{}, open, int32(0))) + 4
			c.send(1, 1, s.root+"/a", make([]byte, room), open, int32(0))
			s.frames(c, 1)
			c.send(2, 5, s.root+"/a", []byte{}, int32(-1))
			s.frames(c, 1)
			c.send(3, 1, s.root+"/b", make([]byte, room+1), open, int32(0))
			s.frames(c, 1)
		},
		want: `
reply 1
reply 2
closed
`,
	},
	{
		name: "requests sent together are answered in turn",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			p := s.root + "/a"
			c.Write(slices.Concat(
				frame(int32(1), int32(1), p, []byte("one"), open, int32(0)),
				frame(int32(2), int32(4), p, false),
				frame(int32(3), int32(5), p, []byte("two"), int32(0)),
				frame(int32(4), int32(4), p, false),
				frame(int32(-2), int32(11)),
				frame(int32(6), int32(2), p, int32(0)),
				frame(int32(7), int32(2), p, int32(1)),
				frame(int32(8), int32(4), p, false),
				frame(int32(9), int32(9), p)))
			for range 9 {
				r := c.reply()
				text := ""
				if r.xid == 2 || r.xid == 4 {
					text = string(r.body[4 : len(r.body)-68])
				}
				s.logf("%v %s", r, text)
			}
		},
		want: `
reply 1
reply 2 one
reply 3
reply 4 two
reply -2
reply 6: code -103
reply 7
reply 8: code -101
reply 9
`,
	},
}
