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
