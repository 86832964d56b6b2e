package txnlog

import (
	"fmt"
	"strings"
)

// ProblemKind is a class of problems.
type ProblemKind int

const (
	// ProblemTruncated: a file ends within an entry, or with bytes that are no entry. A server that
	// crashed, or is just writing, leaves this: it is normal at a log's end.
	ProblemTruncated ProblemKind = iota + 1
	// ProblemDamaged: bytes of a file are no entries, and readable ones follow. What they held may
	// be in another folder; if not, a ProblemGap follows.
	ProblemDamaged
	// ProblemGap: no folder has the transactions from Zxid to Until. A server that is far behind gets
	// a snapshot from its leader instead of transactions.
	ProblemGap
	// ProblemDisagree: the folders Dirs have different transactions at the Count zxids from Zxid to
	// Until. Servers of one ensemble never have: they have diverged, or are of several ensembles.
	ProblemDisagree
	// ProblemDisputed: only the folders Dirs have the Count transactions from Zxid to Until, and
	// another folder goes on with the next epoch. Either the next leader discarded them, which is
	// usual for the last proposals of a leader that died, or that folder's server got them in a
	// snapshot, or that folder's log is damaged. Whether they took effect is not known here. With a File, that
	// snapshot shows such a transaction, so that its server may have data that the others lack.
	ProblemDisputed
	// ProblemEpoch: no folder shows with which transaction the epoch of Zxid ended: each server loaded a
	// snapshot before its log goes on with the next epoch, or has no log from before. Transactions may be
	// missing from Zxid on, or those before may have been discarded. Count of them, up to Until, are in a
	// snapshot; 0: none.
	ProblemEpoch
	// ProblemUnsupported: a file's format, or a transaction's type, is unknown. The transaction is
	// left out.
	ProblemUnsupported
	// ProblemUnreadable: a file cannot be opened or read, or is not what its name says.
	ProblemUnreadable
	// ProblemDisorder: in a file the transaction Until follows the transaction Zxid, although its zxid
	// is lower. A transaction that a server logs again after a restart is no disorder. Txns leaves out
	// Until, and later transactions of the file below its highest zxid so far. Only the first of them
	// is a Problem.
	ProblemDisorder
)

var problemNames = map[ProblemKind]string{
	ProblemTruncated: "truncated", ProblemDamaged: "damaged", ProblemGap: "gap",
	ProblemDisagree: "disagree", ProblemDisputed: "disputed", ProblemEpoch: "epoch",
	ProblemUnsupported: "unsupported", ProblemUnreadable: "unreadable", ProblemDisorder: "disorder",
}

// String returns the kind's name: "truncated", "damaged", ...
func (k ProblemKind) String() string {
	if name, ok := problemNames[k]; ok {
		return name
	}
	return fmt.Sprintf("ProblemKind(%d)", int(k))
}

// Problem is something in the files that keeps transactions from being read or believed. [Log.Txns]
// goes on after it. An iteration over a [Snapshot] ends with it.
type Problem struct {
	Kind   ProblemKind
	File   string   // the file's path; "" if it concerns folders
	Dirs   []string // folders that it concerns, as found by Open
	Offset int64    // offset in File of the first byte concerned
	Bytes  int64    // number of bytes of File that were skipped
	Zxid   int64    // the first transaction concerned; for damage the last one before it; 0: unknown
	Until  int64    // the last transaction concerned; for damage the first one after it; 0: unknown
	Count  int64    // number of transactions concerned; 0: unknown
	Type   int32    // ProblemUnsupported: the transaction's type
	Err    error    // the cause, or what is wrong; may be nil
}

// Lost reports whether transactions that took effect may be missing from what Txns returns.
func (p *Problem) Lost() bool {
	switch p.Kind {
	case ProblemGap, ProblemUnsupported, ProblemUnreadable, ProblemDisorder, ProblemDisagree:
		return true
	}
	return p.Kind == ProblemEpoch && p.Count > 0
}

// breaks reports whether the state after the problem is not known.
func (p *Problem) breaks() bool { return p.Lost() || p.Kind == ProblemEpoch }

// Unwrap returns Err.
func (p *Problem) Unwrap() error { return p.Err }

// Error describes the problem in one line: where, what, which transactions.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ": ")
	}
	switch p.Kind {
	case ProblemTruncated:
		fmt.Fprintf(&b, "ends within an entry at byte %d, after zxid %s: %d bytes are unreadable", p.Offset, hex(p.Zxid), p.Bytes)
	case ProblemDamaged:
		fmt.Fprintf(&b, "damaged: bytes %d to %d are unreadable", p.Offset, p.Offset+p.Bytes)
		if p.Until != 0 {
			fmt.Fprintf(&b, ", between zxid %s and %s", hex(p.Zxid), hex(p.Until))
		}
	case ProblemGap:
		fmt.Fprintf(&b, "gap: no folder has %s", p.transactions())
	case ProblemDisagree:
		fmt.Fprintf(&b, "the servers disagree: %s differ between %s", p.transactions(), strings.Join(p.Dirs, " and "))
	case ProblemDisputed:
		if p.File != "" {
			fmt.Fprintf(&b, "not used: it shows %s, which the next leader may have discarded", p.transactions())
			break
		}
		fmt.Fprintf(&b, "not known here: %s, only in %s, may have been discarded by the next leader", p.transactions(), strings.Join(p.Dirs, ", "))
	case ProblemEpoch:
		fmt.Fprintf(&b, "not known here: how the epoch of %s ended: the servers loaded snapshots, or have no log from before", hex(p.Zxid-1))
		if p.Count > 0 {
			fmt.Fprintf(&b, "; %s, only in a snapshot, may have been discarded by the next leader", p.transactions())
		}
	case ProblemUnsupported:
		b.WriteString("unsupported")
		if p.Zxid != 0 {
			fmt.Fprintf(&b, ": transaction %s of type %d at byte %d", hex(p.Zxid), p.Type, p.Offset)
		}
	case ProblemUnreadable:
		b.WriteString("unreadable")
	case ProblemDisorder:
		fmt.Fprintf(&b, "zxid %s follows %s at byte %d; lower ones are left out", hex(p.Until), hex(p.Zxid), p.Offset)
	}
	if p.Err != nil {
		fmt.Fprintf(&b, ": %v", p.Err)
	}
	return b.String()
}

func (p *Problem) transactions() string {
	text := "transaction " + hex(p.Zxid)
	if p.Until > p.Zxid {
		text = fmt.Sprintf("transactions %s to %s", hex(p.Zxid), hex(p.Until))
	}
	if p.Count > 1 {
		text += fmt.Sprintf(" (%d)", p.Count)
	}
	return text
}

// hex returns a zxid in hexadecimal, as ZooKeeper writes it.
func hex(zxid int64) string { return fmt.Sprintf("%#x", uint64(zxid)) }
