package main

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
)

func (f *fakeCluster) RotateKey(context.Context, string) (api.Rotated, error) {
	f.set(func() { f.rotated = 1 })
	return api.Rotated{
		PublicKey: fakeMesh().PublicKey, NextPublicKey: "bmV3", At: fakeNow.Add(30 * time.Second), Until: fakeNow.Add(5 * time.Minute),
	}, nil
}
