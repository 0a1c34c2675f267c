package spread

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
)

// most bounds how long the voters are asked.
const most = 15 * time.Second

// Artefacts are those of this host.
type Artefacts interface {
	Put(r io.Reader, limit int64) (cluster.Hash, error)
	Spread(ctx context.Context, h cluster.Hash, to []cluster.NodeID) []cluster.NodeID
}

// Spreader puts artefacts on the disks of voters. Its methods may be called from any
// goroutine.
type Spreader struct {
	self      cluster.NodeID
	view      func() *coord.View
	artefacts Artefacts
}

// New returns a Spreader of the artefacts of self.
func New(self cluster.NodeID, view func() *coord.View, artefacts Artefacts) *Spreader {
	return &Spreader{self: self, view: view, artefacts: artefacts}
}

// Keep stores a config document on this host and on the disks of enough voters.
func (s *Spreader) Keep(ctx context.Context, doc []byte) (cluster.Hash, error) {
	h, err := s.artefacts.Put(bytes.NewReader(doc), job.MaxConfigBytes)
	if err != nil {
		return h, err
	}
	return h, s.To(ctx, []cluster.Hash{h})
}

// To copies artefacts to other voters until a majority has them, or in available mode all
// that are up; the others fetch what they need.
func (s *Spreader) To(ctx context.Context, hashes []cluster.Hash) error {
	view := s.view()
	cfg := view.Lease.Config
	voters, need := cfg.Voters, cfg.Majority()
	if cfg.Mode == cluster.ModeAvailable {
		voters = view.NotDown(voters)
		need = len(voters)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for _, h := range hashes {
		have := s.one(ctx, voters, need, h)
		if cfg.Mode == cluster.ModeQuorum && have < need {
			return api.Errorf(api.CodeNotStable, "artefact %s is on %d of %d voters, want %d", h, have, len(voters), need).
				WithHint("retry with the same key, or submit with --wait=local")
		}
	}
	return nil
}

// one asks all other voters at once and returns how many have h as soon as need of them
// do.
func (s *Spreader) one(ctx context.Context, voters []cluster.NodeID, need int, h cluster.Hash) int {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan int, len(voters)) // one slot each: never full
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	have := 0
	for _, v := range voters {
		if v == s.self {
			have++
			answers <- 0
			continue
		}
		asking.Go(func() { answers <- len(s.artefacts.Spread(ctx, h, []cluster.NodeID{v})) })
	}
	for range voters {
		if have >= need {
			break
		}
		have += <-answers
	}
	return have
}
