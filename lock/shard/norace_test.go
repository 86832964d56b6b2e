//go:build !race

package shard_test

const raceDetector = false
