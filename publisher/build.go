package publisher

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/publisher/descriptor"
)

// build makes the descriptors of all periods, checks each as a client would,
// and has the revisions on disk before anything is posted.
func (r *run) build(a Build) Built {
	begin := time.Now()
	revisions, texts, points, err := r.make(a)
	if err != nil {
		r.o.Log.Warn().Err(err).Msg("no descriptor")
		r.report(Report{Failed: err})
		return Built{Version: a.Version}
	}
	r.texts, r.version = texts, a.Version
	r.state.Version, r.state.Points, r.state.Size = a.Version, points, 0
	for _, variants := range texts {
		for _, t := range variants {
			r.state.Size = max(r.state.Size, len(t))
		}
	}
	r.o.Log.Debug().Uint64("version", a.Version).Int("bytes", r.state.Size).Dur("took", time.Since(begin)).Msg("descriptor built")
	return Built{Version: a.Version, Revisions: revisions}
}

func (r *run) make(a Build) (revisions []uint64, texts map[descriptor.Period][][]byte, points map[cluster.NodeID]int, err error) {
	candidates, header := r.roster.candidates()
	seed, err := r.entropy()
	if err != nil {
		return nil, nil, nil, err
	}
	texts, points = map[descriptor.Period][][]byte{}, map[cluster.NodeID]int{}
	floors := maps.Clone(r.floors)
	for i, period := range a.Periods {
		rev, err := r.o.Key.NextRevision(period, a.Term, time.Now(), a.Floors[i])
		if err != nil {
			return nil, nil, nil, fmt.Errorf("descriptor for %s: %w", period, err)
		}
		revisions = append(revisions, rev)
		floors[period] = rev
		dirs := len(r.core.targets[i].Store)
		for _, pick := range descriptor.Merge(candidates, descriptor.Wanted(candidates, dirs), seed) {
			text, err := r.one(period, rev, pick.Points, header)
			if err != nil {
				return nil, nil, nil, fmt.Errorf("descriptor for %s: %w", period, err)
			}
			texts[period] = append(texts[period], text)
			for _, n := range pick.Nodes {
				points[n]++
			}
		}
	}
	maps.DeleteFunc(floors, func(p descriptor.Period, _ uint64) bool { return p.Number+2 < a.Periods[0].Number })
	if err := r.o.Floors.Save(floors); err != nil {
		return nil, nil, nil, fmt.Errorf("keep revisions: %w", err)
	}
	r.floors = floors
	return revisions, texts, points, nil
}

// one builds and checks one descriptor.
func (r *run) one(period descriptor.Period, rev uint64, points []descriptor.Point, header []string) ([]byte, error) {
	entropy, err := r.entropy()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	b, err := descriptor.Build(descriptor.Params{
		Key: r.o.Key, Period: period, Revision: rev, Points: points, Header: header,
		Clients: r.o.Clients, Now: now, Entropy: entropy,
	})
	if err != nil {
		return nil, err
	}
	return b.Text, descriptor.Check(b.Text, descriptor.Expected{
		Address: r.address, Period: period, Revision: rev, Points: points, Client: b.Probe, Margin: checkMargin, Now: now,
	})
}

// textFor returns the text for a directory: where there are several, each
// directory has one of its own.
func (r *run) textFor(a Post) []byte {
	variants := r.texts[a.Period]
	if a.Version != r.version || len(variants) == 0 {
		return nil
	}
	for _, t := range r.core.targets {
		if t.Period == a.Period {
			return variants[max(slices.Index(t.Store, a.Dir), 0)%len(variants)]
		}
	}
	return nil
}
