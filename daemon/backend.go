package daemon

import (
	"github.com/skein-project/skein/backend"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/membership"
	"github.com/skein-project/skein/offline"
)

// newBackend makes what answers the status socket.
func (d *daemon) newBackend(h *history, w *work, m *members, o onions, router *forward.Router) *backend.Backend {
	id := d.id
	about := func() (join.About, error) { return d.about(id) }
	addrs := membership.JoinAddrs{Listen: d.cfg.Join.Listen, About: about, Onion: o.tor.JoinAddress, View: h.View}
	bo := backend.Options{
		Identity: id.Identity, ClusterName: id.clusterName(), Version: d.o.Version, Started: d.started, Timing: d.timing, Now: sysclock.Boot,
		Config: d.cfg, Live: d.conf, Running: d.running, Stopping: d.stopping.Load,
		Log: h.Log, Coord: h.peers.svc, Mesh: d.device.Mesh, Roster: id.roster, Worker: w.worker, Scheduler: w.sched,
		Artefacts: w.Artefacts, Words: w.Words, Outputs: w.Outputs, Slices: w.slices, Compiler: w.wasm, Recorder: h.journal, Forward: router,
		Load: w.relief, Own: m.own, Sponsor: m.sponsor, JoinAddrs: addrs.List, Logger: d.log, Metrics: d.reg, Warnings: d.last.Text,
		Events: offline.RecentEvents(h.Log, id.Identity, h.peers.svc.Records),
	}
	if o.host != nil {
		bo.Onion, bo.Tor = o.host, o.tor
	}
	return backend.New(bo)
}
