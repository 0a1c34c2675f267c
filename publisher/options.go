package publisher

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/publisher/descriptor"
)

// Uploader reaches directories through tor. Both methods return when the
// directory has answered or the context ends.
type Uploader interface {
	// Upload hands a descriptor to one directory. ErrRejected: it has a
	// revision that is as high or higher.
	Upload(ctx context.Context, a descriptor.Address, dir descriptor.Fingerprint, text []byte) error
	// Fetch returns what the directory has of the descriptor that clients ask
	// for now.
	Fetch(ctx context.Context, a descriptor.Address, dir descriptor.Fingerprint) ([]byte, error)
}

// Floors keeps the highest revisions that were posted. What was saved is on
// disk when Save returns.
type Floors interface {
	Load() (map[descriptor.Period]uint64, error)
	Save(map[descriptor.Period]uint64) error
}

// What callers branch on.
var (
	// ErrRejected is an Uploader's word for a revision that is too low.
	ErrRejected = errors.New("directory has a revision that is as high or higher")
	// ErrReplayed reports a host's descriptor that is older than one it sent
	// before.
	ErrReplayed = errors.New("descriptor is older than the one before")
	// ErrOptions is wrapped by errors of New.
	ErrOptions = errors.New("invalid publisher options")
)

// Options are what a Publisher is made of.
type Options struct {
	Key      descriptor.SecretKey // of the address
	Clients  []*ecdh.PublicKey    // restricted discovery; none: open to all
	Uploader Uploader
	Floors   Floors
	Timing   Timing // zero: DefaultTiming
	// Entropy is crypto/rand.Reader if nil.
	Entropy io.Reader
	Log     zerolog.Logger
	// Report is told what an operator should know; it must not block. May be
	// nil.
	Report func(Report)
}

func (o *Options) check() error {
	switch {
	case o.Key.IsZero():
		return fmt.Errorf("%w: no key", ErrOptions)
	case o.Uploader == nil || o.Floors == nil:
		return fmt.Errorf("%w: needs an uploader and a place for revisions", ErrOptions)
	case len(o.Clients) > descriptor.MaxClients:
		return fmt.Errorf("%w: %d client keys, at most %d", ErrOptions, len(o.Clients), descriptor.MaxClients)
	}
	if o.Timing == (Timing{}) {
		o.Timing = DefaultTiming()
	}
	if o.Entropy == nil {
		o.Entropy = rand.Reader
	}
	return nil
}

// Report is something that an operator should know. One field is set beside
// the address, and Next with Published.
type Report struct {
	Address     descriptor.Address
	Published   *Published
	Next        time.Time // when the next descriptor is built, unless something changes before
	Unpublished *Unpublished
	Fenced      *Fenced
	Foreign     *Foreign
	Refused     *Refused
	Failed      error // no descriptor could be made
}

// Refused reports a host's descriptor that was not taken.
type Refused struct {
	Node cluster.NodeID
	Err  error
}

// Host is a host with its share of the address.
type Host struct {
	Node    cluster.NodeID
	Address descriptor.Address // its own
	Weight  uint32             // 0: drained
	Text    []byte             // its own descriptor, as its tor signed it
	// Relays are those of its introduction points that have a circuit; nil: not
	// known, all count. A relay that died stays in the descriptor for a minute.
	Relays []descriptor.Fingerprint
	// Reserve says that its points are for the case that no other host has any.
	Reserve bool
}

// Network is what the own tor says about the network.
type Network struct {
	Consensus  *descriptor.Consensus
	Microdescs descriptor.Microdescs
	Testing    bool
}

// Status is what the publisher does at the moment.
type Status struct {
	Publishing bool
	Term       cluster.Term
	// Version counts descriptors; Published is when clients last found the
	// newest one, zero if never.
	Version   uint64
	Published time.Time
	Points    map[cluster.NodeID]int // in the newest descriptors, all together
	Size      int                    // of the largest, in bytes
	Fenced    bool
	// Foreign is when a descriptor of somebody else was last found; zero: never.
	Foreign time.Time
	Solo    bool // new periods are left to tor
}
