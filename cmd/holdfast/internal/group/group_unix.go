//go:build unix

package group

import "syscall"

// Own has a process that is started with it have a group of its own.
func Own() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Kill ends the group that the process of that id began.
func Kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // fails only if it is gone
