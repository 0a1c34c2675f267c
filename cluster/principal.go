package cluster

import (
	"fmt"
	"strings"
)

// Limits of the names of zones, users and groups.
const (
	MaxZoneName     = 32  // bytes
	MaxPrincipal    = 128 // bytes in the name of who owns jobs or workers
	MaxGroupName    = 64  // bytes
	MaxGroupMembers = 10_000
	MaxGroups       = 1024

	MaxUserName = 48 // bytes: hosts pass on no more than 64 of a principal
	MaxUsers    = 10_000
	MaxUserKeys = 8  // of one user
	MaxUserUIDs = 16 // of one user
)

// CheckSet checks a sorted list of names without duplicates; name is what
// errors call the list.
func CheckSet(name string, set []string, most int, ok func(string) bool) error {
	if len(set) > most {
		return fmt.Errorf("%s has %d entries, at most %d are allowed", name, len(set), most)
	}
	for i, v := range set {
		switch {
		case !ok(v):
			return fmt.Errorf("%s: %.64q is not a name that can be there", name, v)
		case i > 0 && set[i-1] >= v:
			return fmt.Errorf("%s: %.64q is out of order or there twice", name, v)
		}
	}
	return nil
}

// CheckPrincipal checks the name of somebody who owns jobs or workers, such as
// "uid:1000" or "node:n1": 1 to MaxPrincipal printable ASCII bytes without
// blanks.
func CheckPrincipal(s string) error {
	if !Printable(s, MaxPrincipal) {
		return fmt.Errorf("%.64q is not the name of a user: want 1-%d printable ASCII characters without blanks", s, MaxPrincipal)
	}
	return nil
}

// visitorPrefix begins the names of owners of outside workers of whom nothing is known
// but from where they come.
const visitorPrefix = "visitor:"

// CheckGrantee checks the name of somebody whom a permission or a group may name:
// anybody but a visitor.
func CheckGrantee(s string) error {
	if err := CheckPrincipal(s); err != nil {
		return err
	}
	if strings.HasPrefix(s, visitorPrefix) {
		return fmt.Errorf("%.64q is a visitor, whom nothing can be granted", s)
	}
	return nil
}

// NodePrincipal is who a host is: whose worker its own is while the host is
// nobody's.
func NodePrincipal(n NodeID) string { return "node:" + string(n) }

// CheckGroupName checks the name of a group: 1 to MaxGroupName of a-z, 0-9,
// '.', '-' and '_'.
func CheckGroupName(s string) error {
	if s == "" || len(s) > MaxGroupName || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
		return fmt.Errorf("%.64q is not the name of a group: want 1-%d of a-z, 0-9, '.', '-' and '_'", s, MaxGroupName)
	}
	return nil
}

// CheckUserName checks the name of a user: 1 to MaxUserName of a-z, 0-9, '.',
// '-' and '_'. No '@': behind it a principal has the host where somebody asked.
func CheckUserName(s string) error {
	if s == "" || len(s) > MaxUserName || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
		return fmt.Errorf("%.64q is not the name of a user: want 1-%d of a-z, 0-9, '.', '-' and '_'", s, MaxUserName)
	}
	return nil
}

// UserPrincipal is how jobs and events name the user of this name.
func UserPrincipal(name string) string { return "user:" + name }

// Printable reports whether s is 1 to most bytes of visible ASCII.
func Printable(s string, most int) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= most
}
