package election

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/internal/loglimit"
	"github.com/skein-project/skein/lease"
)

// votes saves the vote record. While the newest is not on disk, this host must
// not hold and may say nothing that relies on it.
type votes struct {
	store     Store
	sign      *signer
	now, mono func() time.Duration
	took      prometheus.Histogram
	log       zerolog.Logger
	gate      *loglimit.Gate

	unsaved *lease.VoteRecord // that could not be saved, or not yet
	again   time.Duration
	pause   time.Duration
}

// save makes a vote durable; it reports whether it is.
func (s *votes) save(v lease.VoteRecord) bool {
	s.sign.config(&v.Config)
	start := s.mono()
	err := s.store.SaveVote(v)
	s.took.Observe((s.mono() - start).Seconds())
	if err == nil {
		s.unsaved = nil
		return true
	}
	s.unsaved = &v
	s.pause = min(max(2*s.pause, time.Second), 30*time.Second)
	s.again = s.now() + s.pause
	if s.gate.Pass("vote") {
		s.log.Error().Err(err).Uint64("term", uint64(v.PromisedTerm)).Msg("vote not saved")
	}
	return false
}
