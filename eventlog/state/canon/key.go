package canon

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Key identifies an event and gives it its place in the order of the events of
// all sources. The zero Key stands for no event.
type Key struct {
	HLC    cluster.HLC
	Source event.SourceID
	Seq    uint64 // from 1
}

// KeyOf returns the key of e.
func KeyOf(e *event.Event) Key { return Key{HLC: e.HLC, Source: e.Source, Seq: e.Seq} }

// IsZero reports whether k stands for no event.
func (k Key) IsZero() bool { return k.Seq == 0 && k.HLC == 0 }

// Less reports whether k comes before o.
func (k Key) Less(o Key) bool { return k.Compare(o) < 0 }

// Later returns the later of both.
func (k Key) Later(o Key) Key {
	if k.Less(o) {
		return o
	}
	return k
}

// Compare is negative if k comes before o, positive if it comes after, and 0 if
// they are equal. Clocks decide first, then sources, then sequence numbers.
func (k Key) Compare(o Key) int {
	switch {
	case k.HLC < o.HLC:
		return -1
	case k.HLC > o.HLC:
		return 1
	}
	if c := k.Source.Compare(o.Source); c != 0 {
		return c
	}
	switch {
	case k.Seq < o.Seq:
		return -1
	case k.Seq > o.Seq:
		return 1
	}
	return 0
}

// Register is a value with the event that set it. The zero Register was never
// set.
type Register[T any] struct {
	At Key
	V  T
}

// Set keeps the latest value.
func (r *Register[T]) Set(at Key, v T) {
	if r.At.Less(at) {
		r.At, r.V = at, v
	}
}

// First keeps the earliest value.
func (r *Register[T]) First(at Key, v T) {
	if r.At.IsZero() || at.Less(r.At) {
		r.At, r.V = at, v
	}
}

// Clip cuts a text off after limit bytes.
func Clip(text string, limit int) string {
	return text[:min(len(text), limit)]
}

// IsNode reports whether n can name a host; with optional, also whether it
// names none.
func IsNode(n cluster.NodeID, optional bool) bool {
	if n == "" {
		return optional
	}
	_, err := cluster.ParseNodeID(string(n))
	return err == nil
}
