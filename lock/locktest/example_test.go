package locktest_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// A lock whose holder's session ends is given to the next one, while the first
// still believes to hold it: that is what locks made of ephemeral nodes are like.
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

// The reply to a request may be lost after it was applied. Code that creates a
// node has to find out.
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
