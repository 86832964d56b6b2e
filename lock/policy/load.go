package policy

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/token"
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
	d := decoder{places: map[string]place{}}
	c := draft{Config: *Default()}
	d.guard(func() {
		if n := d.parse(data); n != nil {
			d.decode(c.schema(), "", n)
		}
	})
	c.Policies = newSet(c.policies, &d.mistakes)
	c.ZooKeeper.Auth = d.finishAuth("zookeeper.auth", &c.auth, filepath.Dir(filename))
	c.ZooKeeper.TLS = d.finishTLS("zookeeper.tls", &c.tls, filepath.Dir(filename))
	c.file, c.places = filename, d.positions()
	if err := d.err(filename); err != nil {
		return nil, err
	}
	return &c.Config, nil
}

// finishAuth checks what goes for the keys of a zookeeper.auth together, and returns it;
// nil if the file gives none.
func (d *decoder) finishAuth(path string, auth *Auth, folder string) *Auth {
	if _, given := d.places[path]; !given || d.has(path) {
		return nil
	}
	_, user := d.places[path+".user"]
	_, file := d.places[path+".password_file"]
	_, env := d.places[path+".password_env"]
	if !user {
		d.add(path+".user", "", "must be given")
	}
	if file == env {
		d.add(path, "", "must have exactly one of password_file and password_env")
	}
	if auth.Scheme == "" {
		auth.Scheme = "digest"
	}
	if file {
		auth.PasswordFile = absolute(auth.PasswordFile, folder)
	}
	if path != defaultAuth {
		auth.path = path
	}
	return auth
}

// position is a place in a file, zero if there is none.
type position struct {
	line, column int
}

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

// place is where the value of a key stands in the file, and how.
type place struct {
	position
	text string
}

// decoder decodes one file. It goes on after a mistake, to find them all.
type decoder struct {
	mistakes
	places map[string]place // of every key that the file gives, by its path
	hiding int              // more than 0 below a value that is hidden
}

// err is mistakes.err with the file filled in, and the places that follow from
// the keys.
func (d *decoder) err(filename string) error {
	for i := range d.list {
		m := &d.list[i]
		m.File = filename
		if m.Line > 0 {
			continue
		}
		if m.Value != "" {
			if p, ok := d.places[m.Key]; ok {
				m.Value = p.text // as the file has it
			} else {
				m.Value += " (the default)"
			}
		}
		// A key that is not in the file is missed where it belongs.
		for path := m.Key; path != ""; path = parent(path) {
			if p, ok := d.places[path]; ok {
				m.Line, m.Column = p.line, p.column
				break
			}
		}
	}
	return d.mistakes.err()
}

// parent returns the path without its last part.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
