package hosttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// Variables of a pod's environment.
const (
	envRoot = "HOLDFAST_POD_ROOT" // root of the locks; empty: this process is no pod
	envTTL  = "HOLDFAST_POD_TTL"
)

// grace is the grace of the pods' locks.
const grace = 500 * time.Millisecond

// Main is for the TestMain of a package whose tests start pods. It runs the tests. In a process of
// [Servers.StartPods] it instead runs pod with a client. It returns the exit status.
func Main(m *testing.M, pod func(ctx context.Context, locks *lock.Client) error) int {
	root := os.Getenv(envRoot)
	if root == "" {
		return m.Run()
	}
	if err := runPod(root, pod); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

func runPod(root string, pod func(ctx context.Context, locks *lock.Client) error) error {
	context.AfterFunc(crew.UntilInputEnds(), func() { os.Exit(1) }) // it ends when the test's process does, even by a kill
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	ttl, err := time.ParseDuration(os.Getenv(envTTL))
	if err != nil {
		return err
	}
	locks, err := lock.Dial(ctx, zkserver.External(), lock.WithRoot(root), lock.WithTTL(ttl), lock.WithGrace(grace))
	if err != nil {
		return err
	}
	defer locks.Close()
	return pod(ctx, locks)
}

// Pods are processes of the test's own program.
type Pods []*exec.Cmd

// StartPods starts n pods whose locks have the TTL. env has additional environment variables. At
// the end of the test, pods that still run are killed.
func (s Servers) StartPods(t testing.TB, n int, ttl time.Duration, env ...string) (pods Pods) {
	t.Helper()
	env = append(env, envRoot+"="+s.Root, envTTL+"="+ttl.String(), zkserver.EnvServers+"="+strings.Join(s.Addresses, ","))
	for range n {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), env...)
		output := new(strings.Builder)
		cmd.Stdout, cmd.Stderr = output, output
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, cmd)
		t.Cleanup(func() {
			if cmd.ProcessState == nil {
				_ = cmd.Process.Kill() // fails only if the pod has ended
				_ = cmd.Wait()
			}
			if t.Failed() {
				t.Logf("pod %d, %v:\n%s", cmd.Process.Pid, cmd.ProcessState, output)
			}
		})
	}
	return pods
}

// Kill kills the pod with the process id, as kill -9 does.
func (pods Pods) Kill(t testing.TB, pid int) {
	t.Helper()
	for _, cmd := range pods {
		if cmd.Process.Pid == pid {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("process %d is no pod", pid)
}

// Wait waits until all pods have ended. It returns the outputs of the pods that succeeded and of
// those that failed, without the pods that were killed.
func (pods Pods) Wait() (succeeded, failed []string) {
	for _, cmd := range pods {
		_ = cmd.Wait() // the state has the result
		output := cmd.Stdout.(*strings.Builder).String()
		switch status := cmd.ProcessState.Sys().(syscall.WaitStatus); {
		case status.Signaled():
		case status.ExitStatus() == 0:
			succeeded = append(succeeded, output)
		default:
			failed = append(failed, output)
		}
	}
	return succeeded, failed
}

// Holder returns the process id of the lock's holder. It fails the test if the lock is free.
func (s Servers) Holder(t testing.TB, name string) (pid int) {
	t.Helper()
	hold, err := s.Dial(t).Mutex(name).TryLock(t.Context())
	if err == nil {
		hold.Unlock()
	}
	var held *lock.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("lock %q has no holder: %v", name, err)
	}
	return held.PID
}
