package descriptor

import (
	"crypto/ecdh"
	"fmt"
	"slices"
	"time"
)

// Expected is what a descriptor should turn out to be.
type Expected struct {
	Address  Address
	Period   Period
	Revision uint64
	Points   []Point // in any order
	Client   *ecdh.PrivateKey
	// Margin is how long the certificates must last from now on.
	Margin time.Duration
	Now    time.Time
}

// Check reads a descriptor as a client would and reports the first thing that
// makes it useless or different from what is expected: size, signatures,
// certificates until the end of Margin, number of points, points at one
// relay, points that were not meant.
func Check(text []byte, want Expected) error {
	// Certificates have no beginning: those that last will do now.
	at := want.Now.Add(want.Margin)
	s, err := Parse(text, at)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if s.Revision != want.Revision {
		return fmt.Errorf("check: %w: revision %d, want %d", ErrMismatch, s.Revision, want.Revision)
	}
	d, err := s.Open(want.Address, want.Period, want.Client, at)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if len(d.Dropped) > 0 {
		return fmt.Errorf("check: %w", d.Dropped[0])
	}
	if err := usable(d.Points); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if !SamePoints(d.Points, want.Points) {
		return fmt.Errorf("check: %w: points differ", ErrMismatch)
	}
	return nil
}

// SamePoints reports whether two sets of points are equal, in whatever order.
func SamePoints(a, b []Point) bool {
	if len(a) != len(b) {
		return false
	}
	return !slices.ContainsFunc(a, func(p Point) bool { return !slices.Contains(b, p) }) &&
		!slices.ContainsFunc(b, func(p Point) bool { return !slices.Contains(a, p) })
}
