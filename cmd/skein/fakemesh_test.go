package main

import (
	"context"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func (f *fakeCluster) RotateKey(context.Context, string) (api.Rotated, error) {
	f.set(func() { f.rotated = 1 })
	return api.Rotated{
		PublicKey: fakeMesh().PublicKey, NextPublicKey: "bmV3", At: fakeNow.Add(30 * time.Second), Until: fakeNow.Add(5 * time.Minute),
	}, nil
}

func (f *fakeCluster) Knows(node cluster.NodeID) bool {
	m, err := f.Members(context.Background(), true)
	return err == nil && slices.ContainsFunc(m.Members, func(x api.Member) bool { return x.Node == node })
}

func (*fakeCluster) Links(context.Context, cluster.NodeID) (api.Links, error) {
	return api.Links{}, nil
}

func (*fakeCluster) Overload(context.Context) (api.Overload, error) {
	signal := func(name, unit string, value, from, score float64) api.OverloadSignal {
		return api.OverloadSignal{Signal: name, Value: &value, From: from, Unit: unit, Score: score}
	}
	return api.Overload{
		Level: "high", Score: 4.5, Signal: "work delay", Enabled: true,
		Signals: []api.OverloadSignal{
			signal("work delay", "seconds", 0.12, 0.05, 4.5), signal("control delay", "seconds", 0.001, 0.02, 0.1), signal("cpu", "share", 0.31, 0.6, 1),
			{Signal: "io", From: 0.4, Unit: "share"},
			signal("memory left", "share", 0.45, 0.1, 0.4), signal("local health", "points", 1, 2, 1),
		},
		Lanes: []api.OverloadLane{
			{Lane: "control", Places: 16, Running: 1},
			{Lane: "submit", From: "severe", Places: 42, Running: 42, Waiting: 7, RefusedByPlaces: 812},
			{Lane: "list", From: "high", Refuses: true, Places: 20, RefusedByLevel: 1204},
		},
		Silent: []api.SilentHost{{Node: "n3", Kind: "blob", WaitSeconds: 7}, {Node: "n3", Kind: "forward", Trying: true}},
		Hosts:  []api.LoadedHost{{Node: "n1", Level: "severe"}, {Node: "n2", Level: "high"}},
	}, nil
}
