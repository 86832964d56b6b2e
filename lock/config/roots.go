package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/lock/internal/rule"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// Root is one of the roots that a reaper sweeps. Settings that a Root omits come from the rest of
// the file, see [Config.Each].
type Root struct {
	Name      string      `key:"name" rule:"given"` // unique; shown in logs, reports and metrics
	Root      string      `key:"root" rule:"root"`  // the node under which its locks are
	ZooKeeper *ZooKeeper  `key:"zookeeper"`         // nil: as in the rest of the file
	Policies  *policy.Set `key:"policies"`          // nil: as in the rest of the file
	Reaper    Reaper      `key:"reaper"`            // a zero field: as in the rest of the file
}

// Named is the configuration of one root. Name is "" if the file has no list of roots.
type Named struct {
	Name string
	*Config
}

// Each returns the configuration of each root, as if it had a file of its own. If the file lists no
// roots, Each returns the file's configuration alone. A root with servers of its own gets only the
// session timeout from the file's zookeeper settings, no credentials.
func (c *Config) Each() []Named {
	if len(c.Roots) == 0 {
		return []Named{{"", c}}
	}
	var all []Named
	for i, r := range c.Roots {
		own := *c
		own.Root, own.Roots, own.at = r.Root, nil, fmt.Sprintf("roots[%d].", i)
		if z := r.ZooKeeper; z != nil {
			rest := c.ZooKeeper
			if len(z.Servers) > 0 { // another ensemble must not see the credentials
				rest = ZooKeeper{SessionTimeout: rest.SessionTimeout}
			}
			own.ZooKeeper = over(*z, rest)
		}
		own.Policies = cmp.Or(r.Policies, c.Policies)
		own.Reaper = over(r.Reaper, c.Reaper)
		all = append(all, Named{r.Name, &own})
	}
	return all
}

// Select returns the configuration for the locks below root. If the file lists root several times,
// on different servers, the first one counts. If the file does not list root, Select returns the
// file's configuration with the root replaced.
func (c *Config) Select(root string) *Config {
	for _, n := range c.Each() {
		if n.Root == root {
			return n.Config
		}
	}
	own := *c
	own.Root, own.Roots = root, nil
	return &own
}

// PasswordVariables returns the names of the environment variables that hold passwords. If c is the
// configuration of one root, the names are nevertheless those of the whole file.
func (c *Config) PasswordVariables() []string {
	if c.from == nil {
		return nil
	}
	return c.from.passwords
}

// over returns a struct with its zero fields taken from the rest of the file.
func over[T any](own, rest T) T {
	to, from := reflect.ValueOf(&own).Elem(), reflect.ValueOf(rest)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return own
}

// maxRoots is the largest number of roots in a file: each has its own session.
const maxRoots = 100

// checkRoots checks the number of roots, and the name and path of each. On the same servers no root
// may equal another or be below it: two lists of policies would apply to the same locks.
func (d *decoder) checkRoots(c *Config) {
	if len(c.Roots) > maxRoots {
		d.add("roots", "", "must be at most %d, not %d", maxRoots, len(c.Roots))
		return
	}
	var names []string
	for _, r := range c.Roots {
		names = append(names, r.Name)
	}
	each := c.Each()
	for i, r := range c.Roots {
		key := fmt.Sprintf("roots[%d].root", i)
		if d.has(parent(key)) {
			continue
		}
		value, broken := rule.Name("roots", i, names)
		if name := fmt.Sprintf("roots[%d].name", i); broken != "" && !d.has(name) {
			d.add(name, value, "%s", broken)
		}
		if r.Root == "" {
			if !d.has(key) {
				d.add(key, "", "must be given")
			}
			continue
		}
		meets := func(n Named) bool {
			within := strings.HasPrefix(n.Root+"/", r.Root+"/") || strings.HasPrefix(r.Root+"/", n.Root+"/")
			return n.Root != "" && within && slices.ContainsFunc(n.ZooKeeper.Servers, func(s string) bool {
				return slices.Contains(each[i].ZooKeeper.Servers, s)
			})
		}
		if j := slices.IndexFunc(each[:i], meets); j >= 0 {
			d.add(key, rule.Plain(r.Root), "must not be, nor be above or below, that of roots[%d], which is %s on the same servers", j, rule.Plain(each[j].Root))
		}
	}
}
