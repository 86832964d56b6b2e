package policy

import (
	"fmt"
	"io"
	"os"
)

// maxFile is the size of the largest file that is read.
const maxFile = 1 << 20

// Load reads a configuration file. The error is the operating system's if it
// cannot be read, else a [*ConfigError] with everything that is wrong in it.
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

// Parse reads a configuration from data. The file name stands in the mistakes,
// and a relative zookeeper.auth.password_file is relative to its folder. What
// data does not say has its default. The error is a [*ConfigError].
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
