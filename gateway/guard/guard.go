package guard

import (
	"crypto/sha256"
	"errors"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
)

// Errors of a Guard; access has those of nonces.
var (
	// ErrDown says that what is remembered cannot be asked now; nothing was done.
	ErrDown = errors.New("what gateways share is not there now")
	// ErrRoom says that as many workers wait for their owners as may; nothing was done.
	ErrRoom = errors.New("too many workers wait for their owners already")
	// ErrNoClaim says that no worker waits under a code. It was counted as a guess.
	ErrNoClaim = errors.New("no worker waits under this claim code")
)

// ClaimLife is how long a claim code is good, and MaxClaims how many are open at once.
const (
	ClaimLife = 15 * time.Minute
	MaxClaims = 10_000
)

// Hash is what is kept of a claim code.
type Hash [sha256.Size]byte

// Claim is a worker that asks for an owner.
type Claim struct {
	Worker cluster.NodeID
	Key    []byte
	Name   string
	Left   time.Duration // how long its code is good
}

// Guard is what one gateway, or several, remember of those who ask. Its methods may be called
// from any goroutine. All but Count fail with ErrDown while it cannot be asked.
type Guard interface {
	// Count counts asks in turn, up to the first that is one too many: a *LateError.
	Count(asks ...Ask) error
	// Used are the nonces of verified proofs; access.ErrDown where it cannot be asked.
	access.Used
	// First is to be called before the first proof of all was taken: nothing that was signed
	// before now can have been used. Without it a Guard that finds nothing takes it that what
	// it knew is lost.
	First() error

	// Open has a worker wait under a code; it has one code, the latest. ErrRoom.
	Open(code Hash, c Claim) error
	// Take uses a code up; by is the access token that tries it. ErrNoClaim, or a *LateError
	// of Guess when it has guessed too often.
	Take(code Hash, by string) (Claim, error)
	// Back gives a code back that was taken and did nothing, unless the worker has another.
	Back(code Hash, c Claim)
	// Waiting is the key of a worker that waits for its owner.
	Waiting(worker cluster.NodeID) (key []byte, ok bool, err error)
	// Claims is how many wait.
	Claims() int
}
