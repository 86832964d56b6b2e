package zkconn

import "testing"

func TestParseServer(t *testing.T) {
	for s, want := range map[string]string{
		"zk1":             "zk1:2181",
		"zk1:2182":        "zk1:2182",
		"zk_1.example":    "zk_1.example:2181",
		"10.0.0.1":        "10.0.0.1:2181",
		"[::1]":           "[::1]:2181",
		"[fe80::1%eth0]:": "",
		"[fe80::1%a]:1":   "[fe80::1%a]:1",
	} {
		if got, err := ParseServer(s); got != want || (err == nil) != (want != "") {
			t.Errorf("ParseServer(%q) = %q, %v; want %q", s, got, err, want)
		}
	}
}

// TestParseServerOfConnectStrings: the error explains the connect strings of other ZooKeeper
// clients.
func TestParseServerOfConnectStrings(t *testing.T) {
	const (
		each   = "one server each"
		chroot = "no chroot"
		scheme = "no scheme"
	)
	for s, parts := range map[string][]string{
		"h1:2181,h2:2181":        {each},
		"h1,h2":                  {each},
		"h1:2181,":               {each},
		"h1:2181,h2:2181/chroot": {each, chroot, "/chroot/locks"},
		"h1:2181/chroot":         {chroot, "/chroot/locks"},
		"h1/a/b/":                {chroot, "/a/b/locks"},
		"h1:2181/":               {chroot, "delete the slash"},
		"zk://h1:2181/chroot":    {scheme, chroot},
		"zk://h1,h2":             {scheme, each},
		"h1 h2":                  {"host or host:port", each},
		"::1":                    {"brackets"},
		":2181":                  {"host or host:port"},
		"":                       {"host or host:port"},
		"h1:0":                   {"port from 1 to 65535"},
		"h1:zk":                  {"port from 1 to 65535"},
	} {
		got, err := ParseServer(s)
		if got != "" {
			t.Errorf("ParseServer(%q) = %q", s, got)
		}
		mustSay(t, err, parts...)
	}
}
