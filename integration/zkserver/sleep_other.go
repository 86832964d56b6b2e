//go:build !linux

package zkserver

import "time"

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
