package backend

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward/linkwatch"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/topo"
)

// Device is the mesh of this host.
type Device interface {
	Backend() string
	Interface() string
	MTU() int
	Key() topo.Key
	Observe() []mesh.PeerStatus
}

// meshes shows the mesh device and its peers.
type meshes struct {
	self    cluster.NodeID
	listen  string // on the underlay
	autoMTU func() bool
	device  Device
	view    func() *coord.View
	own     Own
	links   *linkwatch.Hub
}

// Links implements status.ClusterReader.
func (m *meshes) Links(ctx context.Context, of cluster.NodeID) (api.Links, error) {
	return m.links.Links(ctx, of)
}

func (m *meshes) summary(v *coord.View) api.MeshSummary {
	sum := api.MeshSummary{
		Backend: m.device.Backend(), Interface: m.device.Interface(), Listen: m.listen,
	}
	if self, ok := v.Member(m.self); ok {
		sum.Address, sum.Address6 = convert.AddrText(self.IP4), convert.AddrText(self.IP6)
	}
	oldest, all := 0.0, true
	for _, p := range m.device.Observe() {
		sum.PeerCount++
		if p.LastHandshake.IsZero() {
			all = false
			continue
		}
		oldest = max(oldest, time.Since(p.LastHandshake).Seconds())
	}
	if all && sum.PeerCount > 0 {
		sum.OldestHandshakeSeconds = &oldest
	}
	return sum
}

// Mesh implements status.ClusterReader.
func (m *meshes) Mesh(context.Context) (api.Mesh, error) {
	v := m.view()
	out := api.Mesh{
		MeshSummary: m.summary(v), MTU: m.device.MTU(), MTUAuto: m.autoMTU(),
		PublicKey: keyText(m.device.Key()), NAT: v.NAT, RotateError: m.own.RotateError(), Peers: []api.MeshPeer{},
	}
	if v.PublicEndpoint.IsValid() {
		out.PublicEndpoint = v.PublicEndpoint.String()
	}
	if self, ok := v.Member(m.self); ok && self.NextAt != 0 {
		out.NextPublicKey, out.NextAt = base64.StdEncoding.EncodeToString(self.NextWG), new(time.Unix(self.NextAt, 0).UTC())
	}
	for _, p := range m.device.Observe() {
		out.Peers = append(out.Peers, meshPeer(v, p))
	}
	return out, nil
}

func meshPeer(v *coord.View, p mesh.PeerStatus) api.MeshPeer {
	silent := false
	mp := api.MeshPeer{
		Node: p.Node, PublicKey: keyText(p.Key), NextPublicKey: keyText(p.Next), State: api.PeerConnecting,
		Candidates: convert.EndpointTexts(p.Candidates), ReceivedBytes: p.Rx, SentBytes: p.Tx, KeepaliveSeconds: p.Keepalive.Seconds(),
	}
	if p.Reachable {
		mp.Path = "direct"
	}
	if m, ok := v.Member(p.Node); ok {
		if m.Path != "" {
			mp.Path = m.Path
		}
		if m.PathSince > 0 {
			mp.PathSeconds = new((v.At - m.PathSince).Seconds())
		}
		mp.Onion, mp.Stopped = m.Onion, m.Stopped
		mp.Addr, mp.Addr6 = convert.AddrText(m.IP4), convert.AddrText(m.IP6)
		silent = m.Health == cluster.Suspect || m.Health == cluster.Dead
		if m.RTT > 0 && !silent {
			mp.RTTSeconds = new(m.RTT.Seconds())
		}
		if m.PathMTU > 0 {
			mp.MTU = new(m.PathMTU)
		}
	}
	if p.Endpoint.IsValid() {
		mp.Endpoint = p.Endpoint.String()
	}
	if !p.LastHandshake.IsZero() {
		mp.HandshakeSeconds = new(time.Since(p.LastHandshake).Seconds())
		mp.State = api.PeerDown
	}
	if p.Reachable {
		mp.State = api.PeerUp
		if silent {
			mp.State = api.PeerSilent // a session outlives its host by up to three minutes
		}
	}
	return mp
}

// keyText is the usual form of a WireGuard key, empty for none.
func keyText(k topo.Key) string {
	if k.IsZero() {
		return ""
	}
	return base64.StdEncoding.EncodeToString(k[:])
}
