package locktest_test

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// benchmark measures the round trip of one client with one request at a time, through go-zookeeper.
func benchmark(b *testing.B, members int, request func(c *client) error) {
	ens := locktest.Start(b, locktest.Options{Members: members})
	c := connect(b, ens.Servers(), ens.Dial, 10*time.Second)
	mustCreate(b, c, "/n", persistent)
	b.ReportAllocs()
	for b.Loop() {
		if err := request(c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	benchmark(b, 1, func(c *client) error {
		_, _, err := c.Get("/n")
		return err
	})
}

func BenchmarkSet(b *testing.B) {
	benchmark(b, 1, func(c *client) error {
		_, err := c.Set("/n", []byte("data"), -1)
		return err
	})
}

func BenchmarkSetThreeMembers(b *testing.B) {
	benchmark(b, 3, func(c *client) error {
		_, err := c.Set("/n", []byte("data"), -1)
		return err
	})
}

func BenchmarkMulti(b *testing.B) {
	benchmark(b, 1, func(c *client) error {
		_, err := c.Multi(create("/p", persistent), create("/p/n-", sequence), set("/p", "", 0), del("/p/n-0000000000", 0), del("/p", 1))
		return err
	})
}
