#!/usr/bin/env bash
# gofrs/flock v0.13.2, and flock(1) of util-linux 2.38.1 (Debian bookworm), on Linux: a reader that tries in vain
# to become the writer loses its read lock, and is not told.
#
# Guess:  a TryLock that returns false, or a `flock -n` that fails, changes nothing: the reader reads on, and no
#         writer is let in until it unlocks.
# Seen:   the read lock is gone, so a writer is let in beside the reader. RLocked() still says true. Of a Flock
#         that is locked and then RLocks, Locked() still says true, and other readers are let in.
#         The kernel replaces a lock by removing it first (flock(2), "Converting a lock"); neither flock(1)'s
#         manual nor the library's documentation says what that means here.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

debian bookworm util-linux=2.38.1-5+deb12u3
build github.com/gofrs/flock@v0.13.2 <<'GO'
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/gofrs/flock"
)

func try(what string, lock func() (bool, error)) {
	ok, err := lock()
	if err != nil {
		log.Fatal(what, ": ", err)
	}
	fmt.Printf("%s: %v\n", what, ok)
}

func main() {
	a, b, c := flock.New(os.Args[1]), flock.New(os.Args[1]), flock.New(os.Args[1])
	try("a.TryRLock", a.TryRLock)
	try("b.TryRLock", b.TryRLock)
	try("c.TryLock", c.TryLock)
	try("a.TryLock", a.TryLock)
	b.Unlock()
	try("c.TryLock, as b has unlocked and a has not", c.TryLock)
	fmt.Println("a.RLocked:", a.RLocked(), "c.Locked:", c.Locked())
	a.Unlock()
	try("a.TryRLock", a.TryRLock)
	try("c.TryRLock, as it has the lock", c.TryRLock)
	try("a.TryRLock", a.TryRLock)
	fmt.Println("a.RLocked:", a.RLocked(), "c.Locked:", c.Locked())
}
GO
flock=$work/root/usr/bin/flock
: >"$work/file"
exec 8<"$work/file" 9<"$work/file"
got=$("$work/program" "$work/locked")$'\n'
"$flock" -s 8
"$flock" -s 9
status=0
"$flock" -n -x 8 || status=$?
got+="flock -n -x of a reader: $status"$'\n'
"$flock" -u 9
status=0
"$flock" -n -x "$work/file" true || status=$?
got+="flock -n -x of a third, as only that reader is left: $status"
expect 'a.TryRLock: true
b.TryRLock: true
c.TryLock: false
a.TryLock: false
c.TryLock, as b has unlocked and a has not: true
a.RLocked: true c.Locked: true
a.TryRLock: false
c.TryRLock, as it has the lock: true
a.TryRLock: true
a.RLocked: true c.Locked: true
flock -n -x of a reader: 1
flock -n -x of a third, as only that reader is left: 0' "$got"
