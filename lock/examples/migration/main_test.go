package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// asExample has the test's binary be the example.
const asExample = "BE_THE_EXAMPLE"

func TestMain(m *testing.M) {
	if os.Getenv(asExample) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestExample: of three processes that start at once, one migrates, and the others find nothing left
// to do.
func TestExample(t *testing.T) {
	ensemble, err := locktest.New(locktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // far longer than it takes
	defer cancel()
	served := make(chan error)
	go func() { served <- ensemble.Serve(listener, ensemble.Servers()[0]) }()
	defer func() {
		ensemble.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	file := filepath.Join(t.TempDir(), "shop.db")
	var all []*exec.Cmd
	var outputs [3]strings.Builder
	for i := range outputs {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), asExample+"=1", "HOLDFAST_ZOOKEEPER="+listener.Addr().String(), "DATABASE="+file)
		cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	said := ""
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		said += outputs[i].String()
	}
	if strings.Count(said, "applied 2 migrations") != 1 || strings.Count(said, "applied 0 migrations") != 2 {
		t.Errorf("they say:\n%s", said)
	}
}
