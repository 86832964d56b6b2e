//go:build unix

package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/config"
)

// TestPipeWithoutWriter: the end of the context ends Options, although a file that the configuration
// names is a pipe without a writer.
func TestPipeWithoutWriter(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	iferr.Fatal(t, syscall.Mkfifo(pipe, 0o600))
	for _, z := range []string{
		"auth: {user: shop, password_file: " + pipe + "}",
		"further_users: [{user: shop, password_file: " + pipe + "}]",
		"sasl: {mechanism: digest-md5, user: shop, password_file: " + pipe + "}",
		"tls: {ca_file: " + pipe + "}",
	} {
		cfg, err := config.Parse("config.yaml", []byte("zookeeper: {servers: [\"127.0.0.1:1\"], "+z+"}"))
		iferr.Fatal(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("the service stops")
		ended := make(chan error, 1)
		go func() {
			_, err := cfg.Options(ctx)
			ended <- err
		}()
		cancel(stopped)
		if err := <-ended; !errors.Is(err, stopped) || !strings.Contains(err.Error(), "reading what the configuration names") {
			t.Errorf("%s: %v", z, err)
		}
		if w, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil { // lets the reader end; waits for it
			w.Close()
		}
	}
}
