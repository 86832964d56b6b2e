package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

// TestShowOfAForeignNode: holdfast show of a node that clients refuse says why, and not that the lock is
// free.
func TestShowOfAForeignNode(t *testing.T) {
	served(t)
	create(t, "/locks", "", 0, zk.WorldACL(zk.PermAll))
	create(t, "/locks/other", "10.0.0.1", 0, zk.WorldACL(zk.PermAll))
	create(t, "/locks/newer", `{"holdfast":9}`, 0, zk.WorldACL(zk.PermAll))
	create(t, "/locks/damaged", `{"holdfast":2,"kind":`, 0, zk.WorldACL(zk.PermAll))
	create(t, "/locks/session", "", zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	create(t, "/locks/empty", "", 0, zk.WorldACL(zk.PermAll))
	for name, want := range map[string]string{
		"other":   `lock "other" cannot be taken: /locks/other: not Holdfast's data`,
		"newer":   `lock "newer" cannot be taken: /locks/newer: data of a newer version of Holdfast: version 9`,
		"damaged": `lock "damaged" cannot be taken: /locks/damaged: not Holdfast's data`,
		"session": `lock "session" cannot be taken: /locks/session is an ephemeral node`,
		"empty":   `there is no lock "empty"`,
	} {
		var out, errs bytes.Buffer
		status := run(t.Context(), []string{"show", name}, strings.NewReader(""), &out, &errs)
		if status != app.StatusFailed || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: status %d, says %q, want %q", name, status, &errs, want)
		}
	}
}

// create creates a node as another program does. An ephemeral one stays until the end of the test.
func create(t *testing.T, path, data string, flags int32, acl []zk.ACL) {
	t.Helper()
	z, _, err := zk.Connect([]string{os.Getenv(app.EnvServers)}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Close)
	if _, err := z.Create(path, []byte(data), flags, acl); err != nil {
		t.Fatal(path, err)
	}
}
