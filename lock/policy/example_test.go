package policy_test

import (
	"fmt"
	"log"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
)

func ExampleNewSet() {
	set, err := policy.NewSet(policy.Rule{
		Match:  policy.MustPattern("imports/*"),
		Policy: lock.Policy{Name: "imports", TTL: 5 * time.Minute, MaxHold: 6 * time.Hour},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range set.All() {
		fmt.Println(p.Name, p.Match, p.TTL, p.MaxHold)
	}
	// Output:
	// imports imports/* 5m0s 6h0m0s
	// default ** 30s 0s
}

func ExamplePattern_Match() {
	p := policy.MustPattern("shop-*/**/stock")
	for _, name := range []string{"shop-eu/stock", "shop-eu/berlin/1/stock", "shop-eu/berlin"} {
		fmt.Println(name, p.Match(name))
	}
	// Output:
	// shop-eu/stock true
	// shop-eu/berlin/1/stock true
	// shop-eu/berlin false
}

func ExamplePattern_Covers() {
	all, one := policy.MustPattern("shop/**"), policy.MustPattern("shop/*/stock")
	fmt.Println(all.Covers(one), one.Covers(all))
	// Output: true false
}
