package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// Accept says whose jobs a host runs. Its owner's it runs with any but none.
type Accept string

// Values of Accept. The empty one is owner for a host that is somebody's, else
// public.
const (
	AcceptPublic Accept = "public" // everybody's
	AcceptOwner  Accept = "owner"  // its owner's only
	AcceptUser   Accept = "user"   // those of named users, too
	AcceptGroup  Accept = "group"  // those of the members of named groups, too
	AcceptNone   Accept = "none"   // nobody's
)

// MaxAcceptNames bounds Acceptance.Names.
const MaxAcceptNames = 256

// Acceptance is Accept with the names that it needs. It narrows what jobs permit,
// and widens nothing.
type Acceptance struct {
	Accept Accept   `json:"accept,omitempty"`
	Names  []string `json:"names,omitempty"` // with user or group, sorted
}

// Settle returns what a means on a host of owner, where empty is nobody.
func (a Acceptance) Settle(owner string) Acceptance {
	switch {
	case a.Accept != "":
	case owner == "":
		a.Accept = AcceptPublic
	default:
		a.Accept = AcceptOwner
	}
	return a
}

// Narrows reports that a, which is settled, may refuse jobs.
func (a Acceptance) Narrows() bool { return a.Accept != "" && a.Accept != AcceptPublic }

// Allows decides whether a host of owner runs the jobs of who. The sets are exact:
// member tells whether who is in a group.
func (a Acceptance) Allows(owner, who string, member func(group, who string) bool) bool {
	switch {
	case !a.Narrows():
		return true
	case a.Accept == AcceptNone:
		return false
	case who != "" && who == owner:
		return true
	case a.Accept == AcceptUser:
		_, ok := slices.BinarySearch(a.Names, who)
		return ok
	case a.Accept == AcceptGroup:
		return slices.ContainsFunc(a.Names, func(g string) bool { return member(g, who) })
	}
	return false
}

// Equal reports that a and b say the same.
func (a Acceptance) Equal(b Acceptance) bool {
	return a.Accept == b.Accept && slices.Equal(a.Names, b.Names)
}

// String implements fmt.Stringer: "owner", "user uid:1000, user:ann".
func (a Acceptance) String() string {
	if len(a.Names) == 0 {
		return string(a.Accept)
	}
	return string(a.Accept) + " " + strings.Join(a.Names, ", ")
}

// Check reports what of a cannot be.
func (a Acceptance) Check() error {
	named := func(string) bool { return false }
	switch a.Accept {
	case "", AcceptPublic, AcceptOwner, AcceptNone:
		if len(a.Names) > 0 {
			return fmt.Errorf("accept %q needs no names, and has %d", a.Accept, len(a.Names))
		}
	case AcceptUser:
		named = func(n string) bool { return cluster.CheckPrincipal(n) == nil }
	case AcceptGroup:
		named = func(n string) bool { return cluster.CheckGroupName(n) == nil }
	default:
		return fmt.Errorf("accept is %.32q, want %s, %s, %s, %s or %s", a.Accept, AcceptPublic, AcceptOwner, AcceptUser, AcceptGroup, AcceptNone)
	}
	return cluster.CheckSet("names", a.Names, MaxAcceptNames, named)
}
