package membership

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// log is a journal and a coordination service that write down what they are told.
type log struct {
	SponsorCoord
	Journal
	did  []string
	fail error
}

func (l *log) AddRecords(context.Context, member.Records) error {
	l.did = append(l.did, "member")
	return nil
}

func (l *log) Append(_ context.Context, kind event.Kind, _ any) (uint64, error) {
	l.did = append(l.did, string(kind))
	return 1, nil
}

func (l *log) setOwner(_ context.Context, actor string, set event.HostOwnerSet) error {
	l.did = append(l.did, fmt.Sprintf("%s says %s is %s's", actor, set.Node, set.Owner))
	return l.fail
}

// TestAdmitWithOwner: the holder hears whose a host is before it is a member, once; if
// it does not, the host is not admitted.
func TestAdmitWithOwner(t *testing.T) {
	a := join.Admission{Member: cluster.Member{Node: "n4"}, Invite: "abc", Owner: "user:ann"}
	owned := "invite:abc says n4 is user:ann's"
	for _, c := range []struct {
		name         string
		owner        string
		again, fails bool
		want         []string
	}{
		{"owned", "user:ann", false, false, []string{owned, "member", "member_joined"}},
		{"again", "user:ann", true, false, []string{"member"}},
		{"no holder", "user:ann", false, true, []string{owned}},
		{"nobody's", "", false, false, []string{"member", "member_joined"}},
	} {
		l := &log{}
		if c.fails {
			l.fail = errors.New("no holder")
		}
		a.Owner, a.Again = c.owner, c.again
		err := NewSponsor(SponsorOptions{Coord: l, Journal: l, SetOwner: l.setOwner}).admit(t.Context(), a)
		if !slices.Equal(l.did, c.want) || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v, want %q", c.name, l.did, err, c.want)
		}
	}
}

// TestOpenJoinsClosesListeners: a join server that cannot be made leaves no
// listener open, neither its own nor that of the onion service.
func TestOpenJoinsClosesListeners(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "n1")
	if err := join.Init(dir, join.InitOptions{Node: "n1", ClusterName: "lab", Network: netip.MustParsePrefix("10.86.0.0/16")}); err != nil {
		t.Fatal(err)
	}
	id, _, err := join.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	invites, err := join.OpenInvites(dir)
	if err != nil {
		t.Fatal(err)
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "skein_join_connections_refused_total", Help: "Another."}))
	var lc net.ListenConfig
	onion, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSponsor(SponsorOptions{
		Identity: id, StateDir: dir, Listen: netip.MustParseAddrPort("127.0.0.1:0"), Registerer: taken,
		OnionListener: func(context.Context) (net.Listener, error) { return onion, nil },
	})
	if _, err := s.openJoins(t.Context(), new(join.Sponsor), invites); err == nil {
		t.Fatal("a join server with metrics that are taken")
	}
	if err := onion.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("close the onion service's listener: %v, want it closed already", err)
	}
}
