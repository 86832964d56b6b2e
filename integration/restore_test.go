package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// TestRestoreOfARunningServer: what lock/FAILURES.md says of the command restore of the admin server
// (3.9): a session that is opened after it does not expire when its client has gone, and the next restart
// of the server undoes the restore.
func TestRestoreOfARunningServer(t *testing.T) {
	t.Parallel()
	zkserver.NeedReal(t)
	ports, err := zkserver.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	s := zkserver.ForTest(t, zkserver.Options{Config: []string{"admin.enableServer=true", "admin.serverAddress=127.0.0.1", fmt.Sprintf("admin.serverPort=%d", ports[0])}})
	if v := must(s.Version(t.Context()))(t); slices.Compare(v.Number[:], []int{3, 9, 0}) < 0 {
		t.Skipf("ZooKeeper %s has no command restore", v)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := func(method, name string, body []byte) []byte {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d/commands/%s", ports[0], name), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "digest admin:secret")
		r.Header.Set("Content-Type", "application/octet-stream")
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		said, err := io.ReadAll(reply.Body)
		if bytes.Contains(said, []byte("UnsupportedClassVersionError")) {
			t.Skip("the libraries of this server's admin server need a newer Java")
		}
		if err != nil || reply.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v, %.300s", name, reply.Status, err, said)
		}
		return said
	}
	connect := func(dial zk.Dialer) *zk.Conn {
		t.Helper()
		z, _, err := zk.Connect([]string{s.Addr()}, 2*time.Second, zk.WithLogInfo(false), zk.WithLogger(testLog{}), zk.WithDialer(dial))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(z.Close)
		return z
	}
	create := func(z *zk.Conn, path string, flags int32) {
		t.Helper()
		if _, err := z.Create(path, nil, flags, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	exists := func(z *zk.Conn, path string) bool {
		t.Helper()
		for {
			there, _, err := z.Exists(path)
			if err == nil {
				return there
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				t.Fatal(err)
			}
		}
	}
	// crash returns a client's dialer, and a function after which the client reaches no server.
	crash := func() (zk.Dialer, func()) {
		var gone atomic.Bool
		var open atomic.Pointer[net.Conn]
		return func(network, address string, timeout time.Duration) (net.Conn, error) {
				if gone.Load() {
					return nil, errors.New("crashed")
				}
				nc, err := net.DialTimeout(network, address, timeout)
				open.Store(&nc)
				return nc, err
			}, func() {
				gone.Store(true)
				(*open.Load()).Close()
			}
	}
	z := connect(net.DialTimeout)
	create(z, "/before", 0)
	snapshot := command(http.MethodGet, "snapshot?streaming=true", nil)
	create(z, "/since", 0)
	command(http.MethodPost, "restore", snapshot)
	if !exists(z, "/before") || exists(z, "/since") {
		t.Fatal("the data was not restored")
	}
	dial, crashes := crash()
	create(connect(dial), "/session", zk.FlagEphemeral)
	crashes()
	time.Sleep(10 * time.Second) // wall clock: five session timeouts: that nothing happens is no event
	if !exists(z, "/session") {
		t.Error("the session has expired: lock/FAILURES.md says that it does not")
	}
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if !exists(z, "/since") {
		t.Error("the restart has kept the restore: lock/FAILURES.md says that it undoes it")
	}
}
