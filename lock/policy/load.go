package policy

import (
	"fmt"
	"io"
	"os"
)

// maxFile is the size limit of a configuration file, in bytes.
const maxFile = 1 << 20

// Load reads a configuration file. If the file cannot be read, the error is the operating system's.
// Otherwise it is a [*ConfigError] with all mistakes.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse parses a configuration. Mistakes show filename, and a relative zookeeper.auth.password_file
// is relative to its folder. Keys that data omits have their defaults. The error is a
// [*ConfigError].
func Parse(filename string, data []byte) (*Config, error) {
	d, c := newDecoder(filename), Default()
	d.guard(func() {
		if n := d.parse(data); n != nil {
			d.decode(schema(c), "", n)
		}
	})
	d.checkRoots(c)
	if err := d.err(); err != nil {
		return nil, err
	}
	c.file, c.places = filename, d.places
	return c, nil
}
