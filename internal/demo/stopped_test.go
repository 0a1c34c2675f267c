package demo

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// TestStoppedIsNotLost: a host whose daemon was stopped in order is told from one that
// was killed, by hosts that did not hear it stop as well.
func TestStoppedIsNotLost(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	n1, n2, n3 := d.hosts[0], d.hosts[1], d.hosts[2]
	says := func(h *host, stopped bool) {
		t.Helper()
		eventually(ctx, t, 60*time.Second, fmt.Sprintf("%s tells that n3 stopped: %t", h.name, stopped), func() error {
			s, err := h.api.Status(ctx)
			m, err1 := h.api.Members(ctx)
			mesh, err2 := h.api.Mesh(ctx)
			if err := errors.Join(err, err1, err2); err != nil {
				return err
			}
			i := slices.IndexFunc(m.Members, func(m api.Member) bool { return m.Node == "n3" })
			p := slices.IndexFunc(mesh.Peers, func(p api.MeshPeer) bool { return p.Node == "n3" })
			if i < 0 || p < 0 {
				return errors.New("no n3")
			}
			gone := m.Members[i].State != cluster.Alive
			reason := "n3 suspect"
			if stopped {
				reason = "n3 stopped"
				gone = m.Members[i].State == cluster.Dead && s.Members.Dead == 1
			}
			if !gone || m.Members[i].Stopped != stopped || mesh.Peers[p].Stopped != stopped || (s.Members.Stopped == 1) != stopped || !slices.Contains(s.Reasons, reason) {
				return fmt.Errorf("%+v, %v, %+v, peer stopped %t", m.Members[i], s.Reasons, s.Members, mesh.Peers[p].Stopped)
			}
			return nil
		})
	}
	stop(ctx, t, n3)
	says(n1, true)
	says(n2, true)
	eventually(ctx, t, 20*time.Second, "the holder writes it down", func() error {
		for _, e := range eventsOf(ctx, t, n2, event.KindMemberHealth) {
			if b := body[event.MemberHealth](t, e); b.Node == "n3" && b.To == cluster.Dead && b.Stopped {
				return nil
			}
		}
		return errors.New("no such event")
	})
	restart(ctx, t, n2)
	says(n2, true) // though it did not hear it
	start1(t, n3)
	clusterIs(ctx, t, d.hosts, 3, 3)
	kill(t, n3)
	says(n1, false)
	says(n2, false)
}
