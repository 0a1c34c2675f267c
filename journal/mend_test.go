package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
)

// damaged is a log of which chains are missing; have says who can give which.
type damaged struct {
	left  []audit.Repairing
	have  map[cluster.NodeID]cluster.NodeID // by whose chain it is
	asked []cluster.NodeID
}

func (d *damaged) Repairing() []audit.Repairing         { return d.left }
func (d *damaged) Missing(r audit.Repairing) bool       { return r.Known > r.Kept }
func (d *damaged) Head(s event.SourceID) (h event.Head) { return event.Head{Source: s} }

func (d *damaged) Mend(_ context.Context, peer cluster.NodeID) ([]audit.Repairing, error) {
	d.asked = append(d.asked, peer)
	before := len(d.left)
	d.left = slices.DeleteFunc(slices.Clone(d.left), func(r audit.Repairing) bool { return d.have[r.Source.Node] == peer })
	if len(d.left) == before {
		return d.left, errors.New("nothing new")
	}
	return d.left, nil
}

// TestMender: who is known to have what is missing is asked first, and all in turn until it
// is there. A host that lacks what it acknowledged does not vote, unless it is alone.
func TestMender(t *testing.T) {
	chain := func(of, peer cluster.NodeID, known uint64) audit.Repairing {
		return audit.Repairing{Source: event.SourceID{Node: of, Inc: 1}, Peer: peer, Known: known}
	}
	voters := []cluster.NodeID{"n1", "n2", "n3"}
	for name, c := range map[string]struct {
		left   []audit.Repairing
		have   map[cluster.NodeID]cluster.NodeID
		voters []cluster.NodeID
		peers  []cluster.NodeID
		asked  []cluster.NodeID
		lost   int
	}{
		"nothing is missing": {voters: voters, peers: []cluster.NodeID{"n2"}},
		"one host has each": {
			left: []audit.Repairing{chain("n1", "n3", 5), chain("n4", "", 0)}, have: map[cluster.NodeID]cluster.NodeID{"n1": "n3", "n4": "n2"},
			voters: voters, peers: []cluster.NodeID{"n2", "n3"}, asked: []cluster.NodeID{"n3", "n2"}, lost: 1,
		},
		"what was lost had not been acknowledged": {
			left: []audit.Repairing{chain("n1", "", 0)}, have: map[cluster.NodeID]cluster.NodeID{"n1": "n2"},
			voters: voters, peers: []cluster.NodeID{"n2", "n3"}, asked: []cluster.NodeID{"n2"},
		},
		"the only voter, and nobody to ask": {
			left: []audit.Repairing{chain("n1", "", 5)}, have: map[cluster.NodeID]cluster.NodeID{"n1": "n1"},
			voters: voters[:1], asked: []cluster.NodeID{"n1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, lost := &damaged{left: c.left, have: c.have}, 0
				m := NewMender(MenderOptions{
					Self: "n1", Log: log, Voters: func() cluster.VoterConfig { return cluster.VoterConfig{Voters: c.voters} },
					Peers: func() []cluster.NodeID { return slices.Clone(c.peers) }, VoteLost: func(string) { lost++ }, Logger: zerolog.Nop(),
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*mendEvery)
				defer cancel()
				if err := m.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				if got, want := fmt.Sprint(log.asked, len(log.left), lost), fmt.Sprint(c.asked, 0, c.lost); got != want {
					t.Errorf("asked, left, votes given up: %s, want %s", got, want)
				}
			})
		})
	}
}
