#!/usr/bin/env bash
# k8s.io/client-go v0.32.3, leader election with ReleaseOnCancel: a leader that cannot reach the API server keeps
# its context until long after its lease has expired, while another one leads.
#
# The leader's requests hang, as at a partition; those of the other candidate do not. LeaseDuration is 8 s,
# RenewDeadline 6 s; nobody cancels anything.
#
# Guess:  ReleaseOnCancel has effect when the context of Run is cancelled, as its comment says. Without that, the
#         leader's context ends when RenewDeadline is over, two seconds before another one may lead.
# Seen:   so it is with ReleaseOnCancel=false. With true, the leader gives the lease up first, and ends its
#         context after that; the attempt lasts up to another RenewDeadline. So after its last renewal it leads
#         on for RetryPeriod and twice RenewDeadline: with the usual 2 s and 10 s for 22 s, and its lease of
#         15 s is over.
#         The build takes a minute or more the first time.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

build k8s.io/client-go@v0.32.3 <<'GO'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// api is an API server that has one Lease. Requests of a candidate that is cut off get no answer.
type api struct {
	mu      sync.Mutex
	lease   *coordination.Lease
	version int
	cut     atomic.Bool
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if a.cut.Load() && strings.HasPrefix(r.UserAgent(), "first") {
		<-r.Context().Done()
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	refuse := func(code int, reason meta.StatusReason) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: meta.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason)})
	}
	switch r.Method {
	case http.MethodGet:
		if a.lease == nil {
			refuse(http.StatusNotFound, meta.StatusReasonNotFound)
			return
		}
	default:
		lease := new(coordination.Lease)
		if err := json.Unmarshal(body, lease); err != nil {
			refuse(http.StatusBadRequest, meta.StatusReasonBadRequest)
			return
		}
		if a.lease != nil && lease.ResourceVersion != a.lease.ResourceVersion {
			refuse(http.StatusConflict, meta.StatusReasonConflict)
			return
		}
		a.version++
		lease.ResourceVersion = fmt.Sprint(a.version)
		lease.TypeMeta = meta.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
		a.lease = lease
	}
	json.NewEncoder(w).Encode(a.lease)
}

// run tells what happens, in order, after the leader is cut off.
func run(release bool) []string {
	a := new(api)
	server := httptest.NewServer(a)
	events := make(chan string, 10)
	for _, name := range []string{"first", "second"} {
		c, err := client.NewForConfig(&rest.Config{Host: server.URL, UserAgent: name, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
		if err != nil {
			log.Fatal(err)
		}
		leads := make(chan struct{})
		go leaderelection.RunOrDie(context.Background(), leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  meta.ObjectMeta{Namespace: "default", Name: "job"},
				Client:     c,
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			LeaseDuration:   8 * time.Second,
			RenewDeadline:   6 * time.Second,
			RetryPeriod:     500 * time.Millisecond,
			ReleaseOnCancel: release,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					close(leads)
					events <- name + " leads"
					<-ctx.Done()
					events <- name + "'s context ends"
				},
				OnStoppedLeading: func() {},
			},
		})
		if name == "first" {
			<-leads
		}
	}
	time.Sleep(2 * time.Second) // the second one has seen the leader
	a.cut.Store(true)
	return []string{<-events, <-events, <-events}
}

func main() {
	var wg sync.WaitGroup
	var seen [2][]string
	for i, release := range []bool{false, true} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			seen[i] = run(release)
		}()
	}
	wg.Wait()
	fmt.Println("ReleaseOnCancel=false:", strings.Join(seen[0], ", "))
	fmt.Println("ReleaseOnCancel=true:", strings.Join(seen[1], ", "))
}
GO
expect "ReleaseOnCancel=false: first leads, first's context ends, second leads
ReleaseOnCancel=true: first leads, second leads, first's context ends" "$("$work/program" 2>/dev/null)"
