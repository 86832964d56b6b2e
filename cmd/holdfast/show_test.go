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
	z, _, err := zk.Connect([]string{os.Getenv(app.EnvServers)}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for i, path := range []string{"/locks", "/locks/other", "/locks/newer", "/locks/damaged", "/locks/session", "/locks/empty"} {
		data := []string{"", "10.0.0.1", `{"holdfast":9}`, `{"holdfast":2,"kind":`, "", ""}[i]
		flags := int32(0)
		if path == "/locks/session" {
			flags = zk.FlagEphemeral
		}
		if _, err := z.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(path, err)
		}
	}
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
