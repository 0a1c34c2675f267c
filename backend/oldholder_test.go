package backend

import (
	"context"
	"net"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/forward"
)

// TestOldHolder: a holder from before knows no groups of workers; they are made of its
// list here.
func TestOldHolder(t *testing.T) {
	lease := func(holding bool) func() forward.Lease {
		return func() forward.Lease { return forward.Lease{Holder: "n1", Holding: holding} }
	}
	old, err := forward.New(forward.Options{Self: "n1", Lease: lease(true)})
	if err != nil {
		t.Fatal(err)
	}
	forward.Handle(old, forward.Workers, func(context.Context, forward.Asker, forward.None) (api.Workers, error) {
		return api.Workers{Workers: []api.Worker{{Node: "n1"}, {Node: cluster.OutsideID(make([]byte, 32)), Via: "n2"}, {Node: cluster.OutsideID([]byte{1}), Via: "n2"}}}, nil
	})
	here, err := forward.New(forward.Options{Self: "n2", Lease: lease(false), Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
		near, far := net.Pipe()
		go old.Serve(t.Context(), "n2", far)
		return near, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := workerGroups(t.Context(), here)
	if err != nil || len(out.Workers) != 2 || out.Workers[0].Node != "n1" || out.Workers[1].Node != "outside@n2" || out.Workers[1].Workers != 2 {
		t.Errorf("%+v, %v", out.Workers, err)
	}
}
