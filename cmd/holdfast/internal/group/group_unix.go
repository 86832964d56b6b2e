//go:build unix

package group

import "syscall"

// Own returns attributes that start a process in its own process group.
func Own() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Kill kills the process group of the process pid, which was started with [Own].
func Kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // fails only if the group has ended
