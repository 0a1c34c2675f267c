package access

import (
	"fmt"
	"strings"
)

// Role is what a user may do. The zero value is nobody and may do nothing.
type Role uint8

// Roles, each with the rights that Allowed lists.
const (
	Nobody Role = iota
	Viewer
	Submitter
	Operator
)

var roleNames = [...]string{Nobody: "nobody", Viewer: "viewer", Submitter: "submitter", Operator: "operator"}

// String returns the name that the configuration, the log and the API use.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// ParseRole reads the name of a role that a user can have.
func ParseRole(s string) (Role, error) {
	for r := Viewer; r <= Operator; r++ {
		if roleNames[r] == s {
			return r, nil
		}
	}
	return Nobody, fmt.Errorf("%.32q is not a role: want %s", s, strings.Join(roleNames[Viewer:], ", "))
}

// Right is what a request needs. The zero value is none that anybody has.
type Right uint8

// Rights.
const (
	// Look is to see the cluster: hosts, lease, workers, metrics.
	Look Right = iota + 1
	// Read is to see a job: its state, results, history and events.
	Read
	// Use is to submit, stop or retry a job, and to read its outputs and logs.
	Use
	// Operate is everything else: hosts, users, groups, voters, tokens, onion
	// addresses, configuration.
	Operate
	// Debug is to gather what a host knows of itself for a bundle: stacks, warnings,
	// profiles, its part of the log. Each host that gathers asks for it, not only the
	// one that was asked.
	Debug
)

// Reach is whose things a role may use a right on.
type Reach uint8

// Reaches.
const (
	None Reach = iota
	Own
	All
)

var reachNames = [...]string{None: "none", Own: "own", All: "all"}

// String returns the word that the API uses.
func (r Reach) String() string {
	if int(r) < len(reachNames) {
		return reachNames[r]
	}
	return fmt.Sprintf("reach %d", uint8(r))
}

// Allowed returns whose things a role may use a right on. Nothing has an owner
// under Look, Operate and Debug: there the answer is None or All.
func Allowed(role Role, right Right) Reach {
	switch role {
	case Operator:
		if right != 0 {
			return All
		}
	case Submitter:
		switch right {
		case Look:
			return All
		case Read, Use:
			return Own
		}
	case Viewer:
		if right == Look || right == Read {
			return All
		}
	}
	return None
}
