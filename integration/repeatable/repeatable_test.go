package repeatable

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// chancy is a program whose output differs from run to run with the unchanged Go runtime.
const chancy = `package main

import (
	"context"
	"fmt"
	"sync"
)

func main() {
	m := map[string]int{}
	c := make(chan int, 100)
	var wg sync.WaitGroup
	for i := range 100 {
		m[fmt.Sprint(i)] = i
		wg.Go(func() { c <- i })
	}
	wg.Wait()
	close(c)
	full := make(chan int)
	close(full)
	for i := range c {
		select {
		case <-full:
			fmt.Print(i, "a ")
		case <-full:
			fmt.Print(i, "b ")
		}
	}
	for key := range m {
		fmt.Print(key, " ")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 100)
	for i := range 100 {
		context.AfterFunc(ctx, func() { ended <- i })
	}
	cancel()
	fmt.Print("ended: ")
	for range 100 {
		fmt.Print(<-ended, " ")
	}
}
`

func TestRepeatable(t *testing.T) {
	folder := t.TempDir()
	replace, err := Runtime(folder)
	if err != nil {
		t.Skip(err)
	}
	run := func(name string, replace map[string]string) (first, second []byte) {
		source, binary := filepath.Join(folder, "main.go"), filepath.Join(folder, name)
		iferr.Fatal(t, os.WriteFile(source, []byte(chancy), 0o600))
		iferr.Fatal(t, Build(t.Context(), folder, replace, "build", "-o", binary, source))
		for _, out := range []*[]byte{&first, &second} {
			cmd := exec.Command(binary)
			cmd.Env = append(os.Environ(), Env()...)
			if *out, err = cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, *out)
			}
		}
		return first, second
	}
	if first, second := run("as-it-is", nil); bytes.Equal(first, second) {
		t.Errorf("the program does the same each time by itself, and shows nothing: %s", first)
	}
	first, second := run("repeatable", replace)
	if !bytes.Equal(first, second) {
		t.Errorf("two runs differ:\n%s\n%s", first, second)
	}
	if !bytes.Contains(first, []byte(" 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 ")) {
		t.Errorf("contexts do not end in the order of their creation: %s", first)
	}
}
