package store

import (
	"crypto/ed25519"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
)

const (
	// MaxSources is the most chains that a log takes in.
	MaxSources = 4096
	// maxIncarnations is how many chains of one host the log takes.
	maxIncarnations = 256
)

// Options configure a Store. All fields but Registerer are required.
type Options struct {
	Dir     string
	Cluster string
	// Self and Incarnation name the own chain, unless the disk holds a higher
	// incarnation.
	Self        cluster.NodeID
	Incarnation uint64
	// Key signs the own heads.
	Key ed25519.PrivateKey
	// KeyOf returns the identity key of a host, nil if it knows none. It must
	// not block.
	KeyOf func(cluster.NodeID) ed25519.PublicKey
	FS    disk.FS
	Room  *disk.Room
	// SegmentSize is the size at which a segment is sealed, Prealloc the largest
	// step of preallocation.
	SegmentSize, Prealloc int64

	// Shown gets the new events of each chain, and how many bytes they take on
	// disk, before any reader can see them. It must not call the store.
	Shown func(src event.SourceID, events []event.Event, size int64)

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // may be nil
}
