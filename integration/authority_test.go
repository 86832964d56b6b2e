package integration_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/testpki"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/reaper"
)

// TestServersOfAnotherAuthority: a running client and a reaper whose server gets a certificate of another
// authority name the certificate, and come back as soon as their file has that authority, without a
// restart.
func TestServersOfAnotherAuthority(t *testing.T) {
	t.Parallel()
	zkserver.NeedReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), wholeTest)
	defer cancel()
	ports, err := zkserver.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		t.Helper()
		path := filepath.Join(folder, name)
		writeFile(t, path, string(content))
		return path
	}
	before, after := testpki.New(t), testpki.New(t)
	store := write("server.pem", before.Issue(t, "127.0.0.1").Bundle(before))
	authorities := write("ca.pem", before.PEM)
	server := zkserver.ForTest(t, zkserver.Options{Config: []string{
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		fmt.Sprintf("secureClientPort=%d", ports[0]), "secureClientPortAddress=127.0.0.1", "ssl.clientAuth=none",
		"ssl.keyStore.location=" + store, "ssl.keyStore.type=PEM", "ssl.trustStore.location=" + authorities, "ssl.trustStore.type=PEM",
	}})
	cfg, err := config.Load(write("config.yaml", fmt.Appendf(nil, "zookeeper: {servers: [\"127.0.0.1:%d\"], session_timeout: 6s, tls: {ca_file: ca.pem}}\n", ports[0])))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := cfg.Options(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	locks := dial(t, ctx, cfg.ZooKeeper.Servers, opts...)
	watched := dial(t, ctx, cfg.ZooKeeper.Servers, opts...)
	monitor := reaper.NewMonitor(reaper.About{Root: cfg.Root})
	r, err := reaper.New(watched, reaper.Options{Monitor: monitor})
	if err != nil {
		t.Fatal(err)
	}
	sweeping, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(sweeping) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	takes := func() error {
		return locks.Mutex("x").Do(ctx, func(context.Context) error { return nil })
	}
	if err := takes(); err != nil {
		t.Fatal(err)
	}

	write("server.pem", after.Issue(t, "127.0.0.1").Bundle(after))
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	const why = "certificate signed by unknown authority"
	for {
		err, page := locks.Check(), monitor.Status().Session.LastFailure
		if errors.Is(err, lock.ErrUnavailable) && strings.Contains(err.Error(), why) && strings.Contains(page, why) {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("Check says %v, the reaper's status %q", err, page)
		}
	}
	write("ca.pem", after.PEM)
	if err := takes(); err != nil {
		t.Error(err)
	}
	for !monitor.Status().Session.Connected {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the reaper does not come back")
		}
	}
}
