package main

import (
	"strings"
	"testing"

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
		if _, errs, status := holdfast(t, "show", name); status != app.StatusFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, says %q, want %q", name, status, errs, want)
		}
	}
}
