package zkserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// EnvRoots names the file with the roots of tests, see [Root]. The process that starts the shared
// server sets the variable; empty: that server's log is not audited.
const EnvRoots = "HOLDFAST_ROOTS"

// The transaction logs of the servers of [ForTest], [EnsembleForTest] and [StartAny] are audited
// when the servers stop (package audit). The logs of other servers that HOLDFAST_ZOOKEEPER names
// are not. The command withzk calls StartAny, so its server is audited.

// roots has the lines of this process's calls of [Root].
var roots struct {
	sync.Mutex
	lines []string
}

// Root declares that a test writes only below a path, so that a failed audit names the test. breaks
// are the rules that the test breaks there on purpose, for example because it deletes entries by
// hand.
func Root(t testing.TB, path string, breaks ...audit.Rule) {
	t.Helper()
	line := path + "\t" + t.Name()
	for _, rule := range breaks {
		line += "\t" + string(rule)
	}
	roots.Lock()
	defer roots.Unlock()
	roots.lines = append(roots.lines, line)
	if file := os.Getenv(EnvRoots); file != "" {
		if err := appendLine(file, line); err != nil {
			t.Errorf("zkserver: %s: %v", EnvRoots, err)
		}
	}
}

// appendLine appends a line to a file, to which other processes may append too.
func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// shareRoots creates the file of roots and sets [EnvRoots] to its name, for the tests on a shared
// server. remove undoes both.
func shareRoots() (remove func() error, err error) {
	f, err := os.CreateTemp("", "holdfast-roots-")
	if err != nil {
		return nil, err
	}
	os.Setenv(EnvRoots, f.Name())
	return func() error {
		os.Unsetenv(EnvRoots)
		return os.Remove(f.Name())
	}, f.Close()
}

// auditLogs audits the servers' logs in the folders, and returns as an error the violations, without
// those that tests declared with [Root], and what it cannot read. If mayDiverge is true and the logs
// contradict each other, auditLogs prints a message and returns nil.
func auditLogs(mayDiverge bool, dirs ...string) error {
	dirs = slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool {
		files, err := filepath.Glob(filepath.Join(dir, "log.*"))
		return err != nil || len(files) == 0 // the server has never served
	})
	if len(dirs) == 0 {
		return nil
	}
	logs, err := txnlog.Open(dirs...)
	if err != nil {
		return fmt.Errorf("zkserver: audit: %w", err)
	}
	found, err := audit.Logs(context.Background(), logs, time.Time{}, audit.Options{})
	if err != nil {
		return fmt.Errorf("zkserver: audit: %w", err)
	}
	roots.Lock()
	known := slices.Clone(roots.lines)
	roots.Unlock()
	if file := os.Getenv(EnvRoots); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("zkserver: %s: %w", EnvRoots, err)
		}
		known = append(known, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	}
	var errs []error
	if len(found.Restored) > 0 {
		err := fmt.Errorf("zkserver: the servers' logs contradict themselves at %#x", found.Restored)
		if mayDiverge {
			fmt.Fprintln(os.Stderr, "the audit proves nothing:", err)
			return nil
		}
		errs = append(errs, err)
	}
	for _, p := range found.Problems {
		if p.Kind == txnlog.ProblemUnsupported || p.Kind == txnlog.ProblemUnreadable || p.Kind == txnlog.ProblemDisorder {
			errs = append(errs, fmt.Errorf("zkserver: audit: %w", p)) // what the audit cannot read, it does not judge
		}
	}
	for _, v := range found.Violations {
		test, meant := whose(known, v)
		if !meant {
			errs = append(errs, fmt.Errorf("%s: audit: %v", test, v))
		}
	}
	if len(errs) > 10 {
		errs = append(errs[:10], fmt.Errorf("and %d more", len(errs)-10))
	}
	return errors.Join(errs...)
}

// mayDiverge reports whether the servers are an ensemble with a version that may diverge; see
// [Version.MayDiverge]. It is false if no server answers.
func mayDiverge(servers []*Server) bool {
	// wall clock: a server that was paused or stopped does not answer
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return len(servers) > 1 && slices.ContainsFunc(servers, func(s *Server) bool {
		v, err := s.Version(ctx)
		return err == nil && v.MayDiverge()
	})
}

// whose returns the test that declared the path of a violation ("a test" if none did), and whether
// a test that declared it breaks the rule on purpose.
func whose(lines []string, v audit.Violation) (test string, meant bool) {
	test = "a test"
	for _, line := range lines {
		fields := strings.Split(line, "\t")
		if len(fields) < 2 || v.Path != fields[0] && !strings.HasPrefix(v.Path, strings.TrimSuffix(fields[0], "/")+"/") {
			continue
		}
		test, meant = fields[1], meant || slices.Contains(fields[2:], string(v.Rule))
	}
	return test, meant
}
