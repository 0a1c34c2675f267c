package backend

import (
	"context"
	"os"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/groupsync"
	"github.com/skein-project/skein/backend/onions"
	"github.com/skein-project/skein/backend/waits"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/doctor"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/durable"
)

// recordsCoord shows the membership records.
type recordsCoord interface {
	View() *coord.View
	Records(ctx context.Context) (member.Records, error)
}

// doctorLog is what the doctor judges of the event log.
type doctorLog interface {
	Forks() []wire.Fork
	Snapshots() snapshots.Status
	Ahead() []stamps.Chain
	View(func(*state.State))
}

// diagnosis gathers the facts that the doctor judges, and shows the configuration.
type diagnosis struct {
	fixed    config.Fixed
	live     func() config.Live
	running  func() []config.Entry
	identity *join.Identity
	about    about
	device   Device
	coord    recordsCoord
	log      doctorLog
	checks   *logChecks
	onion    onions.Host // nil, as is tor: it is off
	tor      onions.Tor
	waits    *waits.Waits
	groups   *groupsync.Sync
}

// Doctor implements status.ClusterReader.
func (d *diagnosis) Doctor(ctx context.Context) (api.Doctor, error) {
	host := doctor.Host{Config: d.fixed, NamesFile: d.live().NamesFile, Networks: doctor.Networks(d.identity), Cluster: d.identity.Cluster.String(), Backend: d.device.Backend()}
	f := doctor.Cluster{
		View: d.coord.View(), Wall: time.Now(), Peers: d.device.Observe(), MTU: d.device.MTU(),
		Timing: d.about.timing, Profile: d.fixed.Lease.Profile, Tolerance: d.live().Tolerance,
		Daemon: doctor.Daemon{Version: d.about.version, Uptime: time.Since(d.about.started)},
	}
	if d.onion != nil {
		f.Onion = doctor.Onion{Enabled: true, Tor: d.tor.Status(), Status: d.onion.Status()}
	}
	_, err := os.Stat(durable.RootKey.Path(d.fixed.StateDir))
	f.RootKey = err == nil
	records, err := d.coord.Records(ctx)
	if err != nil {
		return api.Doctor{}, err
	}
	f.Evidence, f.LogCheck, f.Overload = records.Evidence, d.checks.ended(), d.about.load.Overload()
	f.Chains = doctor.Chains{Forks: d.log.Forks(), Ahead: d.log.Ahead()}
	f.Snapshots = doctor.Snapshots{Status: d.log.Snapshots(), Every: d.fixed.EventLog.SnapshotEvents}
	f.Starved = d.starved(ctx)
	for _, h := range d.groups.Waiting() {
		f.Groups = append(f.Groups, doctor.WaitingGroup{Name: h.Group, Left: len(h.Members), From: h.From})
	}
	return api.Doctor{Findings: doctor.Examine(ctx, host, f)}, nil
}

// starved lists the jobs that no worker may run, or that wait for long, as the holder says, else as the log
// says.
func (d *diagnosis) starved(ctx context.Context) (out []doctor.StarvedJob) {
	if list, ok := d.waits.Troubled(ctx); ok {
		for _, w := range list {
			out = append(out, doctor.StarvedJob{ID: w.Job, Why: w.Waits, Hint: w.Why.Hint})
		}
		return out
	}
	d.log.View(func(s *state.State) {
		for _, j := range s.Jobs() {
			if j.State == job.Queued && j.Queued != "" {
				out = append(out, doctor.StarvedJob{ID: j.ID, Why: j.Queued})
			}
		}
	})
	return out
}

// Config implements status.ClusterReader.
func (d *diagnosis) Config(context.Context) (api.Config, error) {
	out := api.Config{Entries: []api.ConfigEntry{}}
	for _, e := range d.running() {
		out.Entries = append(out.Entries, api.ConfigEntry{Key: e.Key, Value: e.Value, Origin: string(e.Origin), Reload: api.ReloadOf(e.Live)})
	}
	return out, nil
}
