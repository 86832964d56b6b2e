#!/usr/bin/env bash
# go.etcd.io/etcd/client/v3 v3.6.14, package concurrency, on etcd 3.4.23 (Debian bookworm): Mutex.Lock and
# Election.Campaign of a waiter do not return when their context ends, if the server does not answer.
#
# Guess:  a waiter whose context has a deadline of 2 s returns after 2 s, also if the server is stopped; what
#         it leaves goes with its lease.
# Seen:   it sees the deadline, and then removes its key with the client's own context, which never ends. So it
#         returns when the server answers again, here after the 10 s that it was stopped for (for Lock, etcd
#         issue 18082, closed as stale).
set -euo pipefail
source "$(dirname "$0")/lib.sh"

etcd bookworm 3.4.23-4+b4
server=${pids[-1]}
build go.etcd.io/etcd/client/v3@v3.6.14 <<'GO'
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

func session() *concurrency.Session {
	client, err := clientv3.New(clientv3.Config{Endpoints: os.Args[1:2], DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		log.Fatal(err)
	}
	s, err := concurrency.NewSession(client)
	if err != nil {
		log.Fatal(err)
	}
	return s
}

func main() {
	pid, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	holder, waiter := session(), session()
	if err := concurrency.NewMutex(holder, "lock").Lock(context.Background()); err != nil {
		log.Fatal(err)
	}
	if err := concurrency.NewElection(holder, "election").Campaign(context.Background(), "holder"); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	began := time.Now()
	var wg sync.WaitGroup
	results := make([]string, 2)
	for i, call := range []func() error{
		func() error { return concurrency.NewMutex(waiter, "lock").Lock(ctx) },
		func() error { return concurrency.NewElection(waiter, "election").Campaign(ctx, "waiter") },
	} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			err := call()
			results[i] = fmt.Sprintf("%v; after more than 9 s: %v", err, time.Since(began) > 9*time.Second)
		}()
	}
	for _, prefix := range []string{"lock/", "election/"} {
		for {
			reply, err := holder.Client().Get(context.Background(), prefix, clientv3.WithPrefix())
			if err != nil {
				log.Fatal(err)
			}
			if len(reply.Kvs) == 2 {
				break
			}
		}
	}
	syscall.Kill(pid, syscall.SIGSTOP)
	time.Sleep(10 * time.Second)
	syscall.Kill(pid, syscall.SIGCONT)
	wg.Wait()
	fmt.Println("Lock:", results[0])
	fmt.Println("Campaign:", results[1])
}
GO
expect 'Lock: context deadline exceeded; after more than 9 s: true
Campaign: context deadline exceeded; after more than 9 s: true' "$("$work/program" "$ETCDCTL_ENDPOINTS" "$server")"
