package lease

import (
	"errors"
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// ErrVoters is wrapped by every error about a SetVoters that cannot be
// followed; nothing changed. ErrNotHolding is: only the holder can.
var (
	ErrVoters     = errors.New("voters cannot be set")
	ErrNotHolding = errors.New("this host does not hold the lease")
)

// CheckVoters reports why this host would refuse r now, nil if it would not.
func CheckVoters(s State, r SetVoters) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrVoters, fmt.Sprintf(format, args...))
	}
	cur := &s.vote.Config
	switch {
	case s.phase != holding:
		return fmt.Errorf("%w: %w", ErrVoters, ErrNotHolding)
	case r.Auto && len(r.Voters) > 0:
		return bad("voters are named and to be chosen by the holder")
	case !r.Auto && len(r.Voters) == 0 && r.Mode == "":
		return bad("nothing is asked for")
	case len(r.Voters) > cluster.MaxVoters:
		return bad("%d voters, at most %d", len(r.Voters), cluster.MaxVoters)
	}
	switch r.Mode {
	case "", cluster.ModeAuto, cluster.ModeQuorum, cluster.ModeAvailable:
	default:
		return bad("mode %q, want auto, quorum or available", r.Mode)
	}
	seen := map[cluster.NodeID]bool{}
	for _, v := range r.Voters {
		if _, err := cluster.ParseNodeID(string(v)); err != nil {
			return fmt.Errorf("%w: %w", ErrVoters, err)
		}
		if seen[v] {
			return bad("%s is named twice", v)
		}
		seen[v] = true
		p := s.lookup(v)
		switch {
		case v == s.self:
		case p == nil && cur.Has(v):
		case p == nil:
			return bad("%s is not known or was never heard", v)
		case p.Gone:
			return bad("%s left", v)
		case !p.Alive && !cur.Has(v):
			return bad("%s is not alive", v)
		}
	}
	next := wish(s, r)
	if size := nameBytes(&next); size > maxNameBytes {
		return bad("the names of the voters and of those to come are %d bytes long, at most %d: change fewer at a time", size, maxNameBytes)
	}
	if !next.Pinned {
		return nil
	}
	if mode := s.modeOf(&next, len(next.Wanted())); mode != cluster.ModeQuorum && !slices.Contains(next.Wanted(), s.self) {
		return bad("with %d of them the mode is %s, in which the holder %s must be among them: let another hold first", len(next.Wanted()), mode, s.self)
	}
	return nil
}

// maxNameBytes bounds the names in a record, with what JSON puts around them:
// seven voters of the longest names, and one to come, so that a message that
// carries the record fits a datagram.
const maxNameBytes = (cluster.MaxVoters + 1) * (cluster.MaxNodeIDLen + 3)

func nameBytes(c *cluster.VoterConfig) int {
	n := 0
	for _, v := range c.Voters {
		n += len(v) + 3
	}
	for _, v := range c.Target {
		if !c.Has(v) {
			n += len(v) + 3
		}
	}
	return n
}

// wish is the present record with what r asks for.
func wish(s State, r SetVoters) cluster.VoterConfig {
	c := s.vote.Config
	if r.Mode != "" {
		c.Setting = r.Mode
	}
	switch {
	case r.Auto:
		c.Pinned, c.Target = false, nil
	case len(r.Voters) > 0:
		c.Pinned, c.Target = true, slices.Sorted(slices.Values(r.Voters))
		if slices.Equal(c.Target, c.Voters) {
			c.Target = nil
		}
	}
	return c
}
