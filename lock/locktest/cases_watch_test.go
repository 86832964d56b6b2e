package locktest_test

import (
	"net"
	"time"
)

// watchCases has the scenarios of watches, and their order among replies.
var watchCases = []scenario{
	{
		name: "watches fire once, for what they watch",
		run: func(s *script) {
			c, other := s.connect(), s.connect()
			s.create(c, "/a", nil, persistent, open)
			data := s.getW(c, "/a")
			s.set(other, "/a", []byte("1"), -1)
			s.event(data)
			s.set(other, "/a", []byte("2"), -1)
			data, exist, kids := s.getW(c, "/a"), s.existsW(c, "/a"), s.childrenW(c, "/a")
			s.create(other, "/a/b", nil, persistent, open)
			s.event(kids)
			s.quiet(c, data)
			kids = s.childrenW(c, "/a")
			s.set(other, "/a/b", nil, -1)
			s.quiet(c, kids)
			s.delete(other, "/a/b", -1)
			s.event(kids)
			s.delete(other, "/a", -1)
			s.event(data)
			s.event(exist)
			s.create(other, "/a", nil, persistent, open)
			kids = s.childrenW(c, "/a")
			s.delete(other, "/a", -1)
			s.event(kids)
			s.getW(c, "/a")      // no node: no watch
			s.childrenW(c, "/a") // no node: no watch
			exist = s.existsW(c, "/a")
			s.multi(other, create("/a", persistent), del("/none", -1))
			s.quiet(c, exist)
			s.create(other, "/a", nil, persistent, open)
			s.event(exist)
		},
		want: `
create /a: /a
getW /a: null c1 m1 p1 v0 cv0 av0 len0 kids0
set /a: c1 m2 p1 v1 cv0 av0 len1 kids0
event changed /a
set /a: c1 m3 p1 v2 cv0 av0 len1 kids0
getW /a: "2" c1 m3 p1 v2 cv0 av0 len1 kids0
existsW /a: c1 m3 p1 v2 cv0 av0 len1 kids0
childrenW /a: [] c1 m3 p1 v2 cv0 av0 len1 kids0
create /a/b: /a/b
event children /a
no event
childrenW /a: [b] c1 m3 p4 v2 cv1 av0 len1 kids1
set /a/b: c4 m5 p4 v1 cv0 av0 len0 kids0
no event
delete /a/b: ok
event children /a
delete /a: ok
event deleted /a
event deleted /a
create /a: /a
childrenW /a: [] c6 m6 p6 v0 cv0 av0 len0 kids0
delete /a: ok
event deleted /a
getW /a: node does not exist
childrenW /a: node does not exist
existsW /a: no
multi: node does not exist: [ok; node does not exist]
no event
create /a: /a
event created /a
`,
	},
	{
		name: "events come in their place among replies",
		run: func(s *script) {
			c, other := s.newRaw(sessionTimeout), s.connect()
			s.create(other, "/a", nil, persistent, open)
			s.logf("own writes")
			c.send(1, 4, s.root+"/a", true)
			c.send(2, 4, s.root+"/a", true) // one watch
			c.send(3, 3, s.root+"/a", true) // the same watch
			c.send(4, 8, s.root+"/a", true)
			c.send(5, 5, s.root+"/a", []byte("x"), int32(-1))
			c.send(6, 2, s.root+"/a", int32(-1))
			c.send(7, 3, s.root+"/a", true)
			c.send(8, 1, s.root+"/a", []byte(nil), open, int32(0))
			c.send(9, 11)
			s.frames(c, 12)
			s.logf("data and children of a deleted node: told once")
			c.send(1, 4, s.root+"/a", true)
			c.send(2, 12, s.root+"/a", true)
			c.send(3, 12, s.root, true)
			c.send(4, 2, s.root+"/a", int32(-1))
			c.send(5, 11)
			s.frames(c, 7)
			s.logf("in a multi")
			s.create(other, "/a", nil, persistent, open)
			c.send(1, 4, s.root+"/a", true)
			c.send(2, 8, s.root+"/a", true)
			c.send(3, 3, s.root+"/a/b", true)
			s.frames(c, 3)
			s.multi(other, set("/a", "1", -1), set("/a", "2", -1), create("/a/b", persistent), create("/a/c", persistent), del("/a/b", -1))
			c.send(4, 11)
			s.frames(c, 4)
			s.logf("another's write, once its effect shows")
			c.send(1, 4, s.root+"/a", true)
			s.frames(c, 1)
			s.set(other, "/a", nil, -1)
			c.send(2, 9, s.root+"/a")
			c.send(3, 3, s.root+"/a", false)
			s.frames(c, 3)
		},
		want: `
create /a: /a
own writes
reply 1
reply 2
reply 3
reply 4
event changed /a
reply 5
event deleted /a
reply 6
reply 7: code -101
event created /a
reply 8
reply -2
data and children of a deleted node: told once
reply 1
reply 2
reply 3
event deleted /a
event children
reply 4
reply -2
in a multi
create /a: /a
reply 1
reply 2
reply 3: code -101
multi: ok: [c1 m2 p1 v1 cv0 av0 len1 kids0; c1 m2 p1 v2 cv0 av0 len1 kids0; /a/b; /a/c; ok]
event changed /a
event created /a/b
event children /a
reply -2
another's write, once its effect shows
reply 1
set /a: c1 m3 p2 v3 cv3 av0 len0 kids1
event changed /a
reply 2
reply 3
`,
	},
	{
		name: "watches set again after a reconnection",
		run: func(s *script) {
			c, other := s.newRaw(sessionTimeout), s.connect()
			for _, p := range []string{"/same", "/changed", "/deleted", "/parent", "/parent/a", "/bereft", "/bereft/a", "/still", "/last"} {
				s.create(other, p, nil, persistent, open)
			}
			c.must(9, s.root) // now c has seen the creates
			seen := c.lastZxid
			s.set(other, "/changed", nil, -1)
			s.delete(other, "/deleted", -1)
			s.create(other, "/parent/b", nil, persistent, open)
			s.set(other, "/parent/a", nil, -1)
			s.delete(other, "/bereft/a", -1)
			s.create(other, "/created", nil, persistent, open)
			c, err := s.again(c)
			if err != nil {
				s.t.Fatal(err)
			}
			c.must(9, s.root)
			abs := func(paths ...string) []string {
				for i := range paths {
					paths[i] = s.root + paths[i]
				}
				return paths
			}
			c.send(1, 101, seen,
				abs("/same", "/changed", "/deleted", "/parent", "/last"),
				abs("/created", "/absent", "/deleted"),
				abs("/parent", "/bereft", "/still", "/deleted", "/last"))
			s.frames(c, 7)
			s.logf("and those that wait")
			s.delete(other, "/last", -1)
			s.set(other, "/same", nil, -1)
			s.create(other, "/still/a", nil, persistent, open)
			s.create(other, "/absent", nil, persistent, open)
			s.set(other, "/parent", nil, -1)
			s.create(other, "/deleted", nil, persistent, open)
			s.set(other, "/changed", nil, -1)
			c.send(2, 9, s.root)
			s.frames(c, 7)
		},
		want: `
create /same: /same
create /changed: /changed
create /deleted: /deleted
create /parent: /parent
create /parent/a: /parent/a
create /bereft: /bereft
create /bereft/a: /bereft/a
create /still: /still
create /last: /last
set /changed: c2 m5 p2 v1 cv0 av0 len0 kids0
delete /deleted: ok
create /parent/b: /parent/b
set /parent/a: c4 m7 p4 v1 cv0 av0 len0 kids0
delete /bereft/a: ok
create /created: /created
event changed /changed
event deleted /deleted
event created /created
event children /parent
event children /bereft
event deleted /deleted
reply 1
and those that wait
delete /last: ok
set /same: c1 m8 p1 v1 cv0 av0 len0 kids0
create /still/a: /still/a
create /absent: /absent
set /parent: c3 m9 p6 v1 cv2 av0 len0 kids2
create /deleted: /deleted
set /changed: c2 m10 p2 v2 cv0 av0 len0 kids0
event deleted /last
event changed /same
event children /still
event created /absent
event changed /parent
event created /deleted
reply 2
`,
	},
	{
		name: "a client library's watch over a reconnection",
		run: func(s *script) {
			conns := make(chan net.Conn, 16)
			c := connect(s.t, s.servers, func(network, address string, timeout time.Duration) (net.Conn, error) {
				conn, err := s.dial(network, address, timeout)
				if err == nil {
					conns <- conn
				}
				return conn, err
			}, sessionTimeout).Conn
			other := s.connect()
			s.create(c, "/e", nil, ephemeral, open)
			s.create(c, "/a", nil, persistent, open)
			changed, created := s.getW(c, "/a"), s.existsW(c, "/b")
			(<-conns).Close()
			s.set(other, "/a", []byte("x"), -1)
			s.create(other, "/b", nil, persistent, open)
			s.event(changed)
			s.event(created)
			s.exists(c, "/e")
		},
		want: `
create /e: /e
create /a: /a
getW /a: null c2 m2 p2 v0 cv0 av0 len0 kids0
existsW /b: no
set /a: c2 m3 p2 v1 cv0 av0 len1 kids0
create /b: /b
event changed /a
event created /b
exists /e: c1 m1 p1 v0 cv0 av0 len0 kids0 ephemeral
`,
	},
}
