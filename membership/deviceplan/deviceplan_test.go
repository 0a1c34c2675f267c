package deviceplan

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/topo"
)

// fakeDevice counts what is set.
type fakeDevice struct {
	sets int
	want topo.Desired
	err  error
}

func (d *fakeDevice) Set(_ context.Context, want topo.Desired) error {
	d.sets, d.want = d.sets+1, want
	return d.err
}

func (d *fakeDevice) Key() topo.Key                                { return topo.Key{1} }
func (d *fakeDevice) MTU() int                                     { return d.want.MTU }
func (d *fakeDevice) Interface() string                            { return "" }
func (d *fakeDevice) Endpoints() map[cluster.NodeID]netip.AddrPort { return nil }
func (d *fakeDevice) Observe() []mesh.PeerStatus                   { return nil }

// fakeMembers is a membership that tests change.
type fakeMembers []cluster.Member

func (m *fakeMembers) Members() []cluster.Member { return *m }

func (m *fakeMembers) Member(id cluster.NodeID) (cluster.Member, bool) {
	for _, x := range *m {
		if x.Node == id {
			return x, true
		}
	}
	return cluster.Member{}, false
}

// TestPlanner sets the device when the plan changes and only then, again after
// it refused, and leaves it alone once this host is no member.
func TestPlanner(t *testing.T) {
	host := func(n byte) cluster.Member {
		return cluster.Member{
			Node: cluster.NodeID([]byte{'n', '0' + n}), IP4: netip.AddrFrom4([4]byte{10, 86, 0, n}), WGPub: append([]byte{n}, make([]byte, 31)...),
		}
	}
	dev, members := &fakeDevice{}, &fakeMembers{host(1)}
	settings := Settings{MTU: 1420, ProbeMTU: true, NamesFile: "/names"}
	var names int
	var notes []event.Kind
	p := New(Options{
		Self: "n1", ClusterName: "lab", StateDir: t.TempDir(), Port: 51820, Device: dev, Members: members,
		Settings:   func() Settings { return settings },
		Observed:   func() map[cluster.NodeID][]netip.AddrPort { return nil },
		WriteNames: func(string, string, []cluster.Member) error { names++; return nil },
		Note:       func(k event.Kind, _ any) { notes = append(notes, k) }, Logger: zerolog.Nop(),
	})
	step := func(what string, apply func(context.Context) error, sets, peers int) {
		t.Helper()
		if err := apply(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if dev.sets != sets || len(dev.want.Peers) != peers {
			t.Errorf("%s: set %d times, want %d; %d peers, want %d", what, dev.sets, sets, len(dev.want.Peers), peers)
		}
	}
	step("first", p.Apply, 1, 0)
	step("unchanged", p.apply, 1, 0)
	*members = append(*members, host(2))
	step("a host joined", p.apply, 2, 1)
	if p.drops() {
		t.Error("nobody is gone")
	}
	p.Blackhole("n2", 1420, 1280)
	step("a black hole", p.apply, 3, 1)
	if dev.want.MTU != 1280 || p.ProbeMTU() != 1280 || len(notes) != 1 || notes[0] != event.KindMTUBlackhole {
		t.Errorf("packets of %d bytes, probes of %d, events %v", dev.want.MTU, p.ProbeMTU(), notes)
	}
	settings.ProbeMTU, settings.MTU = false, 1300
	step("the limit holds", p.apply, 3, 1)
	if p.ProbeMTU() != 0 {
		t.Error("probes although they are off")
	}

	dev.err = errors.New("told to fail")
	*members = append(*members, host(3))
	if err := p.apply(t.Context()); !errors.Is(err, dev.err) {
		t.Errorf("refused: %v", err)
	}
	dev.err = nil
	step("the same plan again", p.apply, 5, 2)
	all := *members
	if *members = all[:2]; !p.drops() {
		t.Error("one is gone, its peer is not")
	}
	*members = all[1:]
	step("removed", p.apply, 5, 2)
	if names != 8 {
		t.Errorf("names written %d times", names)
	}
}
