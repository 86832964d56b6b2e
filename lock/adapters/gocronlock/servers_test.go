package gocronlock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-io/holdfast/integration/hosttest"
	"github.com/holdfast-io/holdfast/lock/adapters/gocronlock"
)

// The tests in this file are in real time, on real servers if there are any.

// process runs a job ten times a second. ran receives a value after each run.
func process(t *testing.T, with gocron.SchedulerOption, job func()) (ran chan struct{}) {
	t.Helper()
	s, err := gocron.NewScheduler(with)
	if err != nil {
		t.Fatal(err)
	}
	ran = make(chan struct{})
	done := make(chan struct{})
	task := func() {
		job()
		select {
		case ran <- struct{}{}:
		case <-done:
		}
	}
	if _, err := s.NewJob(gocron.DurationJob(100*time.Millisecond), gocron.NewTask(task), gocron.WithName("tick")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { close(done); shutDown(t, s) })
	return ran
}

// TestLockerOnServers: three processes run a job, never two at once.
func TestLockerOnServers(t *testing.T) {
	servers := hosttest.Start(t)
	var running atomic.Int32
	var ran []chan struct{}
	for range 3 {
		locker, err := gocronlock.NewLocker(servers.Dial(t), "jobs", 0)
		if err != nil {
			t.Fatal(err)
		}
		ran = append(ran, process(t, gocron.WithDistributedLocker(locker), func() {
			if n := running.Add(1); n != 1 {
				t.Errorf("%d run at once", n)
			}
			time.Sleep(20 * time.Millisecond) // the work
			running.Add(-1)
		}))
	}
	for range 10 {
		select {
		case <-ran[0]:
		case <-ran[1]:
		case <-ran[2]:
		}
	}
}

// TestElectorOnServers: the leader runs the job. After it has resigned, the other process runs it.
func TestElectorOnServers(t *testing.T) {
	servers := hosttest.Start(t)
	var ran []chan struct{}
	var electors []*gocronlock.Elector
	for range 2 {
		elector, err := gocronlock.NewElector(servers.Dial(t).Election("leader"), "process")
		if err != nil {
			t.Fatal(err)
		}
		ran, electors = append(ran, process(t, gocron.WithDistributedElector(elector), func() {})), append(electors, elector)
	}
	leader := 0
	for range 5 {
		select {
		case <-ran[0]:
		case <-ran[1]:
			leader = 1
		}
	}
	if err := electors[leader].IsLeader(t.Context()); err != nil {
		t.Errorf("process %d runs the job: %v", leader, err)
	}
	if err := electors[leader].Close(); err != nil {
		t.Error(err)
	}
	<-ran[1-leader]
	if err := electors[1-leader].Close(); err != nil {
		t.Error(err)
	}
}
