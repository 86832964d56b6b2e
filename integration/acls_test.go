package integration_test

import (
	"errors"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// TestReaperACLs: with the ACLs that the commands of acls.txt set, a reaper can delete the entries
// of crashed clients and nothing else. Users without an ACL can do nothing.
func TestReaperACLs(t *testing.T) {
	t.Parallel()
	b := onShared(t)
	data, err := os.ReadFile("../cmd/reaper/deploy/acls.txt")
	iferr.Fatal(t, err)
	commands := regexp.MustCompile(`(?m)^[a-z].*`).FindAllString(string(data), -1) // the commands of the file
	said := b.zkCli(strings.ReplaceAll(strings.Join(commands, "\n"), "/locks", b.root))
	for _, user := range []string{"services", "reaper", "admin"} {
		if !regexp.MustCompile(`'digest,'` + user + `:`).MatchString(said) {
			t.Fatalf("the root's ACL does not name %s:\n%s", user, said)
		}
		if err := b.raw.AddAuth("digest", []byte(user+":"+user+"-password")); err != nil { // the bench lists the remaining nodes as each user
			t.Fatal(err)
		}
	}
	id := regexp.MustCompile(`ID: "(reaper:[^"]+)"`).FindStringSubmatch(string(data))[1]
	services := b.client(lock.WithDigest("services", "services-password"), lock.WithACL(
		zk.ACL{Perms: zk.PermAll, Scheme: "auth"},
		zk.ACL{Perms: zk.PermRead | zk.PermDelete, Scheme: "digest", ID: id},
	))
	live := b.lock(services, "teams/a/live")
	iferr.Fatal(t, iferr.Of(b.lock(services, "teams/a/dead").Detach(b.ctx, lock.MinTTL)))
	alone := b.client(lock.WithDigest("services", "services-password"))
	private := b.lock(alone, "private")

	set, err := policy.NewSet(policy.Rule{Match: policy.MustPattern("**"), Policy: lock.Policy{Name: "all", Grace: grace}, OrphanAfter: time.Second})
	iferr.Fatal(t, err)
	r, err := reaper.New(b.client(lock.WithDigest("reaper", "reaper-password")), reaper.Options{Policies: set})
	iferr.Fatal(t, err)
	b.eventually("the dead lock is gone", func() bool {
		report, err := r.Sweep(b.ctx)
		iferr.Fatal(t, err)
		for _, d := range report.Denied {
			if !strings.HasPrefix(d.Path, b.root+"/private") {
				t.Fatalf("denied: %+v", d)
			}
		}
		if report.Total.Denied == 0 {
			t.Fatal("what the services keep for themselves was not denied")
		}
		there, _, err := b.raw.Exists(b.root + "/teams/a/dead")
		return err == nil && !there
	})

	entry := live.EntryPath()
	for user, allowed := range map[string]string{"reaper": "get list", "stranger": ""} {
		z := steady{b.connect(), b.ctx}
		iferr.Fatal(t, z.AddAuth("digest", []byte(user+":"+user+"-password")))
		parent := path.Dir(entry)
		for what, try := range map[string]func() error{
			"get":    func() error { _, _, err := z.Get(entry); return err },
			"list":   func() error { _, _, err := z.Children(parent); return err },
			"set":    func() error { _, err := z.Set(entry, nil, -1); return err },
			"parent": func() error { _, err := z.Set(parent, nil, -1); return err },
			"acl":    func() error { _, err := z.SetACL(entry, zk.WorldACL(zk.PermAll), -1); return err },
			"forge":  func() error { _, err := z.Create(parent+"/forged", nil, 0, zk.WorldACL(zk.PermAll)); return err },
		} {
			var err error
			z.again(func() error { err = try(); return err })
			may := strings.Contains(allowed, what)
			if may != (err == nil) || !may && !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("%s may %s: %v", user, what, err)
			}
		}
	}
	stranger := steady{b.connect(), b.ctx}
	if err := stranger.Delete(entry, -1); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger deletes an entry: %v", err)
	}
	if _, err := stranger.Create(b.root+"/x", nil, 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger makes a lock: %v", err)
	}
	b.unlock(live)
	b.unlock(private)
	b.prune("teams/a", "teams")
}
