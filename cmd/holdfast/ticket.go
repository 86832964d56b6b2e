package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
)

// ticketFlags are the flags of run that hand a lock over from one command to the next.
type ticketFlags struct {
	attach    string        // file of the ticket to attach with; "": none
	detach    string        // file for the ticket of the next process; "": none
	detachFor time.Duration // how long the detached lock is kept; 0: for the TTL
	failed    bool          // detach also if the command has failed
}

func (f *ticketFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(app.Given(&f.attach), "attach", "go on with the lock that the ticket in this file is for; the file is removed then")
	cmd.Flags().Var(app.Given(&f.detach), "detach", "when the command has succeeded keep the lock, and write a ticket for it to this file")
	cmd.Flags().BoolVar(&f.failed, "detach-failed", false, "with --detach: also if the command has failed")
	cmd.Flags().DurationVar(&f.detachFor, "detach-for", 0, "with --detach: how long the lock is kept (default for the TTL)")
}

// check refuses incompatible flags, and a ticket file that could not be written later.
func (f *ticketFlags) check(wait time.Duration) error {
	switch {
	case f.attach != "" && wait == 0:
		return app.Usage("--wait 0 does not go with --attach: checking its turn takes a moment; use --wait 1s")
	case f.detachFor != 0 && f.detach == "":
		return app.Usage("--detach-for %v: is for --detach", f.detachFor)
	case f.failed && f.detach == "":
		return app.Usage("--detach-failed: is for --detach")
	case f.detachFor != 0 && f.detachFor < lock.MinTTL:
		return app.Usage("--detach-for %v: must be at least %v", f.detachFor, lock.MinTTL)
	case f.detachFor%time.Millisecond != 0:
		return app.Usage("--detach-for %v: must be whole milliseconds", f.detachFor)
	case f.detach == "":
		return nil
	}
	// The rename to another kind of file would fail, or replace a device.
	if info, err := os.Lstat(f.detach); err == nil && !info.Mode().IsRegular() {
		return app.Usage("--detach %s: must be a regular file, or none yet", f.detach)
	}
	temp, err := tempFile(f.detach)
	if err == nil {
		err = errors.Join(temp.Close(), os.Remove(temp.Name()))
	}
	if err != nil {
		return app.Usage("--detach %s: %w", f.detach, err)
	}
	return nil
}

// ticket reads the ticket of --attach; without the flag it returns the zero Ticket.
func (f *ticketFlags) ticket(ctx context.Context, name string) (lock.Ticket, error) {
	if f.attach == "" {
		return lock.Ticket{}, nil
	}
	text, err := app.Read(ctx, func() ([]byte, error) { return os.ReadFile(f.attach) })
	switch {
	case ctx.Err() != nil:
		return lock.Ticket{}, fmt.Errorf("--attach: reading %s: %w", f.attach, context.Cause(ctx))
	case err != nil:
		return lock.Ticket{}, app.Usage("--attach: %w", err)
	}
	ticket, err := lock.ParseTicket(string(text))
	switch {
	case err != nil:
		return lock.Ticket{}, app.Usage("--attach %s: %w", f.attach, err)
	case ticket.Name() != name:
		return lock.Ticket{}, app.Usage("--attach %s: the ticket is for lock %q, not %q", f.attach, ticket.Name(), name)
	case ticket.Kind() != "mutex": // other kinds of lock can have several holders
		return lock.Ticket{}, app.Usage("--attach %s: the ticket is for a lock of kind %s, but run needs one for a mutex", f.attach, ticket.Kind())
	}
	return ticket, nil
}

// attached removes the file of a used ticket.
func (f *ticketFlags) attached() {
	if err := os.Remove(f.attach); err != nil {
		tell("the ticket was used, and its file stays: %v", err)
	}
}

// errNoTicket: --detach has written no ticket, so no process can attach to the hold. Then run fails,
// unless the command itself has failed.
var errNoTicket = errors.New("there is no ticket, and the lock is not kept")

// endHold ends the hold after the command has ended with the given status: by an unlock, or by a
// detach with a ticket for the next process. It writes the ticket to the file before the detach, so
// that the ticket survives a crash of this process.
func (f *ticketFlags) endHold(hold *lock.Hold, status int) error {
	if f.detach == "" {
		return hold.Unlock()
	}
	ticket, err := hold.Ticket()
	if err != nil { // the hold has ended: the unlock returns the reason
		return hold.Unlock()
	}
	if status != 0 && !f.failed {
		tell("the command failed with status %d: the lock is unlocked, and there is no ticket; --detach-failed keeps it even then", status)
		return hold.Unlock()
	}
	if err := writeTicket(f.detach, ticket); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", errNoTicket, err), hold.Unlock())
	}
	ctx, cancel := context.WithTimeout(context.Background(), lock.DefaultUnlockTimeout)
	defer cancel()
	ticket, err = hold.Detach(ctx, f.detachFor)
	if ticket.IsZero() {
		return errors.Join(fmt.Errorf("%w: %w", errNoTicket, err), os.Remove(f.detach))
	}
	return errors.Join(err, writeTicket(f.detach, ticket))
}

// writeTicket replaces the file. Only the file's owner may read it.
func writeTicket(file string, ticket lock.Ticket) error {
	err := replaceFile(file, 0o600, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, ticket)
		return err
	})
	if err != nil {
		return fmt.Errorf("write the ticket: %w", err)
	}
	return nil
}
