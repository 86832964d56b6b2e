// Package supervise runs a command that must not outlive a lock.
//
// The command has its own process group. While the lock's lease is renewed, the group runs undisturbed.
// When renewals fail, the group receives SIGTERM while there is time to end in order, and SIGKILL
// before the lease ends and another client may enter. When the command has ended, the supervisor
// kills the rest of the group and waits for its end. Then the lock can be unlocked.
//
// # What kills
//
// The process that must kill in time may itself be killed, stopped or starved. So on Linux two
// processes can kill the group: this process, and a guard that it starts before the command. The
// guard is a small process in its own session, which the terminal's signals do not reach. Through
// a pipe it receives the time until which the command may live. It kills the group at that time,
// unless it has received a later time. It kills the group at once when the pipe closes, because
// then this process is dead.
//
// The time is absolute, on CLOCK_BOOTTIME, which all processes of a machine share and which goes
// on while the machine is suspended. This process reads the clock before it asks for the rest of
// the lease. So even if this process is paused in between, the time that it sends is before the
// lease's end.
//
// The command waits behind a gate until the guard has confirmed that it knows the group, so a
// command never runs unguarded. If this process and the guard are killed together, the kernel
// still kills the command (PR_SET_PDEATHSIG), but not its children.
//
// # The terminal
//
// Only the terminal's foreground process group may read from it. The command gets the terminal at
// once if standard input is a terminal and standard output is no pipe. Otherwise it gets the
// terminal when a signal stops it because it needs the terminal, for example for a password prompt. If
// this process's own group is in the background, it prints why the command has stopped.
//
// # Limits
//
// If a command becomes another user's, for example by sudo, this process, the guard and the
// kernel cannot signal it. When it should end, the supervisor only prints a message. A process that
// leaves the group, like a daemon or a job of an interactive shell, is not ended. If the kernel cannot
// end a process at once, because it waits for a disk or a dead file server, that process may
// finish this one operation late. Systems other than Linux have no guard: there a killed or
// stopped supervisor leaves the command running. On Windows no command runs: its processes could not be
// ended together.
package supervise
