package txnlog

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// nextData returns the offset of the first byte, from the given one on, that is not in a hole of a
// sparse file; false if it is not known. Servers preallocate by a hole.
func nextData(r io.ReaderAt, offset int64) (int64, bool) {
	f, ok := r.(*os.File)
	if !ok {
		return 0, false
	}
	const seekData = 3 // SEEK_DATA of lseek(2)
	next, err := f.Seek(offset, seekData)
	if err == nil {
		return next, true
	}
	// Without more data the error is ENXIO, and the rest of the file is a hole.
	if info, statErr := f.Stat(); statErr == nil && errors.Is(err, syscall.ENXIO) {
		return max(info.Size(), offset), true
	}
	return 0, false
}
