package access

import (
	"errors"
	"fmt"
	"time"
)

// Keep is how long a nonce counts as used: a proof from Window ahead is good for
// twice Window, and some more for clocks that are set.
const Keep = 2*Window + 10*time.Second

// Used remembers which proofs were used, as Nonces does; whoever has one says where, and from
// how many goroutines it may be asked.
type Used interface {
	Use(p Proof, now time.Time) error
	Forget(p Proof)
}

// ErrFull reports that too many proofs came of late to remember them: nothing was
// taken, and whoever asked may come again.
var ErrFull = errors.New("too many signed requests at this time")

// ErrDown reports that nobody can say now whether a proof was used: nothing was taken, and
// whoever asked may come again.
var ErrDown = errors.New("whether it was signed for the first time cannot be known now")

// EarlyError reports a proof, which may well be good, of before the host began to remember
// them: nothing was taken, and whoever asked may come again with another, signed when After
// has passed.
type EarlyError struct{ After time.Duration }

// Error implements error.
func (e *EarlyError) Error() string {
	return "signed before this host could know whether it was used: what it knew began only now"
}

// ErrUsed reports a proof that was used before. It is one of ErrProof.
var ErrUsed = fmt.Errorf("%w: used before", ErrProof)

// Nonces remembers which proofs were used. It is owned by one goroutine, or
// guarded by its owner. Two generations, each of Keep: a nonce is forgotten
// between Keep and twice Keep after its use.
type Nonces struct {
	limit    int
	since    time.Time
	turned   time.Time
	now, old map[string]struct{}
}

// NewNonces makes a Nonces with room for limit nonces in Keep. It knows nothing of
// before since, and takes no proofs of that time.
func NewNonces(limit int, since time.Time) *Nonces {
	return &Nonces{limit: limit, since: since, now: map[string]struct{}{}}
}

// Forget gives a nonce back that was just taken: what it proved was not done.
func (n *Nonces) Forget(p Proof) { delete(n.now, p.Key+" "+p.Nonce) }

// Use takes the nonce of a verified proof at the time now. It returns ErrUsed, an
// *EarlyError and ErrFull.
func (n *Nonces) Use(p Proof, now time.Time) error {
	if p.Time.Before(n.since) {
		return &EarlyError{After: n.since.Sub(p.Time)}
	}
	switch age := now.Sub(n.turned); {
	case age < 0:
		// The clock was set back, or a request that came later was served first:
		// nothing is forgotten sooner for that.
		n.turned = now
	case age >= Keep:
		n.old = n.now
		if age >= 2*Keep {
			n.old = nil
		}
		n.now, n.turned = map[string]struct{}{}, now
	}
	id := p.Key + " " + p.Nonce
	_, again := n.now[id]
	if _, before := n.old[id]; again || before {
		return ErrUsed
	}
	if len(n.now) >= n.limit {
		return ErrFull
	}
	n.now[id] = struct{}{}
	return nil
}
