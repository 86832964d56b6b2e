// Package supervise runs a command that must not outlive a lock.
//
// The command has a process group of its own. While the lock's lease is renewed
// nothing happens to it. When renewals fail, the group is sent SIGTERM while
// there is time left to end in order, and SIGKILL before the lease is over and
// another client may enter. What of the group is left when the command has ended
// is killed too, and awaited, so that the lock can be unlocked.
//
// # What kills
//
// The process that must kill in time may itself be killed, stopped or starved. So on
// Linux there are two, and either suffices: this process, and a guard that it starts
// before the command. The guard is a small process in a session of its own, out of
// the reach of the terminal's signals. Through a pipe it hears until when the
// command may live. It kills the group at that time if it has heard nothing newer,
// and at once when the pipe closes, because then this process is dead.
//
// The time is absolute, on CLOCK_BOOTTIME, which all processes of a machine share
// and which goes on while the machine is suspended. It is read before the lease is
// asked for what is left of it. So however long this process is paused after that,
// even between asking and telling, what it tells is never later than the truth.
//
// The command waits behind a gate until the guard has confirmed that it knows the
// group: there is no moment in which a command runs unguarded. Should this process
// and the guard be killed together, the kernel kills the command at least
// (PR_SET_PDEATHSIG), though not its children.
//
// # The terminal
//
// Only the terminal's foreground process group may read from it. The command gets the
// terminal at once, if standard input is one and standard output is no pipe; otherwise when a
// signal stops it because it needs the terminal, as a prompt for a password does. If this
// process's own group is in the background, it says why the command stands still.
//
// # What is not seen to
//
// A command that becomes another user's, as by sudo, cannot be sent signals by this process,
// by the guard, or by the kernel in their stead. That is told when it is to be ended.
// A process that leaves the group, as daemons and the jobs of an interactive shell
// do, is left alone. A process that the kernel cannot end at once, because it
// waits for a disk or a dead file server, may finish that one operation late.
// Systems other than Linux have no guard: there a supervisor that is killed or
// stopped leaves the command running. On Windows the command and what it starts are in
// a job that ends when the supervisor is killed, but not while that is stopped; and
// what it starts in its first instant, before it is put there, is left alone.
package supervise
