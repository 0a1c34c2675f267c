package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

func (f *fakeCluster) Directory() *access.Directory {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []access.User
	for name := range f.users {
		list = append(list, access.User{Name: name})
	}
	return access.NewDirectory(list)
}

func (f *fakeCluster) Users(context.Context) (api.Users, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := api.Users{}
	for _, name := range slices.Sorted(maps.Keys(f.users)) {
		out.Users = append(out.Users, f.users[name])
	}
	return out, nil
}

func (f *fakeCluster) SetUser(_ context.Context, actor string, set event.UserSet) (api.UserSet, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := api.User{Name: set.Name, Role: set.Role, UIDs: set.UIDs, Disabled: set.Disabled, Actor: actor, At: fakeNow}
	for _, k := range set.Keys {
		u.Keys, u.KeyIDs = append(u.Keys, access.FormatPublicKey(k)), append(u.KeyIDs, access.KeyID(k))
	}
	if f.users == nil {
		f.users = map[string]api.User{}
	}
	f.users[set.Name] = u
	return api.UserSet{User: u}, nil
}

func (f *fakeCluster) SetOwner(_ context.Context, _ string, set event.HostOwnerSet) (api.OwnerSet, error) {
	return api.OwnerSet{Node: set.Node, Owner: set.Owner}, nil
}

func (f *fakeCluster) Holder() cluster.NodeID { return "n1" }

func (f *fakeCluster) Carry(context.Context, cluster.NodeID, api.Carried) (api.Answered, error) {
	return api.Answered{}, nil
}

// Replay and Density are not asked by any command: `log replay` reads the state
// directory.
func (f *fakeCluster) Replay(context.Context, api.ReplayAt) (api.LogReplay, error) {
	return api.LogReplay{}, nil
}

func (f *fakeCluster) Density(context.Context, time.Time, time.Time, int) (api.LogDensity, error) {
	return api.LogDensity{}, nil
}

// Proof is not asked by any command: `log verify` checks the whole log.
func (f *fakeCluster) Proof(context.Context, event.SourceID, uint64) (api.EventProof, error) {
	return api.EventProof{}, nil
}

func (f *fakeCluster) Debug(_ context.Context, _ string, node cluster.NodeID, _ api.DebugAsk) (api.DebugFiles, error) {
	if f.private.Load() {
		return api.DebugFiles{}, api.Errorf(api.CodeForbidden, "only administrators")
	}
	if node == "n3" {
		return api.DebugFiles{}, api.Errorf(api.CodeNotReady, "n3 not reached: no route")
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte("{}"))
	_ = w.Close()
	return api.DebugFiles{Host: node, Version: "v9.9.9", Files: []api.DebugFile{
		{Name: "status.json", Size: 2, Gzip: b.Bytes()}, {Name: "../evil.json", Gzip: b.Bytes()}, {Name: "doctor.json", Error: "no answer"},
	}}, nil
}
