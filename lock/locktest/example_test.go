package locktest_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// When the session of a lock's holder ends, the next client gets the lock, although the first client
// still believes that it holds the lock. Locks with ephemeral nodes have this property.
func Example() {
	ens, err := locktest.New(locktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer ens.Close()

	worker := func(label string) (*zk.Conn, *zk.Lock) {
		conn, _, err := zk.Connect(ens.Servers(), 10*time.Second,
			zk.WithDialer(ens.Dialer(label)), zk.WithLogger(silent{}))
		if err != nil {
			log.Fatal(err)
		}
		return conn, zk.NewLock(conn, "/orders", zk.WorldACL(zk.PermAll))
	}
	first, firstLock := worker("first")
	defer first.Close()
	second, secondLock := worker("second")
	defer second.Close()

	fmt.Println("first locks:", firstLock.Lock())
	ens.ExpireLabel("first")
	fmt.Println("second locks:", secondLock.Lock())
	fmt.Println("nodes:", len(ens.Dump("/orders")))
	// Output:
	// first locks: <nil>
	// second locks: <nil>
	// nodes: 2
}

// A reply may be lost after its request was applied. Code that creates a node must find out whether
// it exists.
func ExampleEnsemble_Intercept() {
	ens, err := locktest.New(locktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer ens.Close()
	ens.Intercept(func(r locktest.Request) locktest.Fault {
		if r.Op == "create" && r.Number == 1 {
			return locktest.Fault{Drop: locktest.AfterApply}
		}
		return locktest.Fault{}
	})

	conn, _, err := zk.Connect(ens.Servers(), 10*time.Second,
		zk.WithDialer(ens.Dialer("worker")), zk.WithLogger(silent{}))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println("lost:", errors.Is(err, zk.ErrConnectionClosed))
	for _, node := range ens.Dump("/a") {
		fmt.Println("but made:", node.Path)
	}
	// Output:
	// lost: true
	// but made: /a
}
