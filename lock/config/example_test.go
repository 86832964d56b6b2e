package config_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

func ExampleParse() {
	cfg, err := config.Parse("config.yaml", []byte(`
policies:
  - name: imports
    match: "imports/*"
    ttl: 5m
  - name: tenants
    match: "tenant-*/**"
    ttl: 5s
    max_ttl: 1m
`))
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"imports/stock", "tenant-7/carts/1", "orders/42"} {
		p := cfg.Policies.For(name)
		fmt.Println(name, p.Name, p.TTL, p.MaxTTL)
	}
	// Output:
	// imports/stock imports 5m0s 1h0m0s
	// tenant-7/carts/1 tenants 5s 1m0s
	// orders/42 default 30s 1h0m0s
}

func ExampleParse_mistakes() {
	_, err := config.Parse("config.yaml", []byte(`
root: locks
policies:
  - name: all
    match: "**"
    tll: 5s
  - name: imports
    match: "imports/*"
    grace: 5
`))
	fmt.Println(err)

	var mistakes *config.Error
	if errors.As(err, &mistakes) {
		fmt.Println(len(mistakes.Mistakes), "mistakes, the first in", mistakes.Mistakes[0].Key)
	}
	// Output:
	// config.yaml:2:7: root: locks: must start with a slash
	// config.yaml:6:5: policies[0].tll: is not a known key; did you mean ttl?
	// config.yaml:8:12: policies[1].match: imports/*: can never apply: policies[0] (**) above it matches every such name, and the first match wins
	// config.yaml:9:12: policies[1].grace: 5: must be a duration such as 500ms, 30s or 1h30m: say the unit
	// 4 mistakes, the first in root
}

// A service reads its locks' times and its credentials from the reaper's configuration file.
func ExampleConfig_Options() {
	ensemble, err := locktest.New(locktest.Options{}) // a ZooKeeper in memory
	if err != nil {
		log.Fatal(err)
	}
	defer ensemble.Close()
	os.Setenv("SHOP_PASSWORD", "secret")

	cfg, err := config.Parse("config.yaml", []byte(`
root: /shop
zookeeper:
  auth: {user: shop, password_env: SHOP_PASSWORD}
policies:
  - {name: imports, match: "imports/*", ttl: 5m}
`))
	if err != nil {
		log.Fatal(err)
	}
	start, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	opts, err := cfg.Options(start)
	if err != nil {
		log.Fatal(err)
	}
	opts = append(opts, lock.WithDialer(ensemble.Dial))         // only this example needs it
	locks, err := lock.Dial(start, ensemble.Servers(), opts...) // a service: cfg.ZooKeeper.Servers
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	hold, err := locks.Mutex("imports/stock").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock()
	fmt.Println(hold.Remaining().Round(time.Minute))
	acl := ensemble.Dump("/shop/imports/stock")[0].ACL[0]
	fmt.Println("the lock's node is open to:", acl.Scheme, strings.Split(acl.ID, ":")[0])
	// Output:
	// 5m0s
	// the lock's node is open to: digest shop
}

// The example computes, for each policy, how long a crashed holder blocks other clients, and about how
// long an outage may last without the loss of a hold.
func Example_times() {
	cfg, err := config.Parse("config.yaml", []byte(`
zookeeper: {session_timeout: 4s}
policies:
  - {name: imports, match: "imports/*", ttl: 5m, max_hold: 6h}
  - {name: requests, match: "carts/*", ttl: 5s}
`))
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"imports/stock", "carts/7", "anything/else"} {
		p := cfg.Policies.For(name)
		fmt.Printf("%s: a crash blocks for %v, it survives an outage of about %v\n", name, p.TTL+p.Grace, (p.TTL * 2 / 3).Round(time.Second))
	}
	// Output:
	// imports/stock: a crash blocks for 5m2s, it survives an outage of about 3m20s
	// carts/7: a crash blocks for 7s, it survives an outage of about 3s
	// anything/else: a crash blocks for 32s, it survives an outage of about 20s
}
