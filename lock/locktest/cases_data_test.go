package locktest_test

// dataCases has the scenarios of nodes and their changes.
var dataCases = []scenario{
	{
		name: "create, get, and what is refused",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/a", []byte("one"), persistent, open)
			s.get(c, "/a")
			s.create(c, "/a", nil, persistent, open)
			s.create(c, "/no/b", nil, persistent, open)
			s.create(c, "/a/b", nil, persistent, open)
			s.get(c, "/a/b")
			s.exists(c, "/a/b")
			s.exists(c, "/a/c")
			s.get(c, "/a/c")
			s.children(c, "/a")
			s.children(c, "/a/c")
			s.sync(c, "/a")
			s.sync(c, "/nowhere")
		},
		want: `
create /a: /a
get /a: "one" c1 m1 p1 v0 cv0 av0 len3 kids0
create /a: node already exists
create /no/b: node does not exist
create /a/b: /a/b
get /a/b: null c2 m2 p2 v0 cv0 av0 len0 kids0
exists /a/b: c2 m2 p2 v0 cv0 av0 len0 kids0
exists /a/c: no
get /a/c: node does not exist
children /a: [b] c1 m1 p2 v0 cv1 av0 len3 kids1
children /a/c: node does not exist
sync /a: /a
sync /nowhere: /nowhere
`,
	},
	{
		name: "no data and empty data",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/null", nil, persistent, open)
			s.create(c, "/empty", []byte{}, persistent, open)
			s.get(c, "/null")
			s.get(c, "/empty")
			s.set(c, "/null", []byte{}, -1)
			s.set(c, "/empty", nil, -1)
			s.get(c, "/null")
			s.get(c, "/empty")
		},
		want: `
create /null: /null
create /empty: /empty
get /null: null c1 m1 p1 v0 cv0 av0 len0 kids0
get /empty: "" c2 m2 p2 v0 cv0 av0 len0 kids0
set /null: c1 m3 p1 v1 cv0 av0 len0 kids0
set /empty: c2 m4 p2 v1 cv0 av0 len0 kids0
get /null: "" c1 m3 p1 v1 cv0 av0 len0 kids0
get /empty: null c2 m4 p2 v1 cv0 av0 len0 kids0
`,
	},
	{
		name: "versions of data",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/a", nil, persistent, open)
			s.set(c, "/a", []byte("1"), 0)
			s.set(c, "/a", []byte("2"), 0)
			s.set(c, "/a", []byte("22"), 1)
			s.set(c, "/a", []byte("333"), -1)
			s.set(c, "/none", nil, -1)
			s.delete(c, "/a", 2)
			s.delete(c, "/a", 3)
			s.delete(c, "/a", 3)
			s.create(c, "/a", nil, persistent, open)
			s.exists(c, "/a")
			s.delete(c, "/a", -1)
			s.delete(c, "/no/a", -1)
		},
		want: `
create /a: /a
set /a: c1 m2 p1 v1 cv0 av0 len1 kids0
set /a: version conflict
set /a: c1 m3 p1 v2 cv0 av0 len2 kids0
set /a: c1 m4 p1 v3 cv0 av0 len3 kids0
set /none: node does not exist
delete /a: version conflict
delete /a: ok
delete /a: node does not exist
create /a: /a
exists /a: c5 m5 p5 v0 cv0 av0 len0 kids0
delete /a: ok
delete /no/a: node does not exist
`,
	},
	{
		name: "a parent's Stat follows its children's creation and deletion",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/p", nil, persistent, open)
			s.create(c, "/p/a", nil, persistent, open)
			s.create(c, "/p/b", nil, persistent, open)
			s.exists(c, "/p")
			s.set(c, "/p/a", []byte("x"), -1)
			s.exists(c, "/p")
			s.delete(c, "/p/a", -1)
			s.exists(c, "/p")
			s.create(c, "/p/b/c", nil, persistent, open)
			s.exists(c, "/p")
			s.exists(c, "/p/b")
			s.delete(c, "/p", -1)
			s.delete(c, "/p", 7)
			s.set(c, "/p", []byte("data"), 0)
		},
		want: `
create /p: /p
create /p/a: /p/a
create /p/b: /p/b
exists /p: c1 m1 p3 v0 cv2 av0 len0 kids2
set /p/a: c2 m4 p2 v1 cv0 av0 len1 kids0
exists /p: c1 m1 p3 v0 cv2 av0 len0 kids2
delete /p/a: ok
exists /p: c1 m1 p5 v0 cv3 av0 len0 kids1
create /p/b/c: /p/b/c
exists /p: c1 m1 p5 v0 cv3 av0 len0 kids1
exists /p/b: c3 m3 p6 v0 cv1 av0 len0 kids1
delete /p: node has children
delete /p: version conflict
set /p: c1 m7 p5 v1 cv3 av0 len4 kids1
`,
	},
	{
		name: "sequences",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/p", nil, persistent, open)
			s.create(c, "/p/n-", nil, sequence, open)
			s.create(c, "/p/n-", nil, sequence, open)
			s.create(c, "/p/plain", nil, persistent, open) // any create advances the counter
			s.create(c, "/p/m-", nil, ephemeralSequential, open)
			s.create(c, "/p/", nil, sequence, open)
			s.delete(c, "/p/0000000004", -1)
			s.delete(c, "/p/m-0000000003", -1)
			s.delete(c, "/p/plain", -1)
			s.create(c, "/p/n-", nil, sequence, open) // a delete does not advance the counter
			s.create(c, "/p/n-0000000006", nil, persistent, open)
			s.create(c, "/p/plain", nil, persistent, open)
			s.create(c, "/p/plain", nil, persistent, open) // nor does a failed create advance it
			s.create(c, "/p/n-", nil, sequence, open)
			s.exists(c, "/p")
			for _, name := range []string{"n-0000000000", "n-0000000001", "n-0000000005", "n-0000000006", "n-0000000008", "plain"} {
				s.delete(c, "/p/"+name, -1)
			}
			s.exists(c, "/p")
			s.delete(c, "/p", -1)
			s.create(c, "/p", nil, persistent, open) // the counter begins at 0 again
			s.create(c, "/p/n-", nil, sequence, open)
		},
		want: `
create /p: /p
create /p/n-: /p/n-0000000000
create /p/n-: /p/n-0000000001
create /p/plain: /p/plain
create /p/m-: /p/m-0000000003
create /p/: /p/0000000004
delete /p/0000000004: ok
delete /p/m-0000000003: ok
delete /p/plain: ok
create /p/n-: /p/n-0000000005
create /p/n-0000000006: /p/n-0000000006
create /p/plain: /p/plain
create /p/plain: node already exists
create /p/n-: /p/n-0000000008
exists /p: c1 m1 p2 v0 cv12 av0 len0 kids6
delete /p/n-0000000000: ok
delete /p/n-0000000001: ok
delete /p/n-0000000005: ok
delete /p/n-0000000006: ok
delete /p/n-0000000008: ok
delete /p/plain: ok
exists /p: c1 m1 p3 v0 cv18 av0 len0 kids0
delete /p: ok
create /p: /p
create /p/n-: /p/n-0000000000
`,
	},
	{
		name: "a sequential name that is taken",
		run: func(s *script) {
			c := s.connect()
			s.create(c, "/p", nil, persistent, open)
			s.create(c, "/p/n-0000000001", nil, persistent, open)
			s.create(c, "/p/n-", nil, sequence, open)
			s.create(c, "/p/n-", nil, sequence, open)
			s.create(c, "/p/x", nil, persistent, open)
			s.create(c, "/p/n-", nil, sequence, open)
		},
		want: `
create /p: /p
create /p/n-0000000001: /p/n-0000000001
create /p/n-: node already exists
create /p/n-: node already exists
create /p/x: /p/x
create /p/n-: /p/n-0000000002
`,
	},
	{
		name: "ephemeral nodes",
		run: func(s *script) {
			c := s.connect()
			other := s.connect()
			s.create(c, "/e", []byte("x"), ephemeral, open)
			s.get(other, "/e")
			s.create(other, "/e/child", nil, persistent, open)
			s.create(other, "/e/child", nil, sequence, open)
			s.create(other, "/e", nil, persistent, open)
			s.multi(other, create("/e", persistent), create("/e/x", sequence))
			s.multi(other, create("/e/x", sequence))
			s.set(other, "/e", []byte("yy"), 0)
			s.create(c, "/p", nil, persistent, open)
			s.create(c, "/p/f", nil, ephemeral, open)
			s.create(c, "/g", nil, ephemeralSequential, open)
			s.delete(other, "/e", -1)
			s.closeConn(c)
			s.exists(other, "/g0000000000")
			s.children(other, "/p")
		},
		want: `
create /e: /e
get /e: "x" c1 m1 p1 v0 cv0 av0 len1 kids0 ephemeral
create /e/child: ephemeral nodes may not have children
create /e/child: ephemeral nodes may not have children
create /e: node already exists
multi: node already exists: [node already exists; unknown error: -2]
multi: ephemeral nodes may not have children: [ephemeral nodes may not have children]
set /e: c1 m2 p1 v1 cv0 av0 len2 kids0 ephemeral
create /p: /p
create /p/f: /p/f
create /g: /g0000000002
delete /e: ok
close
exists /g0000000000: no
children /p: [] c3 m3 p4 v0 cv2 av0 len0 kids0
`,
	},
	{
		name: "a session that ends deletes its nodes in one transaction",
		run: func(s *script) {
			c := s.connect()
			other := s.connect()
			for _, p := range []string{"/p", "/q"} {
				s.create(c, p, nil, persistent, open)
				s.create(c, p+"/e", nil, ephemeral, open)
				s.create(c, p+"/f", nil, ephemeral, open)
			}
			gone := s.existsW(other, "/p/e")
			s.closeConn(c)
			s.event(gone)
			s.exists(other, "/p")
			s.exists(other, "/q")
		},
		want: `
create /p: /p
create /p/e: /p/e
create /p/f: /p/f
create /q: /q
create /q/e: /q/e
create /q/f: /q/f
existsW /p/e: c2 m2 p2 v0 cv0 av0 len0 kids0 ephemeral
close
event deleted /p/e
exists /p: c1 m1 p4 v0 cv4 av0 len0 kids0
exists /q: c3 m3 p4 v0 cv4 av0 len0 kids0
`,
	},
}
