package txnlog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Log has the transaction logs and snapshots of an ensemble's servers. It only lists the files,
// as they were when it was opened. Each iteration reads them again. Its methods may be used
// concurrently if Progress may be called concurrently.
type Log struct {
	// Progress, if not nil, is called during an iteration with the number of bytes read so far, and
	// of all bytes to read. It is called about once a megabyte, in the goroutine that iterates. Set
	// it before the iteration.
	Progress func(read, total int64)

	dirs  []string
	real  []string    // dirs without symbolic links
	logs  []*logFile  // sorted by first zxid
	snaps []*Snapshot // sorted by zxid
}

// Range is a part of the log. Its zero value is all of it.
type Range struct {
	From, To int64 // zxids, inclusive; 0: no bound
	// Since and Until are times by the leader's clock, inclusive; zero: no bound. The range begins
	// with the first transaction of that time or later and ends with the last one of that time or
	// earlier, in zxid's order. Between them, stamps may be out of bounds if the clock was stepped.
	Since, Until time.Time
}

// File describes one file, for listings.
type File struct {
	Path     string
	Snapshot bool
	Zxid     int64     // zxid of the first transaction, or of the snapshot
	Time     time.Time // time of the first transaction; zero if unknown, or for a snapshot
	Size     int64     // bytes, including preallocated ones
}

// logFile is one transaction log.
type logFile struct {
	path  string
	dir   int       // index in Log.dirs
	first int64     // zxid of the first entry, by the file's name
	time  time.Time // time of the first entry; zero if unknown
	size  int64     // bytes
	next  *logFile  // the next one of its folder; nil: it is the last
}

// Open finds the transaction logs and snapshots in dirs. Each is a folder version-2, a dataDir or
// dataLogDir that has one, or a single file. It fails if one of them does not exist, or has neither
// log nor snapshot and is no version-2, or if there is none in all of them. It reads only the first
// entry of each log.
func Open(dirs ...string) (*Log, error) {
	l := &Log{}
	if len(dirs) == 0 {
		return nil, errors.New("no folder of transaction logs")
	}
	seen := map[string]bool{}
	for _, dir := range dirs {
		if err := l.add(dir, seen); err != nil {
			return nil, err
		}
	}
	if len(l.logs)+len(l.snaps) == 0 {
		return nil, fmt.Errorf("transaction logs: no log.* or snapshot.* of ZooKeeper in %q", dirs)
	}
	slices.SortStableFunc(l.logs, func(a, b *logFile) int { return cmp.Compare(a.first, b.first) })
	last := map[int]*logFile{} // by folder
	for _, f := range l.logs {
		if prev := last[f.dir]; prev != nil {
			prev.next = f
		}
		last[f.dir] = f
	}
	slices.SortStableFunc(l.snaps, func(a, b *Snapshot) int { return cmp.Compare(a.Zxid, b.Zxid) })
	return l, nil
}

// add lists one folder, or adds one file. seen has the files that were added.
func (l *Log) add(dir string, seen map[string]bool) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("transaction logs: %w", err)
	}
	names := []string{filepath.Base(dir)}
	if info.IsDir() {
		if sub, err := os.Stat(filepath.Join(dir, "version-2")); err == nil && sub.IsDir() {
			dir = filepath.Join(dir, "version-2")
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("transaction logs: %w", err)
		}
		names = names[:0]
		for _, e := range entries {
			if !e.IsDir() {
				names = append(names, e.Name())
			}
		}
	} else {
		dir = filepath.Dir(dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("transaction logs: %w", err)
	}
	index := slices.Index(l.real, real)
	if index < 0 {
		index = len(l.dirs)
		l.dirs = append(l.dirs, filepath.Clean(dir))
		l.real = append(l.real, real)
	}
	found := false
	for _, name := range names {
		path := filepath.Join(dir, name)
		kind, zxid, compression, ok := parseName(name)
		if !ok {
			continue
		}
		info, err := os.Stat(path)
		if err == nil && !info.Mode().IsRegular() {
			continue // reading a pipe could take for ever
		}
		found = true
		if file := filepath.Join(real, name); seen[file] {
			continue
		} else {
			seen[file] = true
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // the running server has purged it
		}
		var size int64
		if err == nil {
			size = info.Size()
		}
		if kind == "log" {
			l.logs = append(l.logs, newLogFile(path, index, zxid, size))
		} else {
			l.snaps = append(l.snaps, &Snapshot{Path: path, Zxid: zxid, Size: size, dir: index, compression: compression})
		}
	}
	if !found && filepath.Base(dir) != "version-2" { // a dataDir apart from the logs may have no snapshot yet
		return fmt.Errorf("transaction logs: no log.* or snapshot.* of ZooKeeper in %q: they are in the version-2 of a dataDir and a dataLogDir", dir)
	}
	return nil
}

// parseName splits a file's name: log.<zxid>, snapshot.<zxid>, snapshot.<zxid>.gz or
// snapshot.<zxid>.snappy. ok is false for any other name.
func parseName(name string) (kind string, zxid int64, compression string, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) < 2 || len(parts) > 3 || parts[0] != "log" && parts[0] != "snapshot" {
		return "", 0, "", false
	}
	if len(parts) == 3 {
		compression = parts[2]
		if parts[0] == "log" || compression != "gz" && compression != "snappy" {
			return "", 0, "", false
		}
	}
	n, err := strconv.ParseUint(parts[1], 16, 63)
	return parts[0], int64(n), compression, err == nil
}

// Dirs returns the folders that have the files, without repetition, in the order of Open's
// arguments. For a dataDir that is its folder version-2.
func (l *Log) Dirs() []string { return slices.Clone(l.dirs) }

// Files returns all files, logs first, in the order of zxids.
func (l *Log) Files() []File {
	var files []File
	for _, f := range l.logs {
		files = append(files, File{Path: f.path, Zxid: f.first, Time: f.time, Size: f.size})
	}
	for _, s := range l.snaps {
		files = append(files, File{Path: s.Path, Snapshot: true, Zxid: s.Zxid, Size: s.Size})
	}
	return files
}
