package forward

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestUsersAreSentWithTheirProof: what a user asks for is done here, or the answer says
// where; it never goes to another host by this host's word.
func TestUsersAreSentWithTheirProof(t *testing.T) {
	var sponsoring bool
	var answer error
	r, err := New(Options{
		Self: "n1", Lease: func() Lease { return Lease{Holder: "n1", Holding: true} },
		Dial: func(_ context.Context, to cluster.NodeID) (net.Conn, error) {
			t.Errorf("%s is asked", to)
			return nil, errors.New("no")
		},
		Sponsors: func() []cluster.NodeID { return []cluster.NodeID{"n2", "n3"} }, Sponsoring: func() bool { return sponsoring },
	})
	if err != nil {
		t.Fatal(err)
	}
	Handle(r, Drain, func(context.Context, Asker, api.DrainRequest) (api.Drain, error) { return api.Drain{}, nil })
	Handle(r, Remove, func(context.Context, Asker, RemoveNode) (Removed, error) { return Removed{By: "n1"}, answer })
	const olga = "user:olga@n1"
	drain := func(to cluster.NodeID) error {
		_, err := AskHost(t.Context(), r, Drain, to, olga, api.DrainRequest{})
		return err
	}
	remove := func(sponsor bool, err error) error {
		sponsoring, answer = sponsor, err
		_, err = AskSponsor(t.Context(), r, Remove, olga, RemoveNode{Node: "n4"})
		return err
	}
	no := api.Errorf(api.CodeConflict, "no")
	for name, c := range map[string]struct {
		err  error
		want []cluster.NodeID // nil: it was decided here
		ok   bool
	}{
		"this host":               {drain("n1"), nil, true},
		"another host":            {drain("n2"), []cluster.NodeID{"n2"}, false},
		"a sponsor":               {remove(true, nil), nil, true},
		"a sponsor that refuses":  {remove(true, no), nil, false},
		"a sponsor without a key": {remove(true, Lacking(no)), []cluster.NodeID{"n2", "n3"}, false},
		"a host that is none":     {remove(false, nil), []cluster.NodeID{"n2", "n3"}, false},
	} {
		away, elsewhere := errors.AsType[*api.Elsewhere](c.err)
		if (c.err == nil) != c.ok || elsewhere != (c.want != nil) || elsewhere && !slices.Equal(away.Hosts, c.want) {
			t.Errorf("%s: %v, %+v", name, c.err, away)
		}
	}
}
