package integration_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestNearTheEndOfTheCounter: near the end of a parent's sequence counter, where the counter sticks
// or wraps, no two clients hold the lock at once, and the count starts again. The server runs from
// an edited snapshot.
func TestNearTheEndOfTheCounter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		counter int32
	}{
		{"a little before the end", math.MaxInt32 - 12},
		{"at the end", math.MaxInt32 - 2},
		{"stuck", math.MaxInt32},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serverWithCounter(t, "/doctored/x", tt.counter)
			b := on(t, []string{s.Addr()})
			b.root = "/doctored"

			// At its end the counter repeats a sequence; before 3.6 sequences turn negative.
			if tt.counter == math.MaxInt32 {
				var names []string
				for range 2 {
					p := b.create(b.root+"/x/other-", "", zk.FlagSequence)
					names = append(names, p)
					b.prune(p[len(b.root):])
				}
				if names[1] != names[0] && !strings.HasSuffix(names[1], "other--2147483648") {
					t.Errorf("the counter goes on: %q", names)
				}
			}

			clients := []*lock.Client{b.client(), b.client()}
			var r room
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for range 5 {
						h := b.lock(clients[i%2], "x")
						leave := r.enter(h.Token())
						time.Sleep(20 * time.Millisecond) // so that the others join meanwhile
						leave()
						b.unlock(h)
					}
				})
			}
			wg.Wait()
			r.check(t)
			if n := r.entries.Load(); n != 40 {
				t.Errorf("%d entries, want 40", n)
			}
			h := b.lock(clients[0], "x")
			if name, _ := znode.Parse(filepath.Base(h.EntryPath())); name.Seq > 1000 {
				t.Errorf("the count did not start anew: %s", h.EntryPath())
			}
			b.unlock(h)
		})
	}
}

// snapEvery is the largest number of transactions between two snapshots of serverWithCounter's
// server.
const snapEvery = 1000

// serverWithCounter starts a server on which the node, a mutex's parent, has the given counter.
func serverWithCounter(t *testing.T, path string, counter int32) *zkserver.Server {
	t.Helper()
	s := zkserver.ForTest(t, zkserver.Options{
		// Without these features a snapshot has two checksums fewer.
		JVMArgs: []string{
			"-Dzookeeper.digest.enabled=false", "-Dzookeeper.serializeLastProcessedZxid.enabled=false",
			fmt.Sprintf("-Dzookeeper.snapCount=%d", snapEvery),
		},
	})
	connect := func() steady {
		t.Helper()
		z, _, err := zk.Connect([]string{s.Addr()}, 2*sessionTimeout, zk.WithLogInfo(false), zk.WithLogger(testLog{}))
		iferr.Fatal(t, err)
		return steady{z, t.Context()}
	}
	z := connect()
	for _, n := range []struct {
		path string
		kind znode.Kind
	}{{filepath.Dir(path), znode.Dir}, {path, znode.Mutex}} {
		iferr.Fatal(t, z.Ensure(n.path, znode.Parent{Kind: n.kind}.Encode(), zk.WorldACL(zk.PermAll)))
	}
	// A server writes a snapshot in the background after a number of transactions. Since 3.5 it
	// also does so at its start.
	for n := 0; completeSnapshot(t, s.DataDir(), path) == ""; n++ {
		if n == 100*snapEvery {
			t.Fatalf("no snapshot with %s in %s after %d transactions", path, s.DataDir(), n)
		}
		iferr.Fatal(t, z.Write(filepath.Dir(path), znode.Parent{Kind: znode.Dir}.Encode()))
	}
	z.Close()
	s.Kill()
	doctor(t, s.DataDir(), path, counter)
	iferr.Fatal(t, s.Restart(t.Context()))
	z = connect()
	defer z.Close()
	// A server that rejects the snapshot starts empty. The Cversion of a Stat counts creates and
	// deletes of children, so without children it is twice the counter.
	if _, stat, err := z.Get(path); err != nil || stat.Cversion != 2*counter {
		t.Fatalf("the server has not taken the doctored snapshot: %s stands at %+v, %v", path, stat, err)
	}
	return s
}

// completeSnapshot returns the path of the newest complete snapshot that has the node; "" if there
// is none.
func completeSnapshot(t *testing.T, dir, path string) (newest string) {
	t.Helper()
	snapshots, err := filepath.Glob(filepath.Join(dir, "snapshot.*"))
	iferr.Fatal(t, err)
	number := func(file string) (n int64) {
		fmt.Sscanf(filepath.Ext(file), ".%x", &n)
		return n
	}
	for _, file := range snapshots {
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the server renames a snapshot when it is complete
			t.Fatal(err)
		}
		if bytes.HasSuffix(data, lengthed("/")) && bytes.Contains(data, lengthed(path)) && (newest == "" || number(file) > number(newest)) {
			newest = file
		}
	}
	return newest
}

// doctor sets a node's counter in the newest snapshot of a stopped server, and corrects the
// checksum. It deletes all other files of the server, including the logs.
func doctor(t *testing.T, dir, path string, counter int32) {
	t.Helper()
	newest := completeSnapshot(t, dir, path)
	data, err := os.ReadFile(newest)
	iferr.Fatal(t, err)
	// A node is its path and its data, each after its length, then the number of its ACL, and a
	// StatPersisted: czxid, mzxid, ctime, mtime, version, cversion...
	at := bytes.Index(data, lengthed(path)) + 4 + len(path)
	at += 4 + int(binary.BigEndian.Uint32(data[at:])) + 8 + 4*8 + 4
	binary.BigEndian.PutUint32(data[at:], uint32(counter))
	// The nodes end with "/", then come their checksum and "/" again.
	end := bytes.LastIndex(data, lengthed("/"))
	seal := end - 8
	binary.BigEndian.PutUint64(data[seal:], uint64(adler32.Checksum(data[:seal])))
	iferr.Fatal(t, os.WriteFile(newest, data, 0o600))
	files, err := os.ReadDir(dir)
	iferr.Fatal(t, err)
	for _, f := range files {
		if other := filepath.Join(dir, f.Name()); other != newest {
			iferr.Fatal(t, os.Remove(other))
		}
	}
}

func lengthed(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}
