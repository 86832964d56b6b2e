package znode

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxName is the longest name of a lock in bytes.
const MaxName = 512

// EpochMark is the name of a node below the root that tells when the present epoch
// of ZooKeeper's leader was seen first. No lock can have it.
const EpochMark = ".epoch"

// MaxPermits is how many permits a semaphore has at most, and the highest priority.
const MaxPermits = 1 << 20

const (
	idLength       = 16
	sequenceDigits = 10 // at least, with the sign
)

// Role is what an entry asks for.
type Role uint8

// The roles, as the tokens in entries' names tell them.
const (
	Exclusive Role = iota // -lock-
	Shared                // -__READ__
	Writer                // -__WRIT__
)

var ownTokens = [...]string{Exclusive: "-lock-", Shared: "-__READ__", Writer: "-__WRIT__"}

// foreignTokens are what stands before the sequence in the names of others'
// entries: zk.Lock and Curator, then kazoo, then Curator's read/write lock.
var foreignTokens = [...]struct {
	token string
	role  Role
}{
	{"-lock-", Exclusive},
	{"__lock__", Exclusive},
	{"__rlock__", Shared},
	{"__READ__", Shared},
	{"__WRIT__", Writer},
}

// Name is the parsed name of a contender's node.
type Name struct {
	Node string // the name as it stands in ZooKeeper
	Tag  string // the 16 digits that it begins with, see the package's doc; empty for another library's entry
	Role Role   // what it asks for
	Seq  int32  // its sequence, which the server appended

	Permits int32 // of a semaphore that it asks for, or a candidate's priority; 0: it does not say, which counts as one
}

// Priority is that of a candidate in an election.
func (n Name) Priority() int32 { return max(1, n.Permits) }

// Prefix is the name without its sequence, a part of it; empty if it is not an entry of
// ours.
func (n Name) Prefix() string {
	if !n.Ours() {
		return ""
	}
	prefix, _, _ := cutSequence(n.Node)
	return prefix
}

// NewID returns a new random id.
func NewID() string { return FormatID(rand.Uint64()) }

// ParseID returns the number of an id. It is the inverse of [FormatID].
func ParseID(id string) (uint64, error) {
	if !isID(id) || len(id) != idLength {
		return 0, fmt.Errorf("%.40q is no id: want %d lower-case hexadecimal digits", id, idLength)
	}
	return strconv.ParseUint(id, 16, 64)
}

// FormatID returns the id that a random number makes: 16 hexadecimal digits.
func FormatID(n uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, n))
}

// Prefix is the name of an entry without its sequence, as it is given to a
// sequential create. The tag is the parent's generation, or a random id.
func Prefix(tag string, role Role) string { return tag + ownTokens[role] }

// PermitsPrefix is that of an entry that asks for so many permits of a semaphore, or of a
// candidate of that priority.
func PermitsPrefix(tag string, permits int32) string {
	if permits <= 1 {
		return Prefix(tag, Exclusive)
	}
	return tag + "-" + strconv.Itoa(int(permits)) + ownTokens[Exclusive]
}

// Predict returns the name that an entry of that prefix has with that sequence.
func Predict(prefix string, seq int32) string { return prefix + formatSequence(seq) }

// Anchor is the name of the anchor of a lock's parent of that generation.
func Anchor(generation string) string { return anchorPrefix + generation + anchorSuffix }

// The anchor's name sorts behind all entries, and no library takes it for one.
const (
	anchorPrefix = "anchor-"
	anchorSuffix = "__2147483647"
)

// AnchorOf returns the generation of the parent whose anchor has that name. It reports
// false for a node that is no anchor.
func AnchorOf(node string) (generation string, ok bool) {
	middle, ok := strings.CutPrefix(node, anchorPrefix)
	if !ok {
		return "", false
	}
	generation, ok = strings.CutSuffix(middle, anchorSuffix)
	return generation, ok && len(generation) == idLength && isID(generation)
}

// formatSequence is what the server appends for a sequence.
func formatSequence(seq int32) string {
	if seq < 0 {
		return fmt.Sprintf("%0*d", sequenceDigits, seq)
	}
	digits := strconv.Itoa(int(seq))
	return "0000000000"[min(len(digits), sequenceDigits):] + digits
}

// Parse parses the name of a child of a lock. It reports false for a child that
// is no contender.
func Parse(node string) (Name, bool) {
	prefix, seq, ok := cutSequence(node)
	if !ok {
		return Name{}, false
	}
	if len(prefix) > idLength && isID(prefix[:idLength]) {
		for role, token := range ownTokens {
			if prefix[idLength:] == token {
				return Name{Node: node, Tag: prefix[:idLength], Role: Role(role), Seq: seq}, true
			}
		}
		if permits, ok := cutPermits(prefix[idLength:]); ok {
			return Name{Node: node, Tag: prefix[:idLength], Role: Exclusive, Seq: seq, Permits: permits}, true
		}
	}
	if prefix == "lock-" { // the recipe of ZooKeeper's own documentation
		return Name{Node: node, Role: Exclusive, Seq: seq}, true
	}
	for _, f := range foreignTokens {
		if strings.HasSuffix(prefix, f.token) {
			return Name{Node: node, Role: f.role, Seq: seq}, true
		}
	}
	return Name{}, false
}

// cutPermits takes the number of permits out of what stands between id and sequence. One
// is not written, nor is a number in another way than the shortest.
func cutPermits(rest string) (permits int32, ok bool) {
	digits, ok := strings.CutSuffix(rest, ownTokens[Exclusive])
	if !ok || len(digits) < 2 || digits[0] != '-' || digits[1] < '1' || digits[1] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(digits[1:], 10, 32)
	return int32(n), err == nil && n > 1 && n <= MaxPermits
}

// cutSequence splits off what the server appends to a sequential node's name.
func cutSequence(node string) (prefix string, seq int32, ok bool) {
	if len(node) <= sequenceDigits {
		return "", 0, false
	}
	at := len(node) - sequenceDigits
	for _, c := range []byte(node[at:]) {
		if c < '0' || c > '9' {
			return "", 0, false
		}
	}
	// A negative sequence has a sign of its own behind the token's dash or
	// underscore: "-lock--2147483648". None begins with a zero: they count from
	// the least.
	if node[at-1] == '-' && node[at] != '0' && at >= 2 && (node[at-2] == '-' || node[at-2] == '_') {
		at--
	}
	n, err := strconv.ParseInt(node[at:], 10, 32)
	if err != nil {
		return "", 0, false
	}
	return node[:at], int32(n), true
}

func isID(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Ours reports whether the name is one that this library makes.
func (n Name) Ours() bool { return n.Tag != "" }

// Overflowed reports whether the parent's counter had reached its end when this entry
// was created. The sequence alone no longer orders it, and it is never granted.
func (n Name) Overflowed() bool { return n.Seq < 0 || n.Seq == math.MaxInt32 }

// TokenSequence is the part of a fencing token that tells apart the entries of one
// transaction: the sequence, 0 where that has overflowed, of an entry that stands alone.
func (n Name) TokenSequence() int32 { return max(0, n.Seq) }

// Compare orders names as their entries were created. It cannot tell the order
// of two that overflowed: see [CompareAt].
func Compare(a, b Name) int { return CompareAt(a, 0, b, 0) }

// CompareAt is [Compare] for entries whose creation zxids are known.
func CompareAt(a Name, czxidA int64, b Name, czxidB int64) int {
	switch overA, overB := a.Overflowed(), b.Overflowed(); {
	case overA && overB:
		return cmp.Or(cmp.Compare(czxidA, czxidB), cmp.Compare(a.Node, b.Node))
	case overA:
		return 1
	case overB:
		return -1
	}
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Node, b.Node))
}

// Contenders parses the children of a lock and sorts the contenders among them.
func Contenders(children []string) []Name {
	names := make([]Name, 0, len(children))
	for _, child := range children {
		if n, ok := Parse(child); ok {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, Compare)
	return names
}

// Find returns where the entry of that name stands, or -1.
func Find(names []Name, node string) int {
	return slices.IndexFunc(names, func(n Name) bool { return n.Node == node })
}

// CheckName reports why name cannot be the name of a lock, or nil. A name is
// relative to the root: components separated by single slashes, as ZooKeeper
// accepts them in paths, none of which could be taken for an entry.
func CheckName(name string) error {
	if name == "" {
		return fmt.Errorf("lock name is empty")
	}
	if len(name) > MaxName {
		return fmt.Errorf("lock name %.40q… has %d bytes: at most %d are allowed", name, len(name), MaxName)
	}
	if name[0] == '/' {
		return fmt.Errorf("lock name %q: must not start with a slash: names are relative to the root", name)
	}
	for component := range strings.SplitSeq(name, "/") {
		if rule := checkComponent(component); rule != "" {
			return fmt.Errorf("lock name %q: %s", name, rule)
		}
		if _, ok := Parse(component); ok {
			return fmt.Errorf("lock name %q: component %q could be taken for a lock entry", name, component)
		}
		if _, ok := AnchorOf(component); ok {
			return fmt.Errorf("lock name %q: component %q could be taken for the anchor of a lock", name, component)
		}
		if Reserved(component) {
			return fmt.Errorf("lock name %q: component %q is the name of a node that Holdfast keeps for itself", name, component)
		}
	}
	return nil
}

// CheckRoot reports why root cannot be the root of a tree of locks, or nil: it
// is an absolute path, not "/" and not ZooKeeper's own.
func CheckRoot(root string) error {
	if root == "/" {
		return fmt.Errorf("root %q: the locks need a node of their own below it, such as /locks", root)
	}
	if !strings.HasPrefix(root, "/") {
		return fmt.Errorf("root %q: must start with a slash", root)
	}
	if root == "/zookeeper" || strings.HasPrefix(root, "/zookeeper/") {
		return fmt.Errorf("root %q: belongs to ZooKeeper itself", root)
	}
	if len(root) > MaxName {
		return fmt.Errorf("root %.40q… has %d bytes: at most %d are allowed", root, len(root), MaxName)
	}
	for component := range strings.SplitSeq(root[1:], "/") {
		if rule := checkComponent(component); rule != "" {
			return fmt.Errorf("root %q: %s", root, rule)
		}
	}
	return nil
}

// checkComponent returns the rule of ZooKeeper's path validation that the
// component of a path breaks, or "".
func checkComponent(component string) string {
	switch component {
	case "":
		return "empty component (a slash at an end, or two in a row)"
	case ".", "..":
		return fmt.Sprintf("component %q is relative", component)
	}
	if !utf8.ValidString(component) {
		return "is not valid UTF-8"
	}
	for _, r := range component {
		// As the server's PathUtils, which sees UTF-16: beyond U+FFFF there
		// are only surrogates.
		if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return fmt.Sprintf("character %U is not allowed in a path", r)
		}
	}
	return ""
}
