//go:build race

package shard_test

// raceDetector: the race detector multiplies the memory that a test measures.
const raceDetector = true
