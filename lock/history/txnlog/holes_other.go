//go:build !linux

package txnlog

import "io"

// nextData finds no holes of sparse files on this system. Reading their zeros only takes longer.
func nextData(io.ReaderAt, int64) (int64, bool) { return 0, false }
