package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/onions"
	"github.com/skein-project/skein/backend/published"
	"github.com/skein-project/skein/backend/spread"
	"github.com/skein-project/skein/backend/trial"
	"github.com/skein-project/skein/backend/workflows"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	coordwire "github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/topo"
	"github.com/skein-project/skein/onion"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/runs"
	"github.com/skein-project/skein/worker"
	"github.com/skein-project/skein/worker/artefact"
)

// fakeLog is an event log of which only the fold is filled.
type fakeLog struct {
	state *state.State
	disk  disk.Report
	ahead []stamps.Chain
}

func (l *fakeLog) View(f func(*state.State))      { f(l.state) }
func (l *fakeLog) Changed() <-chan struct{}       { return make(chan struct{}) }
func (l *fakeLog) Heads() []event.Head            { return nil }
func (l *fakeLog) Head(event.SourceID) event.Head { return event.Head{} }
func (l *fakeLog) Size() int64                    { return 4096 }
func (l *fakeLog) Digest() [16]byte               { return [16]byte{1} }
func (l *fakeLog) Disk() disk.Report              { return l.disk }
func (l *fakeLog) Err() error                     { return nil }
func (l *fakeLog) Forks() []wire.Fork             { return nil }
func (l *fakeLog) Snapshots() snapshots.Status    { return snapshots.Status{} }
func (l *fakeLog) Repairing() []audit.Repairing   { return nil }
func (l *fakeLog) Missing(audit.Repairing) bool   { return false }
func (l *fakeLog) Ahead() []stamps.Chain          { return l.ahead }

// fakeRoster has members and nobody who was one.
type fakeRoster []cluster.NodeID

func (r fakeRoster) Member(id cluster.NodeID) (cluster.Member, bool) {
	return cluster.Member{Node: id}, slices.Contains(r, id)
}
func (r fakeRoster) Retired() []member.Retired       { return nil }
func (r fakeRoster) IsRetired(cluster.NodeID) bool   { return false }
func (r fakeRoster) LeftSponsor(cluster.NodeID) bool { return false }

type fakeWorker struct{}

func (fakeWorker) View() worker.View                 { return worker.View{Slots: 4, Queued: 2} }
func (fakeWorker) Drain(context.Context, bool) error { return nil }

type fakeDevice struct{}

func (fakeDevice) Backend() string            { return "netstack" }
func (fakeDevice) Interface() string          { return "" }
func (fakeDevice) MTU() int                   { return 1420 }
func (fakeDevice) Key() topo.Key              { return topo.Key{} }
func (fakeDevice) Observe() []mesh.PeerStatus { return nil }

// TestStatus reads the status out of fakes: a host is joining until it has known a
// holder once, and degraded for each reason that the parts give.
func TestStatus(t *testing.T) {
	timing, err := lease.TimingFor(cluster.ProfileLAN)
	if err != nil {
		t.Fatal(err)
	}
	v := &coord.View{Self: "n1"}
	for _, id := range []cluster.NodeID{"n1", "n2"} {
		v.Members = append(v.Members, coord.MemberView{Member: cluster.Member{Node: id}, Health: cluster.Alive, Heard: true})
	}
	log := &fakeLog{state: state.New()}
	view := func() *coord.View { return v }
	now := func() time.Duration { return time.Minute }
	h := &hostStatus{
		about: about{self: "n1", cluster: "blue", started: time.Now(), timing: timing, load: calm{}},
		now:   now, view: view, roster: fakeRoster{"n1", "n2"}, log: log,
		checks: newLogChecks("n1", nil, &stateHash{}, calm{}.Pauses, zerolog.Nop()), leases: &leases{self: "n1", timing: timing, now: now, view: view, log: log},
		meshes:  &meshes{self: "n1", device: fakeDevice{}, view: view},
		workers: &workers{self: "n1", worker: fakeWorker{}}, stopping: func() bool { return false },
		published: published.New(published.Options{Served: func() []string { return nil }}),
	}
	expect := func(want api.State, reasons ...string) {
		t.Helper()
		st, err := h.Status(t.Context())
		if err != nil || st.State != want || !slices.Equal(st.Reasons, reasons) {
			t.Errorf("%s for %q, %v, want %s for %q", st.State, st.Reasons, err, want, reasons)
		}
		if st.Members.Alive != 2 || st.Worker.Slots != 4 || st.Log.SizeBytes != 4096 || st.Mesh.Backend != "netstack" || st.Publish.State != api.PublishOff {
			t.Errorf("%+v", st)
		}
	}
	if h.logSummary().CheckedAt != nil {
		t.Error("a log that nobody checked was checked")
	}
	h.checks.last = &api.LogCheck{EndedAt: new(time.Now()), Result: &api.LogVerify{Problem: "event 7 is damaged"}}
	if s := h.logSummary(); s.CheckedAt == nil || s.CheckProblem != "event 7 is damaged" {
		t.Errorf("%+v", s)
	}
	h.checks.last.Result.OK = true
	if s := h.logSummary(); s.CheckedAt == nil || s.CheckProblem != "" {
		t.Errorf("%+v", s)
	}
	v.Members[1].Health, v.Members[1].Stopped = cluster.Dead, true
	if s, err := h.Status(t.Context()); err != nil || s.Members.Dead != 1 || s.Members.Stopped != 1 || !slices.Contains(s.Reasons, "n2 stopped") {
		t.Errorf("%+v %v", s, err)
	}
	v.Members[1].Health, v.Members[1].Stopped = cluster.Alive, false
	expect(api.StateJoining, "no holder known")
	v.Lease.Holder, v.Lease.Role = "n1", cluster.RoleHolder // and has not opened its term
	expect(api.StateJoining)
	v.Lease.Role = ""
	v.Lease.Holder, v.Lease.Term = "n2", 3 // and has not read who votes
	expect(api.StateJoining)
	v.Lease.Config = cluster.VoterConfig{Epoch: 1, Mode: cluster.ModeQuorum, Voters: []cluster.NodeID{"n1", "n2"}}
	expect(api.StateOK)
	if line := h.Line(); line != ", term 3, holder n2, 2/2 alive, publish off" {
		t.Errorf("line %q", line)
	}
	v.Lease.Holder = ""
	expect(api.StateDegraded, "no holder known")
	v.Lease.Holder, log.disk = "n2", disk.Report{State: disk.Low, Free: 7 << 20}
	v.Failing = map[string]string{"self": "slow"}
	expect(api.StateDegraded, "event log: little room, 7 MiB free", "self: slow")

	log.disk, v.Failing = disk.Report{}, nil
	served := &fakeOnion{}
	h.onion = served
	expect(api.StateOK)
	web, app := coordwire.Backend{Name: "127.0.0.1:80"}, coordwire.Backend{Name: "unix:/app", Healthy: true}
	served.st.Hosts = map[cluster.NodeID]onion.HostStatus{
		"n1": {Placed: true, Reserve: true, Failing: true, Backends: []coordwire.Backend{web}},
		"n2": {Placed: true, Backends: []coordwire.Backend{web, app}},
		"n3": {Placed: true, Backends: []coordwire.Backend{app}},
		"n4": {Failing: true}, // dead, or serves nothing
	}
	expect(api.StateDegraded, "onion target of n1 unhealthy (its points are left out): 127.0.0.1:80", "1 of 2 onion targets of n2 unhealthy: 127.0.0.1:80")
	served.st.Hosts = map[cluster.NodeID]onion.HostStatus{"n1": {Placed: true, Failing: true}}
	expect(api.StateDegraded, "onion target of n1 unhealthy (its points stay, no host has a healthy one)")
}

// fakeOnion is a host's part in the onion addresses that only has a status.
type fakeOnion struct {
	onions.Host
	st onion.Status
}

func (f *fakeOnion) Status() onion.Status { return f.st }

// heldArtefacts are those of this host, and who else got them.
type heldArtefacts struct {
	mu   sync.Mutex
	have map[cluster.Hash][]byte
	sent []cluster.NodeID
}

func (s *heldArtefacts) Has(h cluster.Hash) (int64, bool) {
	return int64(len(s.have[h])), s.have[h] != nil
}

func (s *heldArtefacts) Fetch(context.Context, cluster.Hash, []cluster.NodeID) error {
	return errors.New("nobody has it")
}

func (s *heldArtefacts) Stream(context.Context, cluster.Hash, int64, []cluster.NodeID) (io.ReadCloser, error) {
	return nil, errors.New("nobody has it")
}
func (s *heldArtefacts) Read(h cluster.Hash, _ int64) ([]byte, error) { return s.have[h], nil }
func (s *heldArtefacts) Put(io.Reader, int64) (cluster.Hash, error) {
	return cluster.Hash{}, artefact.ErrTooLarge
}

func (s *heldArtefacts) Spread(_ context.Context, _ cluster.Hash, to []cluster.NodeID) []cluster.NodeID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, to...)
	return to
}

// holding is the scheduler of the holder.
type holding struct {
	Scheduler
	log   *fakeLog
	store *heldArtefacts
	got   []job.Spec
	runs  []event.WorkflowSubmitted
	sent  int // voters that had the artefacts when the job came
}

func (s *holding) Submit(_ context.Context, spec job.Spec, owner string, _ scheduler.Wait, _ bool) (scheduler.Submission, error) {
	s.got = append(s.got, spec)
	s.store.mu.Lock()
	s.sent = len(s.store.sent)
	s.store.mu.Unlock()
	id := job.NewID(owner, spec.Key)
	body, err := json.Marshal(event.JobSubmitted{Job: id, Owner: owner, Spec: spec, Chunks: spec.Chunks()})
	if err != nil {
		return scheduler.Submission{}, err
	}
	s.log.state.Apply(event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: uint64(1 + len(s.got)), Term: 1, Kind: event.KindJobSubmitted, Body: body})
	return scheduler.Submission{Job: id, Created: true}, nil
}

func (s *holding) Workers() []plan.WorkerView { return nil }

// Flow implements workflows.Scheduler.
func (s *holding) Flow(_ context.Context, q runs.Request) (runs.Answer, error) {
	body, err := json.Marshal(q.Submit)
	if err != nil {
		return runs.Answer{}, err
	}
	s.runs = append(s.runs, *q.Submit)
	s.log.state.Apply(event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: uint64(1 + len(s.got) + len(s.runs)), Term: 1, Kind: event.KindFlowSubmitted, Body: body})
	return runs.Answer{Created: len(s.runs) == 1}, nil
}

// TestSubmit: what a job needs is on a majority of the voters before the holder
// gets it, and a job whose artefact is nowhere never gets there.
func TestSubmit(t *testing.T) {
	v := &coord.View{Self: "n1"}
	v.Lease.Holder, v.Lease.Role = "n1", cluster.RoleHolder
	v.Lease.Config = cluster.VoterConfig{Epoch: 1, Mode: cluster.ModeQuorum, Voters: []cluster.NodeID{"n1", "n2", "n3"}}
	config := cluster.Hash{7}
	files := &heldArtefacts{have: map[cluster.Hash][]byte{config: []byte("{}")}}
	log := &fakeLog{state: state.New()}
	log.state.Apply(event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: 1, Term: 1, Kind: event.KindTermStart, Body: []byte(`{"term":1,"profile":"lan"}`)})
	sched := &holding{log: log, store: files}
	router, err := forward.New(forward.Options{
		Self: "n1", Lease: func() forward.Lease { return forward.Lease{Holder: "n1", Holding: true} }, Problem: ProblemOf,
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &jobs{
		self: "n1", view: func() *coord.View { return v }, log: log, artefacts: files, sched: sched, remote: router, trial: trial.New(nil, zerolog.Nop()),
		spread: spread.New("n1", func() *coord.View { return v }, files),
	}
	forward.Handle(router, forward.Submit, b.submitHere)
	chosen := []string{"ams", "fra"}
	b.Runs = workflows.New(workflows.Options{
		Self: "n1", Log: log, Scheduler: sched, Remote: router, Check: b.checkModule, Files: b.CheckFiles, Spread: b.spread.To, AwaitHolder: b.awaitHolder,
		Aware: func(kind event.Kind) error { return aware(v, kind) }, InZone: func(string) bool { return true },
		Zones: func(_ flow.RunID, q flow.Zoned) ([]string, error) {
			if slices.Contains(q.Job.Zones, "mars") {
				return nil, api.Errorf(api.CodeInvalidJob, "zones: no host is in zone mars")
			}
			return chosen, nil
		},
	})
	b.Runs.Handle(router)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	spec := job.Spec{Key: "k", Executor: job.ExecutorExec, Program: "p", Iterations: 1, Chunk: 1, Config: cluster.Hash{9}}.WithDefaults()
	if _, err := b.Submit(ctx, "uid:1", api.SubmitRequest{Spec: spec}); !api.IsCode(err, api.CodeInvalidJob) || len(sched.got) != 0 {
		t.Fatalf("an artefact that nobody has: %v, %d jobs", err, len(sched.got))
	}
	spec.Config = config
	outside := spec
	outside.Permission.Outside, outside.Key = true, "outside"
	for _, n := range v.Lease.Config.Voters {
		v.Members = append(v.Members, coord.MemberView{Member: cluster.Member{Node: n}, Health: cluster.Alive, Heard: true, Level: event.Level})
	}
	v.Members[2].Level = event.KindWorkerEnrolled.Since() - 1
	const old = "permission.outside: the skein of n3 is too old for worker_enrolled"
	if _, err := b.Submit(ctx, "uid:1", api.SubmitRequest{Spec: outside}); !api.IsCode(err, api.CodeConflict) || !strings.Contains(err.Error(), old) || len(sched.got) != 0 {
		t.Errorf("for outside workers: %v, %d jobs", err, len(sched.got))
	}
	// Whoever brings it here: a host that has not heard of the old member.
	if _, err := forward.AskHolder(ctx, router, forward.Submit, "uid:1", api.SubmitRequest{Spec: outside}); !api.IsCode(err, api.CodeConflict) || len(sched.got) != 0 {
		t.Errorf("for outside workers, by another host: %v, %d jobs", err, len(sched.got))
	}
	v.Members[2].Level = event.Level
	if _, err := b.Submit(ctx, "uid:1", api.SubmitRequest{Spec: outside}); err != nil || len(sched.got) != 1 {
		t.Errorf("for outside workers, now that all members know them: %v, %d jobs", err, len(sched.got))
	}
	out, err := b.Submit(ctx, "uid:1", api.SubmitRequest{Spec: spec})
	if err != nil || !out.Created || len(sched.got) != 2 || sched.sent == 0 {
		t.Fatalf("%+v, %v: %d jobs, artefact on %d other voters", out, err, len(sched.got), sched.sent)
	}
	if found, err := b.FindJob(ctx, string(out.Job)[:8], ""); err != nil || found != out.Job {
		t.Errorf("%s, %v", found, err)
	}
	if _, _, err := b.PutArtefact(ctx, bytes.NewReader(nil)); !api.IsCode(err, api.CodeTooLarge) {
		t.Errorf("too large: %v", err)
	}
	submitEach(ctx, t, b, v, sched, spec, &chosen)
}

// submitEach: a job that is to run in each zone becomes a run on the holder, in the zones that
// this chose once; whoever asks, the answer names them.
func submitEach(ctx context.Context, t *testing.T, b *jobs, v *coord.View, sched *holding, spec job.Spec, chosen *[]string) {
	t.Helper()
	spec.Key = "each"
	req := api.SubmitRequest{Spec: spec, Spread: api.SpreadEach, ZonePolicy: flow.MostZones, ZoneDeadlineSeconds: 60, Wait: api.WaitLocal}
	jobs := len(sched.got)
	for i, created := range []bool{true, false} {
		out, err := b.Submit(ctx, "uid:1", req)
		if err != nil || out.Run == "" || out.Job != "" || out.Created != created || out.Ack != api.WaitStable || out.StableVoters != 2 || !slices.Equal(out.Spec.Zones, []string{"ams", "fra"}) {
			t.Errorf("%d: %+v %v", i, out, err)
		}
		*chosen = []string{"ams", "rome"} // for whoever comes now
	}
	if len(sched.got) != jobs || len(sched.runs) != 2 || !bytes.Equal(sched.runs[0].Def, sched.runs[1].Def) {
		t.Fatalf("%d jobs more, runs %+v", len(sched.got)-jobs, sched.runs)
	}
	def, err := flow.Decode(sched.runs[0].Def)
	if err != nil || def.Quorum != 2 || len(def.Steps) != 2 || def.Steps[1].Name != "zone_fra" || !slices.Equal(def.Steps[1].Job.Zones, []string{"fra"}) || def.Steps[1].Job.DeadlineSeconds != 60 || def.Steps[1].Job.Key != "" {
		t.Errorf("%+v %v", def, err)
	}
	for name, c := range map[string]struct {
		do   func(*api.SubmitRequest)
		code api.Code
	}{
		"one zone of it":      {func(r *api.SubmitRequest) { r.ZoneCount = 1 }, api.CodeConflict},
		"an unknown zone":     {func(r *api.SubmitRequest) { r.Spec.Key, r.Spec.Zones = "mars", []string{"fra", "mars"} }, api.CodeInvalidJob},
		"an unknown spread":   {func(r *api.SubmitRequest) { r.Spread = "all" }, api.CodeInvalidJob},
		"an unknown policy":   {func(r *api.SubmitRequest) { r.ZonePolicy = "most" }, api.CodeInvalidJob},
		"many zones":          {func(r *api.SubmitRequest) { r.ZoneCount = 65 }, api.CodeInvalidJob},
		"no count":            {func(r *api.SubmitRequest) { r.ZonePrefer = []string{"fra"} }, api.CodeInvalidJob},
		"a policy of a split": {func(r *api.SubmitRequest) { r.Spread = api.SpreadSplit }, api.CodeInvalidJob},
		"a split's deadline":  {func(r *api.SubmitRequest) { r.Spread, r.ZonePolicy = "", "" }, api.CodeInvalidJob},
	} {
		bad, n := req, len(sched.runs)
		c.do(&bad)
		if _, err := b.Submit(ctx, "uid:1", bad); !api.IsCode(err, c.code) || len(sched.runs) != n || len(sched.got) != jobs {
			t.Errorf("%s: %v, %d runs", name, err, len(sched.runs)-n)
		}
	}
	// A host of a version before would make another job of it, or none.
	v.Members[1].Level = event.FailedOfWorkers().Since() - 1
	if _, err := b.Submit(ctx, "uid:1", req); !api.IsCode(err, api.CodeConflict) {
		t.Errorf("with an old member: %v", err)
	}
	v.Members[1].Level = event.Level
	// Nor does a member get a job where it asks for a run.
	if _, err := forward.AskHolder(ctx, b.remote, forward.Submit, "uid:1", req); !api.IsCode(err, api.CodeInvalidRequest) || len(sched.got) != jobs {
		t.Errorf("as a job: %v", err)
	}
}

// TestRemoveReason refuses a reason that no record can carry before anything else
// is looked at.
func TestRemoveReason(t *testing.T) {
	for _, reason := range []string{"umgefallen \u00fc", "a\nb", "\x7f", strings.Repeat("x", api.MaxRemoveReason+1)} {
		if _, err := (&members{self: "n1"}).Remove(t.Context(), "uid:0", "n2", reason); !api.IsCode(err, api.CodeInvalidRequest) {
			t.Errorf("%q: %v", reason, err)
		}
		if err := forward.Remove.Check(forward.RemoveNode{Node: "n2", Reason: reason}); !api.IsCode(err, api.CodeInvalidRequest) {
			t.Errorf("%q of another host: %v", reason, err)
		}
	}
	if _, err := (&members{self: "n1", roster: fakeRoster{"n1"}}).Remove(t.Context(), "uid:0", "n9", "gone"); !api.IsCode(err, api.CodeNotFound) {
		t.Errorf("no member: %v", err)
	}
}

// calm is a host that has nothing to do.
type calm struct{}

func (calm) API() api.Pressure { return api.Pressure{Level: "normal"} }
func (calm) Reason() string    { return "" }
func (calm) Pauses() bool      { return false }

func (calm) Overload() api.Overload { return api.Overload{Level: "normal"} }

func (s *heldArtefacts) Get(_ context.Context, h cluster.Hash, limit int64) ([]byte, error) {
	return s.Read(h, limit)
}
