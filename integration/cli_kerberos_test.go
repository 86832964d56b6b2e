//go:build linux

package integration_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/kdc"
	"github.com/holdfast-io/holdfast/integration/testpki"
)

// testKerberos: holdfast and the reaper work with the configured keytab, and holdfast also with a
// credential cache. Without either, holdfast is refused. If the keytab is outdated, the errors of
// ls and of doctor name the cause.
func testKerberos(t *testing.T, bin string) {
	k := startKerberized(t, kdc.Options{})
	k.AddPrincipal(t, "changed")
	k.keytabs["changed"] = k.Keytab(t, "changed")
	k.Admin(t, "cpw -randkey changed")
	dir := t.TempDir()
	cache := filepath.Join(dir, "cache")
	k.Kinit(t, "svc", k.keytabs["svc"], cache)
	ca := testpki.File(t, "ca.pem", k.authority.PEM)
	b := &bench{TB: t, ctx: k.ctx, servers: []string{k.secure.secure}, root: "/locks"}
	configured := func(sasl string) *cli {
		file := writeConfig(t, fmt.Sprintf("zookeeper:\n  servers: [%q]\n  session_timeout: %v\n  tls: {ca_file: %s}\n%s", k.secure.secure, programSession, ca, sasl))
		return &cli{bench: b, dir: dir, prog: filepath.Join(bin, "holdfast"), args: []string{"--config", file, "--servers", k.secure.secure}, name: "x"}
	}
	gssapi := func(keys string, args ...any) *cli {
		return configured(fmt.Sprintf("  sasl: {mechanism: gssapi, krb5_conf: %s, %s}\n", k.Conf, fmt.Sprintf(keys, args...)))
	}
	ours := gssapi("principal: svc, keytab: %s", k.keytabs["svc"])
	for _, c := range []*cli{ours, gssapi("ccache: %s", cache)} {
		p := c.start("run", c.name, "--", "/bin/true")
		p.rest()
		p.mustExit(0)
	}
	sweeper := *ours
	sweeper.prog = filepath.Join(bin, "reaper")
	p := sweeper.start("--once")
	out := p.rest()
	if p.mustExit(0); !strings.Contains(out, `"complete": true`) {
		t.Errorf("the reaper's report: %s", out)
	}
	p = configured("").start("run", ours.name, "--", "/bin/true")
	p.rest()
	if p.mustSay("access denied"); p.status() == 0 {
		t.Error("a stranger's command ran")
	}
	outdated := gssapi("principal: changed, keytab: %s", k.keytabs["changed"])
	p = outdated.start("ls")
	p.rest()
	if p.mustSay("the keytab is outdated"); p.status() == 0 {
		t.Error("a command with an outdated keytab ran")
	}
	found, err := exec.CommandContext(k.ctx, outdated.prog, append([]string{"doctor"}, outdated.args...)...).Output()
	if err == nil || !strings.Contains(string(found), "sasl-failed") || !strings.Contains(strings.Join(strings.Fields(string(found)), " "), "the keytab is outdated") {
		t.Errorf("the doctor, %v:\n%s", err, found)
	}
}
