//go:build !linux

package txnlog

import "io"

// nextData would find the end of a hole in a sparse file; it is only an optimization.
func nextData(io.ReaderAt, int64) (int64, bool) { return 0, false }
