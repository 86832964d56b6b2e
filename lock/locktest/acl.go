package locktest

import (
	"crypto/sha1"
	"encoding/base64"
	"slices"
	"strings"
)

// Permissions, as bits of ACL.Perms.
const (
	permRead   = 1
	permWrite  = 2
	permCreate = 4
	permDelete = 8
	permAdmin  = 16
	permAll    = 31
)

// permits reports whether an ACL gives any of the permissions in perm to a connection with one of
// the identities.
func permits(acl []ACL, perm int32, identity []ACL) bool {
	for _, a := range acl {
		if a.Perms&perm == 0 {
			continue
		}
		if a.Scheme == "world" && a.ID == "anyone" {
			return true
		}
		for _, id := range identity {
			if id.Scheme == a.Scheme && id.ID == a.ID {
				return true
			}
		}
	}
	return false
}

// shownACL returns the ACL in the reply to a getACL: a client without the permission to administer
// the node does not see the digests.
func shownACL(acl []ACL, identity []ACL) []ACL {
	if permits(acl, permAdmin, identity) {
		return acl
	}
	shown := slices.Clone(acl)
	for i, a := range shown {
		if name, _, ok := strings.Cut(a.ID, ":"); ok && a.Scheme == "digest" {
			shown[i].ID = name + ":x"
		}
	}
	return shown
}

// resolveACL checks an ACL from a client, drops duplicates and replaces the scheme "auth" by the
// connection's identities. It returns false if the ACL is empty or invalid.
func (p *preparer) resolveACL(acl []ACL) ([]ACL, bool) {
	var resolved []ACL
	for i, a := range acl {
		if slices.Contains(acl[:i], a) {
			continue
		}
		switch {
		case a.Scheme == "world" && a.ID == "anyone":
			resolved = append(resolved, a)
		case a.Scheme == "auth" && len(p.identity) > 0:
			for _, id := range p.identity {
				resolved = append(resolved, ACL{Perms: a.Perms, Scheme: id.Scheme, ID: id.ID})
			}
		case a.Scheme == "digest" && validDigest(a.ID):
			resolved = append(resolved, a)
		default:
			return nil, false
		}
	}
	return resolved, len(resolved) > 0
}

// validDigest reports whether the id of a digest ACL has a name and a digest.
func validDigest(id string) bool {
	return len(strings.Split(strings.TrimRight(id, ":"), ":")) == 2
}

// digestID returns the id for credentials of the form "name:password".
func digestID(credentials []byte) string {
	name, _, _ := strings.Cut(string(credentials), ":")
	sum := sha1.Sum(credentials)
	return name + ":" + base64.StdEncoding.EncodeToString(sum[:])
}
