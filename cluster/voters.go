package cluster

import (
	"fmt"
	"slices"
)

// MaxVoters bounds a VoterConfig.
const MaxVoters = 7

// VoterConfig is the record of who grants the lease. Records are ordered by
// (Term, Epoch); a host keeps the newest that it has seen and never goes back.
type VoterConfig struct {
	// Epoch rises by one with every record of the cluster's life.
	Epoch uint64 `json:"epoch"`
	// Term is the term of the holder that issued the record.
	Term Term `json:"term"`
	// Voters is sorted by NodeID, without duplicates, 1 to MaxVoters long.
	Voters []NodeID `json:"voters"`
	// Mode is single, available or quorum, never auto.
	Mode Mode `json:"mode"`
}

// Validate reports the first reason why c is not a usable record.
func (c VoterConfig) Validate() error {
	switch {
	case c.Epoch == 0:
		return fmt.Errorf("voter config: epoch 0")
	case len(c.Voters) == 0 || len(c.Voters) > MaxVoters:
		return fmt.Errorf("voter config: %d voters, want 1-%d", len(c.Voters), MaxVoters)
	case c.Mode != ModeSingle && c.Mode != ModeAvailable && c.Mode != ModeQuorum:
		return fmt.Errorf("voter config: mode %q", c.Mode)
	}
	for i, v := range c.Voters {
		if _, err := ParseNodeID(string(v)); err != nil {
			return fmt.Errorf("voter config: %w", err)
		}
		if i > 0 && c.Voters[i-1] >= v {
			return fmt.Errorf("voter config: voters not sorted or repeated at %q", v)
		}
	}
	return nil
}

// IsZero reports the empty record of a host that has none yet.
func (c VoterConfig) IsZero() bool { return c.Epoch == 0 }

// Newer reports whether c supersedes o.
func (c VoterConfig) Newer(o VoterConfig) bool {
	if c.Term != o.Term {
		return c.Term > o.Term
	}
	return c.Epoch > o.Epoch
}

// Has reports whether n is a voter.
func (c VoterConfig) Has(n NodeID) bool {
	_, ok := slices.BinarySearch(c.Voters, n)
	return ok
}

// Majority is the number of voters that make a majority, the local one
// included: floor(n/2)+1 of the configured, never of the visible ones.
func (c VoterConfig) Majority() int { return len(c.Voters)/2 + 1 }

// AutoMode is the mode that the setting auto means for n configured voters.
func AutoMode(n int) Mode {
	switch {
	case n <= 1:
		return ModeSingle
	case n == 2:
		return ModeAvailable
	default:
		return ModeQuorum
	}
}
