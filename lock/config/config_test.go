package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestStatus(t *testing.T) {
	c, err := Parse("config.yaml", []byte("reaper: {listen: \":9180\", hosts: [reaper.example.org], show_metadata: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Status{"127.0.0.1:9180", []string{"reaper.example.org"}, true}); !reflect.DeepEqual(c.Status, want) {
		t.Errorf("got %+v, want %+v", c.Status, want)
	}
	for text, says := range map[string]string{
		`{listen: "localhost"}`:  "config.yaml:1:18: reaper.listen: localhost: must be a port or host:port, such as 9180 or 0.0.0.0:9180",
		`{hosts: ["http://x"]}`:  "reaper.hosts[0]: http://x: must be the name of a host, without a port",
		`{hosts: []}`:            "reaper.hosts",
		`{show_metadata: "yes"}`: "reaper.show_metadata",
		"{}\nroots: [{name: a, root: /a, reaper: {listen: \"1\"}}]": "roots[0].reaper.listen: is not a known key",
	} {
		if _, err := Parse("config.yaml", []byte("reaper: "+text+"\n")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// TestParseListen: a port without a host stands for this port of 127.0.0.1. A text that is neither a
// port nor host:port is refused.
func TestParseListen(t *testing.T) {
	for text, want := range map[string]string{
		"9180": "127.0.0.1:9180", ":9180": "127.0.0.1:9180", "0.0.0.0:9180": "0.0.0.0:9180", "[::]:1": "[::]:1", "host:65535": "host:65535", "0": "127.0.0.1:0",
		"": "", "host": "", "host:": "", ":65536": "", "-1": "", "+1": "", "::1": "", "host:http": "", "01": "",
	} {
		got, err := ParseListen(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
