package txnlogs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/history"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// TestRestore: the admin server of 3.9 restores a snapshot from before a hold into the running server. The
// log goes on as if nothing had been: the next hold makes the lock's node although it is there. That is told
// as a restore, not as a violation, and the removed hold is not a second holder.
func TestRestore(t *testing.T) {
	eachRelease(t, func(t *testing.T, in zkserver.Installation) {
		ports, err := zkserver.FreePorts(1)
		iferr.Fatal(t, err)
		port := ports[0]
		s, err := zkserver.Start(t.Context(), zkserver.Options{Installation: in, Config: []string{
			"admin.enableServer=true", "admin.serverAddress=127.0.0.1", fmt.Sprintf("admin.serverPort=%d", port),
		}})
		iferr.Fatal(t, err)
		t.Cleanup(func() { // it is not audited as those of other tests: its log contradicts itself
			iferr.Error(t, s.Stop())
		})
		if v := version(t, s); v.Number[0] == 3 && v.Number[1] < 9 {
			t.Skip("releases before 3.9 do not restore")
		}
		w := newTraffic(t, []string{s.Addr()})
		z := w.connect()
		admin := fmt.Sprintf("http://127.0.0.1:%d/commands/", port)
		before := ask(t, http.MethodGet, admin+"snapshot?streaming=true", nil)
		removed, err := w.client("removed", time.Hour).Mutex("orders/42").Lock(t.Context())
		w.ok(err)
		defer removed.Unlock() //nolint:errcheck // its entry is gone
		other, err := w.client("other", time.Hour).Mutex("other").Lock(t.Context())
		w.ok(err)
		defer other.Unlock() //nolint:errcheck // its entry is gone
		w.note(z, "orders/42", "removed")
		ask(t, http.MethodPost, admin+"restore", before)
		next, err := w.client("next", time.Hour).Mutex("orders/42").Lock(t.Context())
		w.ok(err)
		defer next.Unlock() //nolint:errcheck // the server stops
		w.note(w.connect(), "orders/42", "next")
		if len(w.marks) != 2 {
			t.Fatalf("marks %v", w.marks)
		}

		l := open(w, s.DataDir())
		told := &story{w: w}
		var restored []int64
		told.Machine = history.New(history.Options{Root: "/locks"}, func(e history.Event) {
			if e.Kind == history.Restored {
				restored = append(restored, e.Zxid)
			}
		})
		_, err = l.Follow(context.Background(), txnlog.Range{}, told, func(err error) { t.Error(err) })
		w.ok(err)
		told.End()
		if told.right != 2 || len(restored) != 1 {
			t.Errorf("restored at %#x; right %d, not known %d, wrong %v", restored, told.right, told.unknown, told.wrong)
		}
		for _, at := range told.Now().Locks {
			if at.Lock == "other" && (!at.Unknown || len(at.Holders) > 0) {
				t.Errorf("after the restore: %+v", at)
			}
		}
		found, err := audit.Logs(t.Context(), l, time.Time{}, audit.Options{})
		w.ok(err)
		if len(found.Violations) > 0 || len(found.Restored) == 0 || found.Restored[0] > restored[0] {
			t.Errorf("violations %v, restored at %#x", found.Violations, found.Restored)
		}
	})
}

// ask sends a command to the admin server, which wants any user.
func ask(t *testing.T, method, url string, body []byte) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	iferr.Fatal(t, err)
	r.Header.Set("Authorization", "digest admin:admin")
	r.Header.Set("Content-Type", "application/octet-stream")
	reply, err := http.DefaultClient.Do(r)
	iferr.Fatal(t, err)
	defer reply.Body.Close()
	data, err := io.ReadAll(reply.Body)
	if bytes.Contains(data, []byte("UnsupportedClassVersionError")) {
		t.Skip("the libraries of this admin server need a newer Java")
	}
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v: %.300s", url, reply.Status, err, data)
	}
	return data
}
