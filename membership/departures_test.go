package membership

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/lease"
)

// fakeLease is held by n1. It takes a voter out a second after it was asked to.
type fakeLease struct {
	dead   []cluster.NodeID
	stuck  bool // no voter is ever taken out
	voters []cluster.NodeID
	left   cluster.NodeID
	since  time.Time
	given  bool // the lease was handed over
}

func (l *fakeLease) View() *coord.View {
	if l.left != "" && !l.stuck && time.Since(l.since) >= time.Second {
		l.voters = slices.DeleteFunc(slices.Clone(l.voters), func(id cluster.NodeID) bool { return id == l.left })
	}
	v := &coord.View{Self: "n1", Lease: lease.Status{
		Role: cluster.RoleHolder, Config: cluster.VoterConfig{Epoch: 1, Voters: l.voters, Mode: cluster.ModeQuorum},
	}}
	for _, id := range []cluster.NodeID{"n1", "n2", "n3", "n4"} {
		m := coord.MemberView{Member: cluster.Member{Node: id}, Health: cluster.Alive}
		if slices.Contains(l.dead, id) {
			m.Health = cluster.Dead
		}
		v.Members = append(v.Members, m)
	}
	return v
}

func (l *fakeLease) StepDown(context.Context, cluster.NodeID, string, bool) error {
	l.given = true
	return nil
}

func (l *fakeLease) Depart(_ context.Context, node cluster.NodeID, _ time.Duration) error {
	l.left, l.since = node, time.Now()
	return nil
}

// TestDepartures takes a voter out where a majority of the others is alive,
// waits until they agree, and hands over first if the holder itself goes.
func TestDepartures(t *testing.T) {
	voters := []cluster.NodeID{"n1", "n2", "n3"}
	for name, c := range map[string]struct {
		lease fakeLease
		node  cluster.NodeID
		code  api.Code // empty: it departs
		takes time.Duration
		given bool
	}{
		"a voter":            {lease: fakeLease{voters: voters}, node: "n3", takes: time.Second},
		"no voter":           {lease: fakeLease{voters: voters}, node: "n4"},
		"the holder":         {lease: fakeLease{voters: voters}, node: "n1", code: api.CodeNoHolder, given: true},
		"the only voter":     {lease: fakeLease{voters: voters[:1]}, node: "n1", code: api.CodeNotReady},
		"no majority left":   {lease: fakeLease{voters: voters, dead: []cluster.NodeID{"n2"}}, node: "n3", code: api.CodeConflict},
		"a dead voter":       {lease: fakeLease{voters: voters, dead: []cluster.NodeID{"n3"}}, node: "n3", takes: time.Second},
		"nobody ever agrees": {lease: fakeLease{voters: voters, stuck: true}, node: "n3", code: api.CodeTimeout, takes: departTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				_, err := NewDepartures("n1", &c.lease).Depart(t.Context(), forward.Asker{From: c.node, Self: "n1"}, forward.DepartNode{Node: c.node})
				if c.code == "" && err != nil || c.code != "" && !api.IsCode(err, c.code) {
					t.Errorf("%v, want %q", err, c.code)
				}
				if took := time.Since(began); took != c.takes {
					t.Errorf("took %s, want %s", took, c.takes)
				}
				if c.lease.given != c.given {
					t.Errorf("lease handed over: %t", c.lease.given)
				}
			})
		})
	}
}
