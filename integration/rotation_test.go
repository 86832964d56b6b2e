package integration_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/reaper"
)

// TestPasswordRotation: the three steps of lock/SECURING.md replace the password of a running pair of
// services and of the reaper, one after the other, and no call is denied. One lock is held from before the
// first step until the second.
func TestPasswordRotation(t *testing.T) {
	t.Parallel()
	server := zkserver.AddrForTest(t, zkserver.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), wholeTest)
	defer cancel()
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "old"), "0ld")
	writeFile(t, filepath.Join(folder, "new"), "n3w")
	login := func(file string) string { return fmt.Sprintf("{user: svc, password_file: %s}", file) }
	client := func(auth string) *lock.Client {
		t.Helper()
		file := filepath.Join(folder, "config.yaml")
		return configured(t, ctx, file, fmt.Sprintf("root: /rotated\nzookeeper: {servers: [%q], session_timeout: 20s, %s}\n", server, auth))
	}
	z := steady{(&bench{TB: t, servers: []string{server}}).connect(), ctx}
	for _, login := range []string{"svc:0ld", "svc:n3w"} {
		iferr.Fatal(t, z.AddAuth("digest", []byte(login)))
	}
	works := func(step string, clients ...*lock.Client) {
		t.Helper()
		for _, c := range clients {
			for _, name := range []string{"old", "new " + step, "old"} {
				if err := c.Mutex(name).Do(ctx, func(context.Context) error { return nil }); err != nil {
					t.Fatalf("%s: %v", step, err)
				}
			}
		}
		r, err := reaper.New(clients[len(clients)-1], reaper.Options{})
		iferr.Fatal(t, err)
		if report, err := r.Sweep(ctx); err != nil || report.Total.Denied > 0 {
			t.Fatalf("%s: denied %v, %v", step, report.Denied, err)
		}
	}
	steps := []string{
		"auth: " + login("old"),
		"auth: " + login("old") + ", further_users: [" + login("new") + "]",
		"auth: " + login("new") + ", further_users: [" + login("old") + "]",
		"auth: " + login("new"),
	}
	a, b := client(steps[0]), client(steps[0])
	hold, err := a.Mutex("old/held").Lock(ctx)
	iferr.Fatal(t, err)
	works("before", a, b)
	for i, step := range steps[1:] {
		next := client(step)
		works(fmt.Sprintf("step %d, first service", i+1), a, next, a)
		a = next
		next = client(step)
		works(fmt.Sprintf("step %d, second service", i+1), b, a, next)
		b = next
		if i == 1 { // the service of before has ended
			iferr.Error(t, hold.Unlock())
		}
		var acl []zk.ACL
		switch i {
		case 0:
			acl = append(zk.DigestACL(zk.PermAll, "svc", "0ld"), zk.DigestACL(zk.PermAll, "svc", "n3w")...)
		case 2:
			acl = zk.DigestACL(zk.PermAll, "svc", "n3w")
		default:
			continue
		}
		iferr.Fatal(t, setACLs(z, "/rotated", acl))
	}
	works("after", a, b)
}

// setACLs sets the ACL of a node and of all nodes below it, as setAcl -R of zkCli.sh does.
func setACLs(z steady, path string, acl []zk.ACL) error {
	children, _, err := z.Children(path)
	errs := []error{err, z.Restrict(path, acl)}
	for _, child := range children {
		errs = append(errs, setACLs(z, path+"/"+child, acl))
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == zk.ErrNoNode })...)
}
