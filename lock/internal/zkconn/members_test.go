package zkconn

import (
	"slices"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	const three = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=10.0.0.2:2888:3888:participant;10.0.1.2:2182\nserver.3=[2001:db8::3]:2888:3888:observer;2183\nversion=10000000a"
	for _, test := range []struct {
		name, text, tls string
		want            []string
	}{
		{"plain", three, "", []string{"10.0.1.2:2182", "[2001:db8::3]:2183", "zk1:2181"}},
		{"TLS by the common port", three, "2281", []string{"10.0.1.2:2281", "[2001:db8::3]:2281", "zk1:2281"}},
		{"any address of IPv6", "server.1=zk1:2888:3888:participant;[::]:2181\nversion=0", "", []string{"zk1:2181"}},
		{"an address of IPv6", "server.1=zk1:2888:3888:participant;[2001:db8::1]:2181\nversion=0", "", []string{"[2001:db8::1]:2181"}},
		{"without a role", "server.1=zk1:2888:3888;2181\nversion=0", "", []string{"zk1:2181"}},
		{"a server with two addresses", "server.1=a:2888:3888|b:2888:3888:participant;0.0.0.0:2181\nversion=0", "", []string{"a:2181", "b:2181"}},
		{"groups and weights", "server.1=a:2888:3888:participant;2181\ngroup.1=1\nweight.1=1\nversion=0", "", []string{"a:2181"}},
		{"3.10 tells the port for TLS", "server.1=a:2888:3888:participant;2181;0.0.0.0:2281\nserver.2=b:2888:3888:participant;;10.0.0.2:2282\nversion=0", anyPort, []string{"10.0.0.2:2282", "a:2281"}},
		{"TLS without a port for plain text", "server.1=a:2888:3888:participant\nversion=0", "2281", []string{"a:2281"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := parseMembers(test.text, test.tls)
			if err != nil || !slices.Equal(m.Servers, test.want) {
				t.Errorf("%q, %v, want %q", m.Servers, err, test.want)
			}
		})
	}
	if m, err := parseMembers(three, ""); m.Version != 0x10000000a {
		t.Errorf("version %x, %v", m.Version, err)
	}
}

func TestUnusableMembers(t *testing.T) {
	for _, test := range []struct{ text, tls, says string }{
		{"", "", "it names no servers"},
		{"version=0", "", "it names no servers"},
		{"server.1=a:2888:3888:participant;2181", "", "no version"},
		{"server.1=a:2888:3888:participant;2181\nversion=x", "", `version "x": must be a hexadecimal number`},
		{"server.1=a:2888:3888:participant;2181\nserver.2=b:2888:3888:participant\nversion=0", "", "server.2=b:2888:3888:participant: it has no address for clients: append ;clientPort"},
		{"server.1=a:2888:3888:participant;;2281\nversion=0", "", "it has no address for clients"},
		{"server.1=a:2888:3888:participant;2181\nversion=0", anyPort, "server.1=a:2888:3888:participant;2181: it has no address for TLS"},
		{"server.1=a;2181\nversion=0", "", "must have the form"},
		{"server.1=:2888:3888;2181\nversion=0", "", "must have the form"},
		{"server.1=a:2888:3888;70000\nversion=0", "", "must have a port from 1 to 65535"},
	} {
		m, err := parseMembers(test.text, test.tls)
		if mustSay(t, err, test.says); len(m.Servers) > 0 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %q, %v", test.text, m.Servers, err)
		}
	}
}

func FuzzMembers(f *testing.F) {
	f.Add("server.1=a:1:2|[::1]:1:2:observer;[::]:3;4\nversion=a", "5")
	f.Fuzz(func(t *testing.T, text, tls string) {
		m, err := parseMembers(text, tls)
		if (err == nil) != (len(m.Servers) > 0) {
			t.Fatalf("%q, %v", m.Servers, err)
		}
		for _, s := range m.Servers {
			if parsed, err := ParseServer(s); err != nil || parsed != s {
				t.Errorf("%q: %q, %v", s, parsed, err)
			}
		}
	})
}

func TestCommonPort(t *testing.T) {
	for want, servers := range map[string][]string{"2181": {"a:2181", "[::1]:2181"}, anyPort: {"a:2181", "b:2182"}} {
		if got := commonPort(servers); got != want {
			t.Errorf("%q: %q", servers, got)
		}
	}
}
