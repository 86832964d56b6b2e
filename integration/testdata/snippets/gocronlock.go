// The code that the snippets of package gocronlock assume. The snippets are compiled in the
// package's module, but not run.
package main

import "github.com/holdfast-io/holdfast/lock"

var (
	locks *lock.Client
	_     = snippets
)

func export() {}

func main() {}
