package crew

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// Audit audits the transaction logs of servers.
func Audit(ctx context.Context, servers []*zkserver.Server, o audit.Options) (*audit.Findings, error) {
	var dirs []string
	for _, s := range servers {
		dirs = append(dirs, s.DataDir())
	}
	logs, err := txnlog.Open(dirs...)
	if err != nil {
		return nil, err
	}
	return audit.Logs(ctx, logs, time.Time{}, o)
}

// Wrong returns what an audit of the servers has found wrong, or why that proves nothing: servers of
// all releases can lose data when they are killed (FAILURES.md).
func Wrong(f *audit.Findings) (all []string, void string) {
	if len(f.Restored) > 0 {
		return nil, fmt.Sprintf("the servers' logs contradict themselves at %#x", f.Restored)
	}
	return Violations(f), ""
}

// Violations returns the violations as text, also those in logs that contradict themselves.
func Violations(f *audit.Findings) (all []string) {
	for _, v := range f.Violations {
		all = append(all, v.String())
	}
	return all
}

// KeepLogs copies the transaction logs of servers to folders below dir.
func KeepLogs(servers []*zkserver.Server, dir string) (err error) {
	for i, s := range servers {
		to := filepath.Join(dir, fmt.Sprintf("server-%d", i+1), "version-2")
		err = errors.Join(err, os.RemoveAll(to), os.CopyFS(to, os.DirFS(s.DataDir())))
	}
	return err
}
