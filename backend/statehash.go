package backend

import (
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
)

// hashedLog is a log whose fold can be hashed.
type hashedLog interface {
	View(func(*state.State))
	Digest() [16]byte
}

// stateHash hashes the fold; the result is kept for as long as the log's digest
// stays the same.
type stateHash struct {
	mu   sync.Mutex
	of   [16]byte // log digest that hash belongs to
	hash cluster.Hash
}

func (h *stateHash) now(log hashedLog) cluster.Hash {
	digest := log.Digest()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of != digest || h.hash.IsZero() {
		log.View(func(s *state.State) { h.hash = s.Hash() })
		h.of = digest
	}
	return h.hash
}
