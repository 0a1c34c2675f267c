package kept

import (
	"bytes"
	"context"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/words"
)

// Options of Stores. All must be set but Registerer.
type Options struct {
	Dir    string // the state directory
	Self   cluster.NodeID
	Limits config.Jobs
	View   func() *coord.View
	Log    interface{ View(func(*state.State)) }
	// Dial opens a stream of artefact.Proto, Peers lists who may have something, best first.
	Dial  func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	Peers func() []cluster.NodeID

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Stores are what a host keeps of jobs.
type Stores struct {
	o         Options
	Artefacts *artefact.Store // serves Outputs as well
	Outputs   *artefact.Store
	Words     *words.Ring
}

// Open opens them in the state directory.
func Open(o Options) (*Stores, error) {
	s := &Stores{o: o}
	rtt := func(n cluster.NodeID) time.Duration { m, _ := o.View().Member(n); return m.RTT }
	store := artefact.Options{Dial: o.Dial, RTT: rtt, Peers: func() []cluster.NodeID { return nearFirst(o.Peers(), Near(o.View())) }, Near: func() []cluster.NodeID { return Near(o.View()) }, Logger: o.Logger, Registerer: o.Registerer}
	var err error
	outputs := store
	outputs.Dir, outputs.Quota, outputs.Name = filepath.Join(o.Dir, "outputs"), o.Limits.OutputBytes, "output"
	if s.Outputs, err = artefact.New(outputs); err != nil {
		return nil, err
	}
	store.Dir, store.Quota, store.Beside = filepath.Join(o.Dir, "artefacts"), o.Limits.ArtefactBytes, s.Outputs
	if s.Artefacts, err = artefact.New(store); err != nil {
		return nil, err
	}
	s.Words, err = words.Open(words.Options{
		Dir: filepath.Join(o.Dir, "job-logs"), Bytes: o.Limits.LogBytes, Age: time.Duration(o.Limits.LogDays) * 24 * time.Hour, Logger: o.Logger,
	})
	return s, err
}

// KeepLog stores what a failed attempt said, to outlive this host.
func (s *Stores) KeepLog(text []byte) (cluster.Hash, error) {
	return s.Outputs.Put(bytes.NewReader(text), words.MaxShort)
}

// OutputRoom says whether there is room for what another chunk leaves.
func (s *Stores) OutputRoom() bool {
	used, quota := s.Outputs.Used()
	return quota-used >= min(job.MaxAttemptBytes, quota/4)
}

// Tend keeps the artefacts that open jobs and workflows need, so that they survive the
// loss of the hosts to which a module was uploaded. It ends with ctx.
func (s *Stores) Tend(ctx context.Context) error {
	return s.Artefacts.Tend(ctx, func() (need map[cluster.Hash]bool) {
		s.o.Log.View(func(st *state.State) { need = st.Artefacts() })
		return need
	}, func(cluster.Hash) bool { return false })
}

// TendOutputs keeps those of what jobs left that are for this host to keep. It ends with
// ctx.
func (s *Stores) TendOutputs(ctx context.Context) error {
	var drawn []artefact.Place
	var known map[cluster.Hash]bool
	own := map[cluster.Hash]bool{} // what was drawn among these, as there may be many
	asks := 0
	var saves map[cluster.Hash]bool // checkpoints, the time before
	return s.Outputs.Tend(ctx, func() (all map[cluster.Hash]bool) {
		now := map[cluster.Hash]bool(nil)
		s.o.Log.View(func(st *state.State) { all, now = st.Kept(), st.Checkpoints() })
		s.forget(saves, all)
		saves = now
		asks = maxAsks
		if places := s.places(); !slices.Equal(places, drawn) {
			drawn = places
			clear(own)
		}
		known = maps.Clone(all)
		maps.DeleteFunc(own, func(h cluster.Hash, _ bool) bool { return !all[h] })
		maps.DeleteFunc(all, func(h cluster.Hash, _ bool) bool {
			is, known := own[h]
			if !known {
				is = slices.Contains(artefact.Copies(h, drawn, s.o.Limits.OutputCopies), s.o.Self)
				own[h] = is
			}
			return !is
		})
		return all
	}, func(h cluster.Hash) bool {
		// What was made here stays while there is room: who is to have it may be away.
		// Beyond that it goes when they have it: one that is full may never.
		if !known[h] {
			return false
		}
		if used, quota := s.Outputs.Used(); used < quota/2 {
			return true
		}
		if asks--; asks < 0 {
			return true // the next time
		}
		return !s.Outputs.HeldBy(ctx, h, artefact.Copies(h, drawn, s.o.Limits.OutputCopies))
	})
}

// forget removes checkpoints that nobody needs any more: each chunk may leave many, and they
// are large.
func (s *Stores) forget(saves, needed map[cluster.Hash]bool) {
	for h := range saves {
		if !needed[h] {
			if err := s.Outputs.Remove(h); err != nil {
				s.o.Logger.Warn().Err(err).Str("artefact", h.String()).Msg("checkpoint not removed")
			}
		}
	}
}

// maxAsks is for how many files others are asked at a time whether they have them.
const maxAsks = 256

// places lists who may keep copies: all members that are not down.
func (s *Stores) places() []artefact.Place {
	var out []artefact.Place
	for _, m := range s.o.View().Members {
		if m.Health != cluster.Dead && m.Health != cluster.Left {
			out = append(out, artefact.Place{Node: m.Node, Zone: m.Zone})
		}
	}
	return out
}
