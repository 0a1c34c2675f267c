package daemon

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/coord/join"
)

// Doctor implements status.ClusterReader.
func (b backend) Doctor(ctx context.Context) (api.Doctor, error) {
	host := hostFacts{cfg: b.cfg, networks: networksOf(b.id), backend: b.mesh.Backend()}
	f := clusterFacts{
		view: b.coord.View(), wall: time.Now(), peers: b.mesh.Observe(), mtu: b.mesh.MTU(),
		timing: b.timing, profile: b.cfg.Lease.Profile, tolerance: b.cfg.Clock.Tolerance, version: b.version,
		uptime: time.Since(b.started),
	}
	root, err := join.RootKey(b.cfg.StateDir)
	if err != nil {
		return api.Doctor{}, err
	}
	f.rootKey = root != nil
	clear(root)
	records, err := b.coord.Records(ctx)
	if err != nil {
		return api.Doctor{}, err
	}
	f.evidence, f.logCheck = records.Evidence, b.checks.ended()
	f.forks = b.events.Forks()
	f.snapshots, f.snapshotEvery = b.events.Snapshots(), b.cfg.EventLog.SnapshotEvents
	return api.Doctor{Findings: examine(ctx, append(hostChecks(host), clusterChecks(f, checkKernelClock)...))}, nil
}
