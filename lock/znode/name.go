package znode

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxName is the largest size of a lock's name, and of a root, in bytes.
const MaxName = 512

// EpochMark is the name of the node below the root that keeps an early stamp of the leader's
// present epoch. No lock can have this name.
const EpochMark = ".epoch"

// MaxPermits is the largest number of a semaphore's permits, and the highest priority of a
// candidate.
const MaxPermits = 1 << 20

const (
	idLength       = 16
	sequenceDigits = 10 // least length of a sequence; a sign counts
)

// Role is the kind of access that an entry requests.
type Role uint8

// The roles, with their tokens in entries' names.
const (
	Exclusive Role = iota // -lock-
	Shared                // -__READ__
	Writer                // -__WRIT__
)

var ownTokens = [...]string{Exclusive: "-lock-", Shared: "-__READ__", Writer: "-__WRIT__"}

// foreignTokens are the tokens before the sequence in other libraries' entries: zk.Lock and
// Curator, then kazoo, then Curator's read/write lock.
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
	Node string // the name in ZooKeeper
	Tag  string // the first 16 digits, see the package's doc; empty for another library's entry
	Role Role   // the requested access
	Seq  int32  // the sequence, from the server

	Permits int32 // permits of a semaphore, or a candidate's priority; 0: not in the name, counts as 1
}

// Priority returns the priority of a candidate in an election.
func (n Name) Priority() int32 { return max(1, n.Permits) }

// Prefix returns the name without its sequence; "" for another library's entry.
func (n Name) Prefix() string {
	if !n.Ours() {
		return ""
	}
	prefix, _, _ := cutSequence(n.Node)
	return prefix
}

// NewID returns a new random id, as [FormatID] writes it.
func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ParseID returns the number of an id that [FormatID] made. Any other text is an error.
func ParseID(id string) (uint64, error) {
	if !isID(id) || len(id) != idLength {
		return 0, fmt.Errorf("%.40q is no id: want %d lower-case hexadecimal digits", id, idLength)
	}
	return strconv.ParseUint(id, 16, 64)
}

// FormatID returns the id of a number: 16 lower-case hexadecimal digits.
func FormatID(n uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, n))
}

// Prefix returns the name of an entry without its sequence, for a sequential create. The tag is
// the parent's generation.
func Prefix(tag string, role Role) string { return tag + ownTokens[role] }

// PermitsPrefix returns the prefix of an entry with that many permits of a semaphore, or of a
// candidate with that priority.
func PermitsPrefix(tag string, permits int32) string {
	if permits <= 1 {
		return Prefix(tag, Exclusive)
	}
	return tag + "-" + strconv.Itoa(int(permits)) + ownTokens[Exclusive]
}

// Predict returns the name of the entry with that prefix and sequence.
func Predict(prefix string, seq int32) string { return prefix + formatSequence(seq) }

// Anchor returns the name of the anchor of a parent of that generation.
func Anchor(generation string) string { return anchorPrefix + generation + anchorSuffix }

// An anchor's name ends in the largest sequence, so clients that sort by sequence put it behind all
// entries. No library takes it for an entry.
const (
	anchorPrefix = "anchor-"
	anchorSuffix = "__2147483647"
)

// AnchorOf returns the generation in an anchor's name. It returns false for a node that is not an
// anchor.
func AnchorOf(node string) (generation string, ok bool) {
	middle, ok := strings.CutPrefix(node, anchorPrefix)
	if !ok {
		return "", false
	}
	generation, ok = strings.CutSuffix(middle, anchorSuffix)
	return generation, ok && len(generation) == idLength && isID(generation)
}

// formatSequence formats a sequence as the server does.
func formatSequence(seq int32) string {
	if seq < 0 {
		return fmt.Sprintf("%0*d", sequenceDigits, seq)
	}
	digits := strconv.Itoa(int(seq))
	return "0000000000"[min(len(digits), sequenceDigits):] + digits
}

// Parse parses the name of a child of a lock, of this or another library. It returns false for a
// child that is not a contender.
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

// cutPermits parses the number of permits, or the priority, between tag and sequence. It returns
// false if there is no number, or if the number is below 2 or above MaxPermits, or has leading
// zeros.
func cutPermits(rest string) (permits int32, ok bool) {
	digits, ok := strings.CutSuffix(rest, ownTokens[Exclusive])
	if !ok || len(digits) < 2 || digits[0] != '-' || digits[1] < '1' || digits[1] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(digits[1:], 10, 32)
	return int32(n), err == nil && n > 1 && n <= MaxPermits
}

// cutSequence splits off the sequence that the server appended to a node's name. It returns false
// if the name has no sequence.
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
	// A negative sequence has its own sign behind the token's dash or underscore:
	// "-lock--2147483648". The counter goes up from the minimum, so none begins with a zero.
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

// Ours reports whether the name is of an entry of Holdfast.
func (n Name) Ours() bool { return n.Tag != "" }

// Overflowed reports whether the parent's counter had reached its end when the entry was created.
// Such an entry is never granted, and its sequence alone does not order it.
func (n Name) Overflowed() bool { return n.Seq < 0 || n.Seq == math.MaxInt32 }

// Copied reports whether the entry was not created below its present parent, whose counter is given: a
// tool has copied the parent with its children, and the new parent counts from 0. Such an entry is
// older than all entries that are created there.
func (n Name) Copied(counter int32) bool { return n.Ours() && !n.Overflowed() && n.Seq >= counter }

// TokenSequence returns the part of a fencing token that differs among the entries of one
// transaction: the sequence; 0 if that is negative.
func (n Name) TokenSequence() int32 { return max(0, n.Seq) }

// Compare orders names by the creation of their entries: it is negative if a came first. For two
// overflowed entries use [CompareAt].
func Compare(a, b Name) int { return CompareAt(a, 0, b, 0) }

// CompareAt is like [Compare], but also orders two overflowed entries, by their creation zxids.
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

// Contenders parses the children of a lock and returns the contenders among them, sorted by
// [Compare].
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

// Find returns the index of the named entry; -1 if it is not among the names.
func Find(names []Name, node string) int {
	return slices.IndexFunc(names, func(n Name) bool { return n.Node == node })
}

// CheckName returns an error if name cannot be the name of a lock. A name is relative to the root:
// components separated by single slashes, as ZooKeeper accepts them in paths. No component may look
// like an entry or an anchor, or be [Reserved].
func CheckName(name string) error {
	if name == "" {
		return fmt.Errorf("lock name is empty")
	}
	if len(name) > MaxName {
		return fmt.Errorf("lock name %.40q… has %d bytes: at most %d are allowed", name, len(name), MaxName)
	}
	if name[0] == '/' {
		return fmt.Errorf("lock name %q: must not start with a slash: leave out the root, as in orders/42", name)
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

// CheckRoot returns an error if root cannot be the root of a tree of locks. A root is an absolute
// path, neither "/" nor ZooKeeper's own.
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

// checkComponent returns the rule of ZooKeeper's path validation that the component violates, or ""
// if it violates none.
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
		// The rule of the server's PathUtils. It sees UTF-16, where all characters beyond U+FFFF
		// are surrogates, and so forbidden.
		if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return fmt.Sprintf("character %U is not allowed in a path", r)
		}
	}
	return ""
}
