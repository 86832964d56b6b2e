// The surroundings of the snippets of package gocronlock, which are compiled in its module.
package main

import "github.com/holdfast-io/holdfast/lock"

var (
	locks *lock.Client
	_     = snippets
)

func export() {}

func main() {}
