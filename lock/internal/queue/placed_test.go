// Places of a client: which requests share one, and an exchange whose join ends.

package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestUnlikeRequests: requests share a place only if an entry of one has the settings of the other. A field
// that is added later, and that neither alike nor Terms.Alike compares, fails here.
func TestUnlikeRequests(t *testing.T) {
	base := Request{Lock: "x", Kind: znode.Semaphore, Permits: 1, Capacity: 3, Terms: lease.Terms{TTL: time.Second, Grace: time.Second}}
	q, s, requests := offline(new(local)), new(lockState), []Request{base}
	// They are the place's own, the goroutine's own, or those of requests without a place.
	indifferent := []string{"Lock", "Values", "Priority", "Terms", "Detached", "Attempt", "Incarnation", "Attachment"}
	for _, of := range []func(*Request) any{func(r *Request) any { return r }, func(r *Request) any { return &r.Terms }} {
		for i := range reflect.TypeOf(of(&base)).Elem().NumField() {
			o := base
			field := reflect.ValueOf(of(&o)).Elem()
			name := field.Type().Field(i).Name
			if field = field.Field(i); slices.Contains(indifferent, name) {
				continue
			}
			switch {
			case field.CanInt():
				field.SetInt(field.Int() + 1)
			case field.CanUint():
				field.SetUint(field.Uint() + 1)
			case field.Kind() == reflect.String:
				field.SetString("other")
			case field.Kind() == reflect.Bool:
				field.SetBool(true)
			case name == "Metadata":
				o.Terms.Metadata = map[string]string{"job": "ship"}
			default:
				t.Errorf("%s: the test cannot change a %v", name, field.Type())
			}
			requests = append(requests, o)
		}
	}
	digests := map[uint64]bool{}
	for i := range 100 {
		o := base
		o.Terms.Metadata = map[string]string{"job": fmt.Sprint(i), "of": "a hundred"}
		timed := base
		timed.Terms.TTL += time.Duration(i+2) * time.Second
		digests[o.digest()], digests[timed.digest()] = true, true
		requests = append(requests, o, timed)
	}
	if len(digests) < 180 {
		t.Errorf("two hundred requests have %d digests", len(digests))
	}
	places := map[*placed]int{}
	for i := range requests {
		if p := s.placeFor(q, &requests[i]); places[p] != 0 {
			t.Errorf("%+v has the place of %+v", requests[i], p.like)
		} else {
			places[p] = i + 1
		}
	}
	for i := range requests {
		same := requests[i]
		if same.Terms.Metadata = maps.Clone(same.Terms.Metadata); same.Terms.Metadata == nil {
			same.Terms.Metadata = map[string]string{}
		}
		p := s.placeFor(q, &same)
		if places[p] != i+1 {
			t.Errorf("%+v does not find its place", same)
		}
		p.vacate()
	}
	if len(s.places) != 0 {
		t.Errorf("%d places are left", len(s.places))
	}
	for name, r := range map[string]Request{
		"candidate": {Priority: 1}, "reader with a limit": {Role: znode.Shared, Terms: lease.Terms{MaxHold: 1}},
	} {
		if r.hasPlace() || !base.hasPlace() {
			t.Errorf("a %s has a place, or a plain request has none", name)
		}
	}
}

// TestExchangeInDoubtAtTheEnd: if the context of a join ends while it looks for what an exchange in doubt has
// created, the error is the context's. The new entry does not stay.
func TestExchangeInDoubtAtTheEnd(t *testing.T) {
	bubble.Run(t, locktest.Options{}, 5*time.Second, func(w *bubble.World) {
		q := online(w.Plain("a", 6*time.Second, zk.NewDNSHostProvider()))
		defer q.Conn.Close(0)
		q.Observe, q.NotHandedOff, q.ACL = func(*Entry, lease.Change) {}, func(*Entry) {}, zk.WorldACL(zk.PermAll)
		closing, end := context.WithCancel(context.Background())
		q.Closing = closing
		c := newContender(q, Request{Lock: "x", Kind: znode.Mutex, Terms: lease.Terms{TTL: time.Minute, Grace: time.Second}})
		e, _, err := c.join(w.Ctx)
		if err == nil {
			err = e.Grant(w.Ctx, q.Clock.Local(), lease.Never)
		}
		if err != nil {
			t.Fatal(err)
		}
		e.Unlock()
		ctx, cancel := context.WithCancel(w.Ctx)
		lost := false
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch {
			case r.Op == "multi" && !lost:
				lost = true
				return locktest.Fault{Drop: locktest.AfterApply}
			case r.Op == "sync":
				cancel()
			}
			return locktest.Fault{}
		})
		if e, _, err := c.exchange(ctx, e); e != nil || !errors.Is(err, context.Canceled) || ctx.Err() == nil {
			t.Errorf("%v, %v", e, err)
		}
		end() // the client deletes the lock's node at once
		time.Sleep(time.Second)
		for _, n := range w.Dump("/locks/x") {
			if strings.Contains(n.Path, "-lock-") {
				t.Errorf("%s is left", n.Path)
			}
		}
	})
}
