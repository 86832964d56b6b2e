package locktest_test

import (
	"fmt"

	"github.com/go-zookeeper/zk"
)

// requestsCases has the scenarios of refused requests and of the cost of requests.
var requestsCases = []scenario{
	{
		name: "multi: a node made, changed and deleted in one",
		run: func(s *script) {
			c := s.connect()
			s.multi(c, create("/a", persistent), set("/a", "one", 0), set("/a", "three", 1), del("/a", 2))
			s.exists(c, "/a")
			s.multi(c, create("/a", persistent), create("/a/b", persistent), del("/a/b", 0), del("/a", 0), create("/a", persistent))
			s.exists(c, "/a")
			s.multi(c)
		},
		want: `
multi: ok: [/a; c1 m1 p1 v1 cv0 av0 len3 kids0; c1 m1 p1 v2 cv0 av0 len5 kids0; ok]
exists /a: no
multi: ok: [/a; /a/b; ok; ok; /a]
exists /a: c2 m2 p2 v0 cv0 av0 len0 kids0
multi: ok: []
`,
	},
	{
		name: "multi: the Stat of a set is as of its place in the transaction",
		run: func(s *script) {
			c := s.connect()
			s.multi(c, create("/p", persistent), create("/p/n-", sequence), set("/p", "tail", 0))
			s.multi(c, set("/p", "x", 1), create("/p/n-", sequence), create("/p/m-", sequence), set("/p", "tail", 2))
			s.get(c, "/p")
			s.get(c, "/p/m-0000000002")
		},
		want: `
multi: ok: [/p; /p/n-0000000000; c1 m1 p1 v1 cv1 av0 len4 kids1]
multi: ok: [c1 m2 p1 v2 cv1 av0 len1 kids1; /p/n-0000000001; /p/m-0000000002; c1 m2 p2 v3 cv3 av0 len4 kids3]
get /p: "tail" c1 m2 p2 v3 cv3 av0 len4 kids3
get /p/m-0000000002: "" c2 m2 p2 v0 cv0 av0 len0 kids0
`,
	},
	{
		name: "multi: all or nothing, and the shape of errors",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/a", nil, persistent, open)
			s.create(c, "/a/b", nil, persistent, open)
			s.multi(c, set("/a", "x", 0), create("/c", persistent), create("/a", persistent), set("/a", "y", -1), del("/none", -1))
			s.multi(c, create("/no/n", persistent), set("/a", "x", -1))
			s.multi(c, del("/a", -1))
			s.multi(c, del("/a/b", -1), del("/a", 3))
			s.multi(c, del("/a/b", -1), del("/a/b", -1))
			s.multi(c, create("/x", persistent), set("/x", "", 1))
			s.multi(c, set("/a", "x", 5))
			s.multi(c, check("/a", 5))
			s.multi(c, check("/none", -1))
			s.multi(c, check("/a", 0), check("/a/b", -1))
			s.multi(c, set("/a", "x", 0), check("/a", 0))
			s.multi(c, set("/a", "x", 0), check("/a", 1))
			s.exists(c, "/a")
			s.exists(c, "/c")
			s.exists(c, "/x")
			s.multi(c, del("/a/b", -1), del("/a", -1))
			s.exists(c, "/a")
		},
		want: `
create /a: /a
create /a/b: /a/b
multi: node already exists: [ok; ok; node already exists; unknown error: -2; unknown error: -2]
multi: node does not exist: [node does not exist; unknown error: -2]
multi: node has children: [node has children]
multi: version conflict: [ok; version conflict]
multi: node does not exist: [ok; node does not exist]
multi: version conflict: [ok; version conflict]
multi: version conflict: [version conflict]
multi: version conflict: [version conflict]
multi: node does not exist: [node does not exist]
multi: ok: [ok; ok]
multi: version conflict: [ok; version conflict]
multi: ok: [c1 m3 p2 v1 cv1 av0 len1 kids1; ok]
exists /a: c1 m3 p2 v1 cv1 av0 len1 kids1
exists /c: no
exists /x: no
multi: ok: [ok; ok]
exists /a: no
`,
	},
	{
		name:  "every write is a transaction, a failed one too; reads are none",
		alone: true,
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/a", nil, persistent, open)
			s.transactions(c, "nothing", func() {})
			s.transactions(c, "reads", func() {
				s.get(c, "/a")
				s.get(c, "/none")
				s.children(c, "/a")
				s.sync(c, "/a")
			})
			s.transactions(c, "a failed delete", func() { s.delete(c, "/none", -1) })
			s.transactions(c, "a failed create", func() { s.create(c, "/a", nil, persistent, open) })
			s.transactions(c, "a failed multi", func() { s.multi(c, set("/a", "x", -1), del("/none", -1)) })
			s.transactions(c, "a multi", func() { s.one(c, "/", check("/", -1)) })
			s.transactions(c, "a multi of two", func() {
				if _, err := c.Multi(set(s.root, "x", -1), set(s.root+"/a", "x", -1)); err != nil {
					s.t.Error(err)
				}
			})
			s.transactions(c, "a session", func() { s.connect() })
		},
		want: `
create /a: /a
nothing: 0 transactions
get /a: null c1 m1 p1 v0 cv0 av0 len0 kids0
get /none: node does not exist
children /a: [] c1 m1 p1 v0 cv0 av0 len0 kids0
sync /a: /a
reads: 0 transactions
delete /none: node does not exist
a failed delete: 1 transactions
create /a: node already exists
a failed create: 1 transactions
multi: node does not exist: [ok; node does not exist]
a failed multi: 1 transactions
"/": CheckVersion ok
a multi: 1 transactions
a multi of two: 1 transactions
a session: 1 transactions
`,
	},
	{
		name: "paths that are none",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/a", nil, persistent, open)
			// Client libraries check paths, but not the paths in a multi.
			for _, p := range []string{
				"/a/", "/a//b", "/a/.", "/a/..", "/a/./b", "/a/../b", "/a/\x01", "/a/\x1f", "/a/\x7f", "/a/\u0085",
				"/a/\ue000", "/a/\ufff1", "/a/\U0001F512", "/a/\x00", "/a/.b", "/a/b..", "/a/ ", "/a/\u00e9", "/none/", "/none//",
			} {
				s.one(c, p, create(s.root+p, persistent), set(s.root+p, "", -1), check(s.root+p, -1), del(s.root+p, -1))
			}
			s.one(c, "sequence /a/", create(s.root+"/a/", sequence))
			s.one(c, "sequence /a//", create(s.root+"/a//", sequence))
			for _, p := range []string{"", "a", "a/b", "/", "/zookeeper", "/zookeeper/quota"} {
				s.one(c, "absolute "+p, create(p, persistent), check(p, -1), del(p, -1))
			}
		},
		want: `
create /a: /a
"/a/": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a//b": Create node does not exist, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/.": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/..": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/./b": Create node does not exist, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/../b": Create node does not exist, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\x01": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\x1f": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\x7f": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\u0085": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\ue000": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\ufff1": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/🔒": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/a/\x00": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete invalid arguments
"/a/.b": Create ok, SetData ok, CheckVersion ok, Delete ok
"/a/b..": Create ok, SetData ok, CheckVersion ok, Delete ok
"/a/ ": Create ok, SetData ok, CheckVersion ok, Delete ok
"/a/é": Create ok, SetData ok, CheckVersion ok, Delete ok
"/none/": Create node does not exist, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"/none//": Create node does not exist, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist
"sequence /a/": Create ok
"sequence /a//": Create node does not exist
"absolute ": Create invalid arguments, CheckVersion invalid arguments, Delete invalid arguments
"absolute a": Create invalid arguments, CheckVersion invalid arguments, Delete invalid arguments
"absolute a/b": Create node does not exist, CheckVersion invalid arguments, Delete node does not exist
"absolute /": Create node already exists, CheckVersion ok, Delete invalid arguments
"absolute /zookeeper": Create node already exists, CheckVersion ok, Delete invalid arguments
"absolute /zookeeper/quota": Create node already exists, CheckVersion ok, Delete invalid arguments
`,
		older: map[string][]string{ // before 3.5 the last of the control characters are allowed
			`"/a/\x1f": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist`: {`"/a/\x1f": Create ok, SetData ok, CheckVersion ok, Delete ok`},
			`"/a/\x7f": Create invalid arguments, SetData invalid arguments, CheckVersion invalid arguments, Delete node does not exist`: {`"/a/\x7f": Create ok, SetData ok, CheckVersion ok, Delete ok`},
		},
	},
	{
		name: "containers",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			container := func(xid int32, name string, flags int32) {
				c.send(xid, 19, s.root+name, []byte("data"), open, flags)
				r := c.reply()
				s.sinceContainers(r)
				s.logMade(r)
			}
			container(1, "/c", 4)
			container(2, "/c", 4)
			container(3, "/none/c", 4)
			container(4, "/c/inner", 4)
			z := s.connect()
			s.exists(z, "/c")
			s.create(z, "/c/n-", nil, sequence, open)
			s.create(z, "/c/e", nil, ephemeral, open)
			s.delete(z, "/c", -1)
			s.set(z, "/c", []byte("more"), 0)
			s.delete(z, "/c/e", -1)
			s.delete(z, "/c/n-0000000001", -1)
			s.delete(z, "/c/inner", -1)
			s.delete(z, "/c", -1)
			s.exists(z, "/c")
		},
		want: `
reply 1 /c
reply 2: code -110
reply 3: code -101
reply 4 /c/inner
exists /c: c1 m1 p2 v0 cv1 av0 len4 kids1
create /c/n-: /c/n-0000000001
create /c/e: /c/e
delete /c: node has children
set /c: c1 m4 p3 v1 cv3 av0 len4 kids3
delete /c/e: ok
delete /c/n-0000000001: ok
delete /c/inner: ok
delete /c: ok
exists /c: no
`,
	},
	{
		name: "operations that are switched off",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			c.send(1, 21, s.root+"/ttl", []byte(nil), open, int32(5), int64(1000))
			s.frames(c, 1)
			c.send(2, 16, "server.1=a:1:2", "", "", int64(-1))
			s.frames(c, 1)
			c.send(-2, 11)
			s.frames(c, 1)
		},
		want: `
reply 1: code -6
reply 2: code -123
reply -2
`,
		older: map[string][]string{ // before 3.5 a server knows neither operation
			"reply 2: code -123": {"closed", "reply 2: code -6"}, "reply -2": {"closed"},
		},
	},
	{
		name: "watches checked and removed",
		run: func(s *script) {
			z := s.connect()
			s.create(z, "/a", nil, persistent, open)
			c := s.newRaw(sessionTimeout)
			ask := func(xid, op int32, name string, which int32) {
				c.send(xid, op, s.root+name, which)
				r := c.reply()
				s.sinceContainers(r)
				s.logf("%v", r)
			}
			ask(1, 17, "/a", 3)
			ask(2, 18, "/a", 3)
			c.must(4, s.root+"/a", true) // getData
			ask(3, 17, "/a", 1)
			ask(4, 17, "/a", 2)
			ask(5, 18, "/a", 1)
			ask(6, 18, "/a", 2)
			ask(7, 17, "/a", 3)
			c.must(4, s.root+"/a", true)
			c.must(8, s.root+"/a", true) // getChildren
			ask(8, 18, "/a", 1)
			ask(9, 17, "/a", 3)
			ask(10, 18, "/a", 3)
			c.must(4, s.root+"/a", true)
			c.must(8, s.root+"/a", true)
			ask(11, 18, "/a", 3)
			s.set(z, "/a", []byte("x"), -1)
			s.create(z, "/a/b", nil, persistent, open)
			ask(12, 17, "/a", 3)
			ask(13, 17, "/none", 3)
		},
		want: `
create /a: /a
reply 1: code -121
reply 2: code -121
reply 3: code -121
reply 4
reply 5: code -121
reply 6
reply 7: code -121
reply 8
reply 9
reply 10
reply 11
set /a: c1 m2 p1 v1 cv0 av0 len1 kids0
create /a/b: /a/b
reply 12: code -121
reply 13: code -121
`,
	},
	{
		name: "flags of a create",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			for _, flags := range []int32{-1, 7, 100} {
				c.send(10+flags, 1, s.root+"/a", []byte(nil), open, flags)
				s.frames(c, 1)
			}
			c.send(5, 1, s.root+"/a", []byte(nil), open, int32(5)) // a TTL, which is off by default
			s.frames(c, 1)
			c.send(6, 1, s.root+"/a", []byte(nil), open, int32(0))
			s.frames(c, 1)
			c.send(7, 15, s.root+"/b", []byte("create2"), open, int32(0))
			s.logMade(c.reply())
			c.send(8, 15, s.root+"/b", []byte("create2"), open, int32(0))
			s.frames(c, 1)
		},
		want: `
reply 9: code -8
reply 17: code -8
reply 110: code -8
reply 5: code -6
reply 6
reply 7 /b
reply 8: code -110
`,
		older: map[string][]string{ // before 3.5 there were no TTLs, and a create2 closed the connection
			"reply 5: code -6":   {"reply 5: code -8"},
			"reply 7 /b":         {"reply 7: code -6"},
			"reply 8: code -110": {"closed", "reply 8: code -6"},
		},
	},
	{
		name: "access control",
		run: func(s *script) {
			c := s.connect()
			owner := s.connect()
			if err := owner.AddAuth("digest", []byte("me:secret")); err != nil {
				s.t.Fatal(err)
			}
			for _, acl := range [][]zk.ACL{
				{},
				zk.AuthACL(zk.PermAll),
				{{Perms: zk.PermAll, Scheme: "world", ID: "everyone"}},
				{{Perms: zk.PermAll, Scheme: "nothing", ID: "x"}},
				{{Perms: zk.PermAll, Scheme: "digest", ID: "nocolon"}},
				{{Perms: zk.PermAll, Scheme: "digest", ID: "a:b:c"}},
				{{Perms: zk.PermAll, Scheme: "digest", ID: "a:"}},
				{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}, {Perms: zk.PermAll, Scheme: "", ID: ""}},
			} {
				s.create(c, "/refused", nil, persistent, acl)
				s.create(c, "/no/refused", nil, persistent, acl) // the ACL is checked before the parent
			}
			s.create(owner, "/mine", []byte("x"), persistent, zk.AuthACL(zk.PermAll))
			s.create(owner, "/mine/child", nil, persistent, open)
			s.get(c, "/mine")
			s.set(c, "/mine", nil, 7)
			s.children(c, "/mine")
			s.create(c, "/mine/x", nil, persistent, open)
			s.create(c, "/mine/child", nil, persistent, open)
			s.delete(c, "/mine/child", 7)
			s.delete(c, "/mine/none", -1)
			s.multi(c, check("/mine", -1))
			s.multi(c, create("/y", persistent), set("/mine", "", -1), del("/y", -1))
			s.setACL(c, "/mine", open, 9)
			s.getACL(c, "/mine")
			s.set(c, "/mine/child", []byte("anyone may"), 0)
			s.set(owner, "/mine", []byte("yy"), 0)
			s.getACL(owner, "/mine")
			s.setACL(owner, "/mine", append(reader, zk.DigestACL(zk.PermAll, "me", "secret")...), 0)
			s.setACL(owner, "/mine", reader, 0)
			s.setACL(owner, "/mine", nil, 0)
			s.setACL(owner, "/none", reader, -1)
			s.get(c, "/mine")
			s.getACL(c, "/mine")
			s.children(c, "/mine")
			s.set(c, "/mine", nil, -1)
			s.delete(c, "/mine/child", -1)
			s.multi(c, create("/mine/n-", sequence), set("/mine", "", -1))
			s.delete(owner, "/mine/child", -1)
			s.delete(c, "/mine", -1) // the parent's ACL decides about deletes
			dup := append(zk.WorldACL(zk.PermAll), open...)
			s.create(c, "/dup", nil, persistent, dup)
			s.getACL(c, "/dup")
			nothing := zk.ACL{Scheme: "world", ID: "anyone"} // gives no permission to anyone
			s.create(owner, "/marked", nil, persistent, append(zk.DigestACL(zk.PermAll, "me", "secret"), nothing, nothing))
			s.getACL(owner, "/marked")
			s.get(c, "/marked")
			s.create(c, "/marked/x", nil, persistent, open)
			s.create(c, "/open", nil, persistent, append(zk.WorldACL(zk.PermAll), nothing))
			s.getACL(c, "/open")
			s.set(c, "/open", nil, 0)
		},
		want: `
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /refused: invalid ACL specified
create /no/refused: invalid ACL specified
create /mine: /mine
create /mine/child: /mine/child
get /mine: not authenticated
set /mine: not authenticated
children /mine: not authenticated
create /mine/x: not authenticated
create /mine/child: not authenticated
delete /mine/child: not authenticated
delete /mine/none: not authenticated
multi: not authenticated: [not authenticated]
multi: not authenticated: [ok; not authenticated; unknown error: -2]
setACL /mine: not authenticated
getACL /mine: not authenticated
set /mine/child: c2 m3 p2 v1 cv0 av0 len10 kids0
set /mine: c1 m4 p2 v1 cv1 av0 len2 kids1
getACL /mine: [{31 digest me:016djjlksVQS5RgX3M7biBGyYwY=}] c1 m4 p2 v1 cv1 av0 len2 kids1
setACL /mine: c1 m4 p2 v1 cv1 av1 len2 kids1
setACL /mine: version conflict
setACL /mine: invalid ACL specified
setACL /none: node does not exist
get /mine: "yy" c1 m4 p2 v1 cv1 av1 len2 kids1
getACL /mine: [{1 world anyone} {31 digest me:x}] c1 m4 p2 v1 cv1 av1 len2 kids1
children /mine: [child] c1 m4 p2 v1 cv1 av1 len2 kids1
set /mine: not authenticated
delete /mine/child: not authenticated
multi: not authenticated: [not authenticated; unknown error: -2]
delete /mine/child: ok
delete /mine: ok
create /dup: /dup
getACL /dup: [{31 world anyone}] c5 m5 p5 v0 cv0 av0 len0 kids0
create /marked: /marked
getACL /marked: [{31 digest me:016djjlksVQS5RgX3M7biBGyYwY=} {0 world anyone}] c6 m6 p6 v0 cv0 av0 len0 kids0
get /marked: not authenticated
create /marked/x: not authenticated
create /open: /open
getACL /open: [{31 world anyone} {0 world anyone}] c7 m7 p7 v0 cv0 av0 len0 kids0
set /open: c7 m8 p7 v1 cv0 av0 len0 kids0
`,
		older: map[string][]string{ // before 3.6 a node is looked for before its parent's ACL
			"delete /mine/none: not authenticated": {"delete /mine/none: node does not exist"},
		},
	},
	{
		name: "each permission",
		run: func(s *script) {
			c, owner := s.connect(), s.connect()
			if err := owner.AddAuth("digest", []byte("me:secret")); err != nil {
				s.t.Fatal(err)
			}
			for i, perm := range []int32{zk.PermRead, zk.PermWrite, zk.PermCreate, zk.PermDelete, zk.PermAdmin} {
				p := fmt.Sprintf("/%d", i)
				s.create(owner, p, nil, persistent, append(zk.WorldACL(perm), zk.DigestACL(zk.PermAll, "me", "secret")...))
				s.create(owner, p+"/child", nil, persistent, open)
				s.get(c, p)
				s.children(c, p)
				s.set(c, p, nil, -1)
				s.create(c, p+"/n", nil, persistent, open)
				s.delete(c, p+"/child", -1)
				s.getACL(c, p)
				s.setACL(c, p, append(zk.WorldACL(perm), zk.DigestACL(zk.PermAll, "me", "secret")...), -1)
				s.one(c, p, check(s.root+p, -1))
			}
		},
		want: `
create /0: /0
create /0/child: /0/child
get /0: null c1 m1 p2 v0 cv1 av0 len0 kids1
children /0: [child] c1 m1 p2 v0 cv1 av0 len0 kids1
set /0: not authenticated
create /0/n: not authenticated
delete /0/child: not authenticated
getACL /0: [{1 world anyone} {31 digest me:x}] c1 m1 p2 v0 cv1 av0 len0 kids1
setACL /0: not authenticated
"/0": CheckVersion ok
create /1: /1
create /1/child: /1/child
get /1: not authenticated
children /1: not authenticated
set /1: c3 m5 p4 v1 cv1 av0 len0 kids1
create /1/n: not authenticated
delete /1/child: not authenticated
getACL /1: not authenticated
setACL /1: not authenticated
"/1": CheckVersion not authenticated
create /2: /2
create /2/child: /2/child
get /2: not authenticated
children /2: not authenticated
set /2: not authenticated
create /2/n: /2/n
delete /2/child: not authenticated
getACL /2: not authenticated
setACL /2: not authenticated
"/2": CheckVersion not authenticated
create /3: /3
create /3/child: /3/child
get /3: not authenticated
children /3: not authenticated
set /3: not authenticated
create /3/n: not authenticated
delete /3/child: ok
getACL /3: not authenticated
setACL /3: not authenticated
"/3": CheckVersion not authenticated
create /4: /4
create /4/child: /4/child
get /4: not authenticated
children /4: not authenticated
set /4: not authenticated
create /4/n: not authenticated
delete /4/child: not authenticated
getACL /4: [{16 world anyone} {31 digest me:016djjlksVQS5RgX3M7biBGyYwY=}] c6 m6 p7 v0 cv1 av0 len0 kids1
setACL /4: c6 m6 p7 v0 cv1 av1 len0 kids1
"/4": CheckVersion not authenticated
`,
	},
	{
		name: "credentials of an unknown scheme cut the connection",
		run: func(s *script) {
			c := s.newRaw(sessionTimeout)
			c.send(1, 100, int32(0), "digest", []byte("me:secret"))
			s.frames(c, 1)
			c.send(-2, 11)
			s.frames(c, 1)
			c.send(3, 100, int32(0), "nothing", []byte("me:secret"))
			s.frames(c, 2)
		},
		want: `
reply 1
reply -2
reply 3: code -115
closed
`,
	},
}
