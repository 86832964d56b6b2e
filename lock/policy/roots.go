package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Root is one of several roots that a reaper looks after. What it leaves out is as in
// the rest of the file; see [Config.Each].
type Root struct {
	Name      string     // unique; logs, reports and metrics say it
	Root      string     // the node under which its locks are
	ZooKeeper *ZooKeeper // nil: as in the rest of the file
	Policies  *Set       // nil: as in the rest of the file
	Reaper    Reaper     // a zero field: as in the rest of the file
}

// Named is the configuration of one root. Its name is "" if the file names no roots.
type Named struct {
	Name string
	*Config
}

// Each returns the configuration of each of the roots, as if it stood in a file of its
// own: that of the file itself if it names none. Where a root has servers of its own,
// credentials of the rest of the file are not for them.
func (c *Config) Each() []Named {
	if len(c.Roots) == 0 {
		return []Named{{"", c}}
	}
	var all []Named
	for _, r := range c.Roots {
		own := *c
		own.Root, own.Roots = r.Root, nil
		if z := r.ZooKeeper; z != nil {
			own.ZooKeeper = z.over(c.ZooKeeper)
		}
		if r.Policies != nil {
			own.Policies = r.Policies
		}
		own.Reaper = r.Reaper.over(c.Reaper)
		all = append(all, Named{r.Name, &own})
	}
	return all
}

// Select returns the configuration for the locks below that root: of the one of the
// roots that is named there, or else of the file, with the root changed.
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

// over returns z with what it leaves out filled in from the rest of the file.
func (z ZooKeeper) over(rest ZooKeeper) ZooKeeper {
	if len(z.Servers) > 0 { // another ensemble, which is not to be shown the credentials
		rest = ZooKeeper{Servers: z.Servers, SessionTimeout: rest.SessionTimeout}
	}
	if z.SessionTimeout > 0 {
		rest.SessionTimeout = z.SessionTimeout
	}
	if z.Auth != nil {
		rest.Auth = z.Auth
	}
	if z.TLS != nil {
		rest.TLS = z.TLS
	}
	rest.UnsafeServer = rest.UnsafeServer || z.UnsafeServer
	return rest
}

func (r Reaper) over(rest Reaper) Reaper {
	if r.Schedule != "" {
		rest.Schedule = r.Schedule
	}
	if r.Concurrency > 0 {
		rest.Concurrency = r.Concurrency
	}
	if r.Batch > 0 {
		rest.Batch = r.Batch
	}
	if r.MaxDeletesPerSecond > 0 {
		rest.MaxDeletesPerSecond = r.MaxDeletesPerSecond
	}
	if r.Lock != "" {
		rest.Lock = r.Lock
	}
	return rest
}

// rootDraft is a Root while it is being read.
type rootDraft struct {
	Root
	zookeeper ZooKeeper
	auth      Auth
	tls       TLS
	policies  []Policy
}

// rootSchema is the part of the schema for one root.
func rootSchema(r *rootDraft) value {
	return object{
		{"name", text(&r.Name, notEmpty)},
		{"root", text(&r.Root.Root, rootRule)},
		{"zookeeper", zookeeperSchema(&r.zookeeper, &r.auth, &r.tls)},
		{"policies", listOf(&r.policies, policySchema, 0)},
		{"reaper", reaperSchema(&r.Reaper)},
	}
}

// maxRoots bounds the roots of a file: each has a session of its own.
const maxRoots = 100

// finishRoots checks the roots, and fills in what they are made of.
func (d *decoder) finishRoots(c *draft, folder string) {
	if len(c.roots) > maxRoots {
		d.add("roots", "", "must be at most %d, not %d", maxRoots, len(c.roots))
		return
	}
	for i := range c.roots {
		r := &c.roots[i]
		path := fmt.Sprintf("roots[%d]", i)
		if d.has(path) {
			continue
		}
		d.checkRoot(c.roots, i, path)
		if _, given := d.places[path+".zookeeper"]; given {
			r.zookeeper.Auth = d.finishAuth(path+".zookeeper.auth", &r.auth, folder)
			r.zookeeper.TLS = d.finishTLS(path+".zookeeper.tls", &r.tls, folder)
			r.Root.ZooKeeper = &r.zookeeper
		}
		if _, given := d.places[path+".policies"]; given {
			r.Root.Policies = d.setOf(path+".", r.policies)
		}
		c.Roots = append(c.Roots, r.Root)
	}
	d.checkApart(c)
}

// checkRoot adds what is wrong with the name of a root, and what it lacks.
func (d *decoder) checkRoot(roots []rootDraft, i int, path string) {
	name := roots[i].Name
	first := slices.IndexFunc(roots, func(r rootDraft) bool { return r.Name == name })
	switch {
	case d.has(path + ".name"):
	case name == "":
		d.add(path+".name", "", "must be given")
	case len(name) > maxPolicyName:
		d.add(path+".name", plain(name), "must have at most %d bytes", maxPolicyName)
	case strings.ContainsFunc(name, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }):
		d.add(path+".name", plain(name), "must be printable")
	case first < i:
		d.add(path+".name", plain(name), "is the name of roots[%d] already", first)
	}
	if roots[i].Root.Root == "" && !d.has(path+".root") {
		d.add(path+".root", "", "must be given")
	}
}

// checkApart adds the roots that are, on the same servers, others' or below them: the
// locks there would be swept by two lists of policies.
func (d *decoder) checkApart(c *draft) {
	each := c.Each()
	for i, n := range each {
		if len(c.Roots) == 0 || n.Root == "" {
			continue
		}
		for j, m := range each[:i] {
			within := strings.HasPrefix(n.Root+"/", m.Root+"/") || strings.HasPrefix(m.Root+"/", n.Root+"/")
			shares := slices.ContainsFunc(n.ZooKeeper.Servers, func(s string) bool { return slices.Contains(m.ZooKeeper.Servers, s) })
			if within && shares && m.Root != "" {
				d.add(fmt.Sprintf("roots[%d].root", i), plain(n.Root), "must not be, nor be above or below, that of roots[%d], which is %s on the same servers", j, plain(m.Root))
				break
			}
		}
	}
}

// setOf makes the set of policies that stand in the file below that prefix.
func (d *decoder) setOf(prefix string, policies []Policy) *Set {
	own := mistakes{keys: map[string]bool{}}
	for key := range d.keys {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			own.keys[rest] = true
		}
	}
	set := newSet(policies, &own)
	for _, m := range own.list {
		d.add(prefix+m.Key, m.Value, "%s", m.Rule)
	}
	return set
}
