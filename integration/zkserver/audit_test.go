package zkserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestAudit: Stop says which write breaks a rule, and which test has declared its path. It does not say it of
// a path whose test breaks the rule on purpose.
func TestAudit(t *testing.T) {
	NeedReal(t)
	s, err := Start(t.Context(), Options{})
	iferr.Fatal(t, err)
	s.audited = true
	z, _, err := Connect(t.Context(), []string{s.Addr()}, time.Minute, nil)
	iferr.Fatal(t, err)
	Root(t, "/a")
	Root(t, "/on-purpose", audit.Generation)
	lone := znode.Parent{Kind: znode.Mutex, Generation: znode.NewID()}.Encode()
	for _, path := range []string{"/a", "/on-purpose"} {
		iferr.Error(t, iferr.Of(z.Create(path, lone, 0, zk.WorldACL(zk.PermAll)))) // without its anchor
	}
	z.Close()
	err = s.Stop()
	if err == nil || !strings.HasPrefix(err.Error(), "TestAudit: audit: ") || !strings.Contains(err.Error(), " generation: /a: ") || strings.Contains(err.Error(), "/on-purpose") {
		t.Errorf("Stop: %v", err)
	}
}

// TestAuditOfWhatCannotBeRead: a log that the audit cannot read is an error.
func TestAuditOfWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	iferr.Fatal(t, os.WriteFile(filepath.Join(dir, "log.1"), []byte("no log of ZooKeeper"), 0o600))
	if err := auditLogs(false, dir); err == nil || !strings.Contains(err.Error(), "log.1") {
		t.Errorf("%v", err)
	}
}
