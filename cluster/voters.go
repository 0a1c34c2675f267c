package cluster

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
)

const (
	// MaxVoters bounds a VoterConfig.
	MaxVoters = 7
	// TermSlots is how many classes of terms there are: a voter that may hold
	// without hearing the others takes only terms that leave its slot when
	// divided by TermSlots.
	TermSlots = 64
	// proofSize is the length of a record's signature.
	proofSize = 64
)

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
	// Setting is the mode that an operator asked for: auto, quorum or
	// available; empty: what the holder's own configuration says.
	Setting Mode `json:"setting,omitempty"`
	// Pinned says that an operator chose the voters; the holder replaces none
	// of them by itself.
	Pinned bool `json:"pinned,omitempty"`
	// Target are the voters wanted while they are not those of this record yet,
	// sorted; empty if they are. A later holder goes on towards it.
	Target []NodeID `json:"-"` // in JSON as what differs, so that a record fits a datagram
	// Slots are the voters' slots among TermSlots, in the order of Voters. They
	// are there as long as a voter may hold alone under this record or under an
	// earlier one; empty in mode available: 0, 1, 2 and so on.
	Slots []int `json:"slots,omitempty"`
	// Spent has a bit for each slot of a voter that went without acknowledging
	// it, and may hold alone for ever: no other voter gets that slot, and as
	// long as there is one the slots stay. The bit of a voter's own slot says
	// that it joins, see Joining.
	Spent uint64 `json:"spent,omitempty"`
	// Issuer is the holder that issued the record, and Proof its signature.
	// Neither takes part in comparisons.
	Issuer NodeID `json:"issuer,omitempty"`
	Proof  []byte `json:"proof,omitempty"`
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
	if err := checkVoters(c.Voters); err != nil {
		return err
	}
	return c.validateRest()
}

// validateRest checks what a record holds beyond epoch, voters and mode.
func (c VoterConfig) validateRest() error {
	switch c.Setting {
	case "", ModeAuto, ModeQuorum, ModeAvailable:
	default:
		return fmt.Errorf("voter config: setting %q", c.Setting)
	}
	switch {
	case len(c.Target) > MaxVoters:
		return fmt.Errorf("voter config: target of %d voters, at most %d", len(c.Target), MaxVoters)
	case len(c.Slots) != 0 && len(c.Slots) != len(c.Voters):
		return fmt.Errorf("voter config: %d slots for %d voters", len(c.Slots), len(c.Voters))
	case len(c.Proof) != 0 && len(c.Proof) != proofSize:
		return fmt.Errorf("voter config: proof of %d bytes", len(c.Proof))
	}
	for i, s := range c.Slots {
		if s < 0 || s >= TermSlots || slices.Contains(c.Slots[:i], s) {
			return fmt.Errorf("voter config: slot %d", s)
		}
	}
	if c.Issuer != "" {
		if _, err := ParseNodeID(string(c.Issuer)); err != nil {
			return fmt.Errorf("voter config: issuer: %w", err)
		}
	}
	return checkVoters(c.Target)
}

func checkVoters(voters []NodeID) error {
	for i, v := range voters {
		if _, err := ParseNodeID(string(v)); err != nil {
			return fmt.Errorf("voter config: %w", err)
		}
		if i > 0 && voters[i-1] >= v {
			return fmt.Errorf("voter config: voters not sorted or repeated at %q", v)
		}
	}
	return nil
}

// voterConfigJSON is a record on disk and on the wire: Join are the wanted that
// do not vote yet, Leave the places in Voters of those that are not wanted.
type voterConfigJSON struct {
	plainConfig
	Join  []NodeID `json:"join,omitempty"`
	Leave []int    `json:"leave,omitempty"`
}

type plainConfig VoterConfig

// MarshalJSON implements json.Marshaler.
func (c VoterConfig) MarshalJSON() ([]byte, error) {
	out := voterConfigJSON{plainConfig: plainConfig(c)}
	if len(c.Target) > 0 {
		for _, v := range c.Target {
			if !c.Has(v) {
				out.Join = append(out.Join, v)
			}
		}
		for i, v := range c.Voters {
			if !slices.Contains(c.Target, v) {
				out.Leave = append(out.Leave, i)
			}
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *VoterConfig) UnmarshalJSON(b []byte) error {
	var in voterConfigJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*c = VoterConfig(in.plainConfig)
	if len(in.Join)+len(in.Leave) == 0 {
		return nil
	}
	if len(in.Join) > MaxVoters || len(in.Leave) > MaxVoters || len(c.Voters) > MaxVoters {
		return fmt.Errorf("voter config: more than %d voters", MaxVoters)
	}
	for i, v := range c.Voters {
		if !slices.Contains(in.Leave, i) {
			c.Target = append(c.Target, v)
		}
	}
	c.Target = append(c.Target, in.Join...)
	slices.Sort(c.Target)
	if len(c.Target) == 0 {
		return fmt.Errorf("voter config: nobody is wanted")
	}
	return nil
}

// Split reports whether a voter may hold without hearing the others, under
// this record or under an earlier one that a voter may still go by: terms are
// unique then, and holders are not.
func (c VoterConfig) Split() bool { return c.Mode == ModeAvailable || len(c.Slots) > 0 }

// Joining reports whether n votes under this record but may not hold alone yet: a
// voter that has not heard that n joined could lead the others out of mode
// available while n, of which they know nothing, holds alone.
func (c VoterConfig) Joining(n NodeID) bool {
	slot, ok := c.Slot(n)
	return ok && c.Spent&(1<<slot) != 0
}

// Slot returns the slot of a voter; ok is false if there is none for n.
func (c VoterConfig) Slot(n NodeID) (slot int, ok bool) {
	i, ok := slices.BinarySearch(c.Voters, n)
	switch {
	case !ok || !c.Split():
		return 0, false
	case len(c.Slots) > 0:
		return c.Slots[i], true
	}
	return i, true
}

// Wanted are the voters that the record leads to.
func (c VoterConfig) Wanted() []NodeID {
	if len(c.Target) > 0 {
		return c.Target
	}
	return c.Voters
}

// SignedBytes is what Proof signs, together with the cluster's id: all of the
// record but Proof.
func (c VoterConfig) SignedBytes() []byte {
	b := []byte("skein/voters/1\n")
	text := func(s string) {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	list := func(ids []NodeID) {
		b = binary.BigEndian.AppendUint16(b, uint16(len(ids)))
		for _, id := range ids {
			text(string(id))
		}
	}
	flag := func(on bool) {
		if on {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	b = binary.BigEndian.AppendUint64(b, c.Epoch)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Term))
	text(string(c.Issuer))
	text(string(c.Mode))
	text(string(c.Setting))
	flag(c.Pinned)
	list(c.Voters)
	list(c.Target)
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.Slots)))
	for _, s := range c.Slots {
		b = append(b, byte(s))
	}
	return binary.BigEndian.AppendUint64(b, c.Spent)
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
