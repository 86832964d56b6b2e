package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// FuzzLoad: for any servers, root and configuration file, Load returns a configuration that is usable,
// or a usage error with a message.
func FuzzLoad(f *testing.F) {
	f.Add("", "", "")
	f.Add("zk1:2181,zk2", "/locks/here", "root: /there\nlog: {format: console}\n")
	f.Add("a:0,b,c d", "locks", "rot: /x\nlog: {level: loud}\n")
	f.Add(",", "/", "zookeeper: {servers: []}")
	f.Add(" [::1]:2181 , 10.0.0.1", "//", "policies: [{name: a, match: '**'}]")
	f.Add("\xff", "/zookeeper", "\xff")
	f.Add("a,\x00", "/\x00", "- - -")
	f.Fuzz(func(t *testing.T, servers, root, text string) {
		clearEnv(t)
		flags := Flags{Config: write(t, text), Servers: servers, Root: root}
		cfg, err := flags.Load(t.Context())
		if err != nil {
			if Status(t.Context(), err) != StatusUsage || strings.TrimSpace(err.Error()) == "" || cfg != nil {
				t.Errorf("%v, status %d, configuration %v", err, Status(t.Context(), err), cfg)
			}
			return
		}
		wrong := znode.CheckRoot(cfg.Root)
		for _, s := range cfg.ZooKeeper.Servers {
			again, err := config.ParseServer(s)
			if again != s {
				t.Errorf("server %q became %q", s, again)
			}
			wrong = errors.Join(wrong, err)
		}
		for _, p := range cfg.Policies.All() {
			wrong = errors.Join(wrong, p.Policy.Validate())
		}
		if wrong != nil || len(cfg.ZooKeeper.Servers) == 0 {
			t.Errorf("accepted: %q, %v", cfg.ZooKeeper.Servers, wrong)
		}
		Logger(cfg.Log, t.Output())
	})
}
