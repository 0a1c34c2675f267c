package kept

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/worker/artefact"
)

// TestFind: a file is lost where no member has it, and surely so where all of them said it.
func TestFind(t *testing.T) {
	hosts := map[cluster.NodeID]*artefact.Store{}
	dial := func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
		a, ok := hosts[to]
		if !ok {
			return nil, errors.New("it is down")
		}
		near, far := net.Pipe()
		go a.Serve(ctx, "a", far)
		return near, nil
	}
	store := func() *artefact.Store {
		a, err := artefact.New(artefact.Options{Dir: t.TempDir(), Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	put := func(a *artefact.Store, text string) cluster.Hash {
		h, err := a.Put(strings.NewReader(text), 100)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	v := &coord.View{Self: "a"}
	s := &Stores{o: Options{Self: "a", View: func() *coord.View { return v }}, Artefacts: store()}
	members := func(all map[cluster.NodeID]cluster.Health) {
		v.Members = nil
		for n, h := range all {
			v.Members = append(v.Members, coord.MemberView{Member: cluster.Member{Node: n}, Health: h})
		}
	}
	hosts["b"], hosts["c"] = store(), store()
	here, there, nowhere := put(s.Artefacts, "here"), put(hosts["c"], "there"), cluster.Hash{7}
	all := []cluster.Hash{here, there, nowhere}
	for name, c := range map[string]struct {
		members map[cluster.NodeID]cluster.Health
		absent  []cluster.Hash
		sure    bool
	}{
		"all up":     {map[cluster.NodeID]cluster.Health{"a": cluster.Alive, "b": cluster.Alive, "c": cluster.Alive}, []cluster.Hash{nowhere}, true},
		"one left":   {map[cluster.NodeID]cluster.Health{"a": cluster.Alive, "b": cluster.Alive, "c": cluster.Left}, []cluster.Hash{there, nowhere}, true},
		"one dead":   {map[cluster.NodeID]cluster.Health{"a": cluster.Alive, "b": cluster.Alive, "c": cluster.Dead}, []cluster.Hash{there, nowhere}, false},
		"one silent": {map[cluster.NodeID]cluster.Health{"a": cluster.Alive, "c": cluster.Alive, "d": cluster.Suspect}, []cluster.Hash{nowhere}, false},
		"alone":      {map[cluster.NodeID]cluster.Health{"a": cluster.Alive}, []cluster.Hash{there, nowhere}, true},
	} {
		members(c.members)
		if absent, sure := s.Find(t.Context(), all); !slices.Equal(absent, c.absent) || sure != c.sure {
			t.Errorf("%s: %v, %t; want %v, %t", name, absent, sure, c.absent, c.sure)
		}
	}
	members(map[cluster.NodeID]cluster.Health{"a": cluster.Alive})
	if absent, sure := s.Find(t.Context(), []cluster.Hash{here}); absent != nil || !sure {
		t.Errorf("what is here: %v, %t", absent, sure)
	}
}
