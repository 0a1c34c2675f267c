package election

import (
	"crypto/ed25519"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
	"github.com/skein-project/skein/lease"
)

// Reasons of refusal that this package adds to those of wire.
const (
	ReasonProof       wire.Reason = "proof"        // release whose proof its holder did not sign
	ReasonConfigProof wire.Reason = "config_proof" // voter configuration that its issuer did not sign
)

// ErrVoteLost says that the saved vote record is damaged or an old one, so that it
// is not known what this voter promised. It goes on and abstains.
var ErrVoteLost = errors.New("vote record lost")

// Store keeps the vote record across restarts.
type Store interface {
	// LoadVote returns the saved vote record; found is false if there never
	// was one. A record that is there and cannot be trusted, since it is
	// damaged or an old one, is an error that wraps ErrVoteLost.
	LoadVote() (v lease.VoteRecord, found bool, err error)
	// SaveVote makes v durable before it returns nil.
	SaveVote(v lease.VoteRecord) error
}

// Options are what an Elector is made of. Fields without "optional" must be set.
type Options struct {
	Self    cluster.Member // as announced
	Key     ed25519.PrivateKey
	Cluster member.ClusterID
	Store   Store
	// FirstStart says that this host never ran before, Alone that it created the
	// cluster and knows no other host, so that it may begin as the only voter.
	FirstStart, Alone bool

	Profile   cluster.Profile
	Timing    lease.Timing
	Mode      cluster.Mode // optional, auto
	MaxVoters int          // see lease.Options; optional
	LastTerm  cluster.Term // highest that this host's log knows of

	Now, Mono func() time.Duration // local clock, and one that stops in suspend
	Rand      func() float64

	// Send queues a message to a member. Reject counts and logs that a message of
	// one was refused. Judge refuses lease messages of a host that takes no part
	// in this lease: no member, another version, another profile.
	Send   func(to cluster.NodeID, kind wire.Type, payload any) error
	Reject func(from cluster.NodeID, err error)
	Judge  func(from cluster.NodeID, profile cluster.Profile) error
	// Renewal is called when a renewal or the answer to one was sent.
	Renewal func()
	// KeyOf returns the identity key of a member, Former those of a host that was
	// one.
	KeyOf  func(cluster.NodeID) (ed25519.PublicKey, bool)
	Former func(cluster.NodeID) []ed25519.PublicKey
	// Changed is called when something that a view shows may have changed;
	// Dropped counts actions whose reader was too slow.
	Changed func()
	Dropped func(kind string)

	Logger     zerolog.Logger
	Gate       *loglimit.Gate
	Registerer prometheus.Registerer // optional
}
