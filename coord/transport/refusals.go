package transport

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
)

// Reasons of refusal that this package adds to those of wire.
const (
	ReasonQueue     wire.Reason = "queue"     // accepted, but its reader was too far behind
	ReasonDuplicate wire.Reason = "duplicate" // of a second process with the sender's identity
)

// refusals counts refused messages by reason, for metrics and for people.
type refusals struct {
	total *prometheus.CounterVec
	log   zerolog.Logger
	gate  *loglimit.Gate

	mu sync.Mutex
	n  map[wire.Reason]uint64 // guarded by mu
}

func (r *refusals) count(reason wire.Reason) {
	r.total.WithLabelValues(string(reason)).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n[reason]++
}

func (r *refusals) snapshot() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]uint64, len(r.n))
	for k, v := range r.n {
		out[string(k)] = v
	}
	return out
}

// reject counts and logs a refusal of a member's message that only its reader
// could decide.
func (r *refusals) reject(node cluster.NodeID, err error) {
	reason := wire.ReasonOf(err)
	r.count(reason)
	if r.gate.Pass("reject/" + string(reason) + "/" + string(node)) {
		r.log.Warn().Err(err).Str("peer", string(node)).Msg("message refused")
	}
}
