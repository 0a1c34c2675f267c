package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/hosts"
	"github.com/skein-project/skein/cmd/skein/local"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/daemon"
	"github.com/skein-project/skein/internal/demo"
	"github.com/skein-project/skein/internal/fakeflows"
	"github.com/skein-project/skein/internal/fakeonion"
	"github.com/skein-project/skein/internal/fakeoutside"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/outside"
	"github.com/skein-project/skein/status"
)

// fakeCluster is a daemon's backend with fixed answers that scripts change.
type fakeCluster struct {
	fakeonion.Backend
	fakeoutside.Registry
	fakeflows.Control
	mu       sync.Mutex
	users    map[string]api.User
	state    api.State
	holder   cluster.NodeID
	ready    bool
	alone    bool        // n2 is all there is
	private  atomic.Bool // nobody may have anything for a bundle
	wanted   *api.VotersRequest
	rotated  int    // looks at a change of key, one more; 0: none is under way
	notYet   int    // submits refused with no_holder before one is taken
	onSubmit func() // nil: nothing
	jobs     map[job.ID]api.Job
	keys     map[string]job.Spec
	uploads  map[cluster.Hash]int64
	events   []event.Event
	logOf    string     // what n2's log is: damaged, differs, behind, late, or good
	oldest   api.Cursor // events before it are no longer kept
	changed  chan struct{}
	watching chan struct{} // if not nil, closed when a job was sent to a follower
	asked    int           // how often a job was asked for since watching was set
	reading  chan struct{} // if not nil, closed when a reader has all events

	socket string
	cancel context.CancelFunc
	done   chan error
}

func newFakeCluster(socket string) *fakeCluster {
	f := &fakeCluster{
		state: api.StateOK, holder: "n1", ready: true, jobs: map[job.ID]api.Job{}, keys: map[string]job.Spec{},
		uploads: map[cluster.Hash]int64{{0xaa}: 6}, changed: make(chan struct{}), socket: socket,
	}
	good := fakeJob(jobGood, "pi", job.Completed, 1000)
	bad := fakeJob(jobBad, "", job.Failed, 990)
	bad.Reason = "chunk 7 failed 4 times: exit code 3"
	bad.Failures = []api.Failure{
		{Chunk: 7, Attempt: 4, Worker: "n2", At: fakeNow.Add(-time.Minute), Reason: "exit code 3: out of luck", Final: true},
		{Chunk: 7, Attempt: 3, Worker: "n3", At: fakeNow.Add(-2 * time.Minute), Reason: "result is not finite: NaN"},
	}
	bad.Attempts = api.AttemptCounts{Assigned: 103, Failed: 4}
	bad.Chunks.Failed, bad.Chunks.Parked = 1, 1
	bad.Skipped = []job.Span{{First: 7, Last: 7}, {First: 12, Last: 15}}
	f.jobs[jobGood], f.jobs[jobBad] = good, bad
	f.addEvent("n1", event.KindHostStarted, fakeNow.Add(-10*time.Minute), event.HostStarted{Version: "1.4.0", Boot: 1})
	f.addEvent("n2", event.KindTermStart, fakeNow.Add(-9*time.Minute), event.TermStart{
		Term: 42, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Grants: []cluster.NodeID{"n1", "n2"}, Previous: "n1",
	})
	f.addEvent("n1", event.KindLeaseReleased, fakeNow.Add(-8*time.Minute), event.LeaseReleased{Term: 42, Successor: "n2", Reason: "drill"})
	return f
}

func fakeJob(id job.ID, name string, state job.State, accepted uint64) api.Job {
	spec := job.Spec{Name: name, Key: string(id), Artefact: cluster.Hash{0xaa}, Iterations: 1000, Chunk: 10}.WithDefaults()
	j := api.Job{
		ID: id, Name: name, State: state, Owner: "uid:1000", Spec: spec, SubmittedAt: fakeNow.Add(-5 * time.Minute),
		ElapsedSeconds: 42.5, Holder: "n1", Term: 42,
		Chunks:     api.ChunkCounts{Total: 100, Accepted: int(accepted / 10)},
		Iterations: api.IterationCounts{Total: 1000, Accepted: accepted},
		Attempts:   api.AttemptCounts{Assigned: 100},
		Workers:    []api.JobWorker{{Node: "n1", Accepted: 60}, {Node: "n2", Accepted: 40}},
		Aggregates: map[string]api.Summary{"pi": api.Summarise(job.Metric{N: accepted, Mean: 3.14159, M2: 2.7 * float64(accepted), Min: 0, Max: 4})},
	}
	if state.Final() {
		j.FinishedAt = new(fakeNow)
	} else {
		j.RatePerSecond, j.ETASeconds = new(1.25e6), new(12.0)
		j.Chunks.Assigned, j.Chunks.Pending = 8, 92-int(accepted/10)
	}
	return j
}

func (f *fakeCluster) addEvent(node cluster.NodeID, kind event.Kind, at time.Time, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	src := event.SourceID{Node: node, Inc: 1}
	seq := uint64(1)
	for _, e := range f.events {
		if e.Source == src {
			seq++
		}
	}
	f.events = append(f.events, event.Event{Source: src, Seq: seq, HLC: cluster.NewHLC(at, 0), Term: 42, Kind: kind, Body: b})
}

// set changes the fake and wakes followers.
func (f *fakeCluster) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeCluster) start() error {
	s, err := status.New(status.Options{Socket: f.socket, Backend: f, ClusterID: "c1", Version: "v9.9.9", Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.done = cancel, make(chan error, 1)
	go func() { f.done <- s.Run(ctx) }()
	select {
	case <-s.Up():
		return nil
	case err := <-f.done:
		return err
	}
}

func (f *fakeCluster) stop() error {
	if f.cancel == nil {
		return nil
	}
	f.cancel()
	f.cancel = nil
	return <-f.done
}

func (f *fakeCluster) Header() api.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return api.NewHeader("n2", fakeNow, uint64(len(f.events)))
}

func (f *fakeCluster) lease() api.LeaseSummary {
	l := api.LeaseSummary{
		Holder: f.holder, Term: 42, Mode: cluster.ModeQuorum, Voters: 3, Profile: cluster.ProfileLAN,
		Publisher: "n2", Publishing: true, PublishWhy: api.PublishNoLease, Abstaining: []cluster.NodeID{"n3"},
	}
	if f.holder != "" {
		l.RenewedSeconds, l.ExpiresSeconds, l.TenureSeconds = new(1.2), new(3.8), new(3600.0)
		l.Publisher, l.Publishing, l.PublishWhy, l.Abstaining = f.holder, false, api.PublishLease, nil
	}
	return l
}

func (f *fakeCluster) Status(context.Context) (api.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := api.Status{
		Cluster: "blue", Version: "v9.9.9", State: f.state, Role: cluster.RoleStandby, Term: 42, UptimeSeconds: 3600, Lease: f.lease(),
		Members: api.MemberCounts{Total: 3, Alive: 2, Suspect: 1},
		Mesh:    api.MeshSummary{Backend: "kernel", Interface: "skein0", Address: "10.86.0.2", Listen: "0.0.0.0:51820", PeerCount: 2, OldestHandshakeSeconds: new(41.0)},
		Log:     api.LogSummary{Events: uint64(len(f.events)), Sources: 2, SizeBytes: 4096, StateHash: cluster.Hash{0xab, 0xcd}},
		Worker:  api.WorkerSummary{Slots: 4, Running: 1},
		Jobs:    api.JobCounts{Running: 1, Completed: 1, Failed: 1},
	}
	if f.state == api.StateDegraded {
		s.Reasons = []string{"n3 suspect"}
	}
	return s, nil
}

func (f *fakeCluster) Members(_ context.Context, all bool) (api.Members, error) {
	list := []api.Member{
		{
			Node: "n1", Addr: "10.86.0.1", State: cluster.Alive, Role: cluster.RoleHolder, Voter: true, Publisher: true, Term: 42, SeenSeconds: new(0.4),
			RTTSeconds: new(0.0011), Path: "direct", Version: "0.3.1", Priority: 10, LagEvents: new(uint64(0)), Endpoints: []string{"192.0.2.1:51820"},
		},
		{Node: "n2", Self: true, Addr: "10.86.0.2", State: cluster.Alive, Role: cluster.RoleStandby, Voter: true, Term: 42, Path: "self", Version: "0.3.1", Priority: 100},
		{
			Node: "n3", Addr: "10.86.0.3", State: cluster.Suspect, Role: cluster.RoleStandby, Term: 41, SeenSeconds: new(7.2),
			Path: "direct", Version: "0.3.0", Zone: "fra", Priority: 100, LagEvents: new(uint64(12)),
			NAT: true, SkewSeconds: new(-0.25), CertExpiresAt: new(fakeNow.Add(240 * time.Hour)),
		},
	}
	if all {
		list = append(list,
			api.Member{Node: "n4", Addr: "10.86.0.4", State: cluster.Left, Priority: 100, GoneAt: new(fakeNow.Add(-time.Hour))},
			api.Member{
				Node: "n5", Addr: "10.86.0.5", State: cluster.Left, Priority: 100, Removed: true,
				GoneAt: new(fakeNow.Add(-2 * time.Hour)), Reason: "stolen",
			})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.alone {
		list = list[1:2]
	}
	return api.Members{Members: list}, nil
}

func (f *fakeCluster) Mesh(context.Context) (api.Mesh, error) {
	m := fakeMesh()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.rotated == 0:
	case f.state == api.StateDegraded:
		m.RotateError = "no other host is known to have the next one, waited for until 2026-01-02T03:09:35Z: n1, n3"
	case f.rotated < 3: // under way for two looks
		f.rotated++
		m.NextPublicKey, m.NextAt = "bmV3", new(fakeNow.Add(30*time.Second))
	default:
		f.rotated = 0
		m.PublicKey = "bmV3"
	}
	return m, nil
}

func fakeMesh() api.Mesh {
	return api.Mesh{
		MeshSummary: api.MeshSummary{Backend: "kernel", Interface: "skein0", Address: "10.86.0.2", PeerCount: 3},
		MTU:         1420, MTUAuto: true, PublicKey: "b3duCg==", PublicEndpoint: "198.51.100.2:51820",
		Peers: []api.MeshPeer{
			{
				Node: "n1", Addr: "10.86.0.1", Addr6: "fd00::1", PublicKey: "bjEK", State: api.PeerUp, Endpoint: "192.0.2.1:51820", Path: "direct",
				Candidates: []string{"192.0.2.1:51820", "198.51.100.1:51820"}, HandshakeSeconds: new(41.0),
				ReceivedBytes: 123456, SentBytes: 98, RTTSeconds: new(0.0011), MTU: new(1380),
			},
			{Node: "n3", Addr: "10.86.0.3", State: api.PeerConnecting, KeepaliveSeconds: 25},
			{Node: "n30", Addr: "10.86.0.30", State: api.PeerDown},
		},
	}
}

func (f *fakeCluster) Leave(context.Context, string) (api.Left, error) {
	return api.Left{Told: []cluster.NodeID{"n1"}}, nil
}

func (f *fakeCluster) Remove(_ context.Context, _ string, node cluster.NodeID, reason string) (api.Removed, error) {
	if node == "n9" {
		return api.Removed{}, api.Errorf(api.CodeNotFound, "no member n9").WithHint("see `skein members --all`")
	}
	if node == "n5" {
		return api.Removed{Member: node}, nil
	}
	f.set(func() {
		f.addEvent("n1", event.KindMemberRemoved, fakeNow, map[string]string{"node": string(node), "reason": reason})
	})
	return api.Removed{Member: node, By: "n1"}, nil
}

func (f *fakeCluster) Doctor(context.Context) (api.Doctor, error) {
	d := api.Doctor{Findings: []api.Finding{
		{Group: "host", Check: "disk-space", Verdict: api.VerdictOK, Detail: "40.0GiB free"},
		{Group: "cluster", Check: "sponsors", Verdict: api.VerdictOK, Detail: "3 sponsors"},
	}}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == api.StateDegraded {
		d.Findings[1] = api.Finding{
			Group: "cluster", Check: "sponsors", Verdict: api.VerdictWarn, Detail: "1 sponsor: n1",
			Hint: "put the root key back for a while", Doc: "docs/operations.md#sponsors",
		}
	}
	return d, nil
}

func (f *fakeCluster) Config(context.Context) (api.Config, error) {
	return api.Config{Entries: []api.ConfigEntry{{Key: "node.name", Value: `"n2"`, Origin: "env", Reload: "restart"}, {Key: "log.level", Value: `"debug"`, Origin: "file", Reload: "reload"}}}, nil
}

func (f *fakeCluster) Lease(context.Context) (api.Lease, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return api.Lease{LeaseSummary: f.lease(), Config: api.LeaseConfig{Epoch: 5, Term: 40, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Mode: cluster.ModeQuorum}}, nil
}

func (f *fakeCluster) LeaseHistory(context.Context) (api.LeaseHistory, error) {
	return api.LeaseHistory{Terms: []api.TermRecord{
		{Term: 42, Holder: "n1", StartedAt: fakeNow.Add(-time.Hour), GapSeconds: new(0.0), Previous: "n3", Grants: []cluster.NodeID{"n1", "n2"}},
		{Term: 41, Holder: "n3", StartedAt: fakeNow.Add(-3 * time.Hour), EndedAt: new(fakeNow.Add(-time.Hour)), LastEvidenceAt: new(fakeNow.Add(-time.Hour)), GapSeconds: new(42.5), Cause: "released", Successor: "n1", Grants: []cluster.NodeID{"n1", "n3"}},
		{
			Term: 40, Holder: "n2", StartedAt: fakeNow.Add(-5 * time.Hour), EndedAt: new(fakeNow.Add(-3 * time.Hour)), ToldAt: new(fakeNow.Add(-3*time.Hour + 35*time.Second)),
			LastEvidenceAt: new(fakeNow.Add(-3*time.Hour - 42500*time.Millisecond)), Cause: "no majority", Successor: "n3", Grants: []cluster.NodeID{"n1", "n2"},
		},
	}}, nil
}

func (f *fakeCluster) Voters(context.Context) (api.Voters, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := api.Voters{
		Config:  api.LeaseConfig{Epoch: 5, Term: 40, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Mode: cluster.ModeQuorum},
		Pending: new(false), Target: []cluster.NodeID{"n1", "n2", "n3"}, TargetAuto: true, Holder: f.holder,
		Voters: []api.Voter{
			{Node: "n1", Zone: "east", State: cluster.Alive, Priority: 10, Voter: true, Target: true, Epoch: new(uint64(5))},
			{Node: "n2", Zone: "west", State: cluster.Alive, Priority: 20, Voter: true, Target: true, Epoch: new(uint64(5))},
			{Node: "n3", State: cluster.Alive, Priority: 30, Witness: true, Voter: true, Target: true, Abstaining: "vote record missing"},
		},
	}
	if w := f.wanted; w != nil {
		v.TargetAuto = w.Auto
		switch {
		case len(w.Voters) > 0:
			v.Target = w.Voters
		case w.Remove != "":
			v.Target = slices.DeleteFunc(v.Target, func(id cluster.NodeID) bool { return id == w.Remove })
		case w.Add != "":
			v.Target = append(v.Target, w.Add)
		}
		for i := range v.Voters {
			v.Voters[i].Target = slices.Contains(v.Target, v.Voters[i].Node)
		}
	}
	return v, nil
}

func (f *fakeCluster) SetVoters(ctx context.Context, _ string, req api.VotersRequest) (api.Voters, error) {
	if req.Add == "n9" {
		return api.Voters{}, api.Errorf(api.CodeNotFound, "no member n9").WithHint("see `skein members`")
	}
	f.set(func() { f.wanted = &req })
	return f.Voters(ctx)
}

func (f *fakeCluster) StepDown(ctx context.Context, _ string, req api.StepDownRequest) (api.Lease, error) {
	if req.To == "n9" {
		return api.Lease{}, api.Errorf(api.CodeNotFound, "no member n9").WithHint("see `skein members`")
	}
	return f.Lease(ctx)
}

func (f *fakeCluster) Drain(_ context.Context, _ string, req api.DrainRequest) (api.Drain, error) {
	if req.Node == "n9" {
		return api.Drain{}, api.Errorf(api.CodeNotFound, "no member n9").WithHint("see `skein members`")
	}
	if req.Node == "" {
		req.Node = "n1"
	}
	return api.Drain{Node: req.Node, Worker: api.WorkerSummary{Slots: 4, Running: 3, Draining: !req.Undo}}, nil
}

func (f *fakeCluster) Submit(_ context.Context, _ string, req api.SubmitRequest) (api.SubmitResponse, error) {
	var resp api.SubmitResponse
	err := error(nil)
	if f.onSubmit != nil {
		f.onSubmit()
	}
	f.set(func() {
		if f.notYet > 0 {
			f.notYet--
			err = api.Errorf(api.CodeNoHolder, "nobody holds the lease")
			return
		}
		if _, ok := f.uploads[req.Spec.Artefact]; !ok {
			err = api.Errorf(api.CodeInvalidJob, "artefact %s is not known", req.Spec.Artefact)
			return
		}
		id := job.NewID("uid:1000", req.Spec.Key)
		old, known := f.keys[req.Spec.Key]
		if known && old.Fingerprint() != req.Spec.Fingerprint() {
			err = api.Errorf(api.CodeConflict, "key %q belongs to another job", req.Spec.Key)
			return
		}
		f.keys[req.Spec.Key] = req.Spec
		if !known {
			j := fakeJob(id, req.Spec.Name, job.Running, 420)
			j.Spec = req.Spec
			f.jobs[id] = j
		}
		resp = api.SubmitResponse{Job: id, Created: !known, Spec: req.Spec, Ack: req.Wait, StableVoters: 2}
	})
	return resp, err
}

func (f *fakeCluster) Stop(ctx context.Context, _ string, id job.ID, _ string) (api.Job, error) {
	if _, err := f.Job(ctx, id); err != nil {
		return api.Job{}, err
	}
	f.set(func() {
		j := f.jobs[id]
		j.State = job.Cancelled
		f.jobs[id] = j
	})
	return f.Job(ctx, id)
}

func (f *fakeCluster) Release(ctx context.Context, _ string, id job.ID) (api.Released, error) {
	j, err := f.Job(ctx, id)
	return api.Released{Job: id, Chunks: j.Chunks.Failed}, err
}

func (f *fakeCluster) Jobs(context.Context) (api.Jobs, error) {
	return api.Jobs{Jobs: []api.Job{f.jobs[jobBad], f.jobs[jobGood]}}, nil
}

func (f *fakeCluster) Job(_ context.Context, id job.ID) (api.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, ok := f.jobs[id]
	if !ok {
		return j, api.Errorf(api.CodeNotFound, "no job %s", id).WithHint("see `skein job ls`")
	}
	// A follower's job is asked for once to see that there is one and then for
	// each line: at the third time the first line is out.
	if f.asked++; f.watching != nil && f.asked >= 3 {
		close(f.watching)
		f.watching = nil
	}
	return j, nil
}

// fakeWatch watches a job of a fakeCluster.
type fakeWatch struct {
	f  *fakeCluster
	id job.ID
}

func (f *fakeCluster) WatchJob(id job.ID) status.JobWatch    { return fakeWatch{f, id} }
func (w fakeWatch) Job(ctx context.Context) (api.Job, error) { return w.f.Job(ctx, w.id) }
func (w fakeWatch) Changed() <-chan struct{}                 { return nil }
func (w fakeWatch) Close()                                   {}

func (f *fakeCluster) JobOwner(job.ID) string { return "uid:0" }

func (f *fakeCluster) FindJob(_ context.Context, prefix, _ string) (job.ID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, j := range f.jobs {
		if strings.HasPrefix(string(id), prefix) || j.Name == prefix {
			return id, nil
		}
	}
	return "", api.Errorf(api.CodeNotFound, "no job begins with %q", prefix).WithHint("see `skein job ls`")
}

func (f *fakeCluster) Events(_ context.Context, at api.Cursor, since time.Time, _ event.Subject) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		f.mu.Lock()
		list, oldest := slices.Clone(f.events), f.oldest
		f.mu.Unlock()
		for s, seq := range oldest {
			if at[s] < seq {
				p := api.Errorf(api.CodeCompacted, "events are no longer kept: %s from seq %d to %d", s, at[s]+1, seq).
					WithHint("go on with --since %s", oldest)
				p.Cursor = oldest.String()
				yield(event.Event{}, p)
				return
			}
		}
		some := false
		for _, e := range list {
			if e.Seq <= at[e.Source] {
				continue
			}
			at.Advance(e.Source, e.Seq)
			some = true
			if !e.HLC.Time().Before(since) && !yield(e, nil) {
				return
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if !some && f.reading != nil {
			close(f.reading)
			f.reading = nil
		}
	}
}

func (f *fakeCluster) Groups(context.Context) (api.Groups, error) {
	return api.Groups{Waiting: []api.GroupWaiting{{Name: "crowd", Members: []string{"uid:7"}, From: "jobs.groups_url"}}}, nil
}

func (f *fakeCluster) SetGroup(_ context.Context, _ string, set event.GroupSet) (api.GroupSet, error) {
	return api.GroupSet{Name: set.Group, Members: len(set.Members)}, nil
}

func (f *fakeCluster) Workers(context.Context) (api.Workers, error) {
	return api.Workers{Holder: "n1", Term: 42, Workers: []api.Worker{
		{
			Node: "n1", Kind: api.WorkerHost, Live: cluster.Alive, Connected: true, Ready: true, Progress: "normal", Verdict: "route", Slots: 4,
			Assigned: 6, Window: 12, BacklogIterations: 1_500_000, DrainSeconds: 1.2, RatePerSecond: new(1.25e6), Trusted: true,
			Owner: "user:ann", Accept: "user", AcceptNames: []string{"uid:1000", "user:bob"},
		},
		{
			Node: "n3", Live: cluster.Suspect, Ready: true, Draining: true, Progress: "stuck", Verdict: "evict", Slots: 2,
			Assigned: 1, Window: 2, BacklogIterations: 10, ExcludedSeconds: new(30.0),
			Owner: "node:n3", Accept: "public",
		},
	}}, nil
}

func (f *fakeCluster) Void(event.Event) bool { return false }

func (f *fakeCluster) Oldest() api.Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.oldest
}

func (f *fakeCluster) Cursor() api.Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := api.Cursor{}
	for _, e := range f.events {
		at.Advance(e.Source, e.Seq)
	}
	return at
}

func (f *fakeCluster) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *fakeCluster) ChunkMap(job.ID, int) (api.ChunkRuns, error) { return api.ChunkRuns{}, nil }

func (f *fakeCluster) CreateToken(_ context.Context, _ string, req api.TokenRequest) (api.TokenCreated, error) {
	return api.TokenCreated{
		Token:  api.Token{ID: "abcdefghij", CreatedAt: fakeNow, ExpiresAt: fakeNow.Add(time.Duration(req.TTLSeconds) * time.Second), Uses: req.Uses, Owner: req.Owner},
		Secret: "skein-join-1.c2VjcmV0",
	}, nil
}

func (f *fakeCluster) Tokens(context.Context) (api.Tokens, error) {
	return api.Tokens{Tokens: []api.Token{
		{ID: "abc", ExpiresAt: fakeNow.Add(30 * time.Minute), Uses: 2, Spent: []cluster.NodeID{"n2"}},
		{ID: "def", ExpiresAt: fakeNow.Add(-time.Hour), Uses: 1},
	}}, nil
}

func (f *fakeCluster) RevokeToken(_ context.Context, _, id string) error {
	if id != "abc" {
		return api.Errorf(api.CodeNotFound, "no invite %s", id)
	}
	return nil
}

func (f *fakeCluster) PutArtefact(_ context.Context, r io.Reader) (cluster.Hash, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	hash := cluster.Hash(h.Sum(nil))
	if err == nil {
		f.set(func() { f.uploads[hash] = n })
	}
	return hash, n, err
}

// CheckLog lets n3 be down, a check take two looks, and n2 disagree if the fake
// is to.
func (f *fakeCluster) CheckLog(_ context.Context, node cluster.NodeID, run uint64) (api.LogCheck, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if node == "" {
		node = "n2"
	}
	if node == "n3" {
		return api.LogCheck{}, api.Errorf(api.CodeNotReady, "n3 not reached: no route").WithHint("see `skein mesh`")
	}
	c := api.LogCheck{Host: node, Run: 7, Running: run == 0, StartedAt: fakeNow, DoneEvents: 1, TotalEvents: 3}
	if run == 0 {
		return c, nil
	}
	c.EndedAt, c.DoneEvents = new(fakeNow.Add(time.Second)), 3
	c.Result = &api.LogVerify{
		OK: true, Events: 3, SizeBytes: 2048, Segments: 2, Signatures: 3, StateHash: cluster.Hash{0xab},
		Sources: []api.LogSource{{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: 2, Hash: cluster.Hash{1}}, {Source: event.SourceID{Node: "n2", Inc: 1}, Seq: 1, Hash: cluster.Hash{2}}},
	}
	c.LiveStateHash = &c.Result.StateHash
	switch {
	case node == "n2" && f.logOf == "damaged":
		c.Result = &api.LogVerify{Problem: "segment 00002, offset 4711, record 12: checksum", Hint: "fetch it again", BadSource: &event.SourceID{Node: "n1", Inc: 1}, BadSeq: 2, Events: 1}
	case node == "n2" && f.logOf == "differs":
		c.Result.StateHash = cluster.Hash{0xee}
	case node == "n2" && f.logOf == "behind":
		c.Result.Sources[0].Seq = 1
	case node == "n2" && f.logOf == "late": // until it is asked once more
		c.Result.Sources[0].Seq, f.logOf = 1, "good"
	}
	return c, nil
}

func (f *fakeCluster) Healthy() error { return nil }

func (f *fakeCluster) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ready {
		return fmt.Errorf("not joined yet")
	}
	return nil
}

// gone is the error of a start on a host that left.
type gone struct{}

func (gone) Error() string { return "this host left the cluster" }
func (gone) Hint() string  { return "empty state_dir" }
func (gone) Final() bool   { return true }

// fakeDeps stands for package daemon: it says what it was asked to do.
func fakeDeps() deps {
	return deps{
		mesh: func(string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.86.0.0/16")} },
		hosts: hosts.Options{
			PlanRecovery: func(cfg config.Config) (offline.RecoveryPlan, error) {
				stopped := time.Now().Add(-20 * time.Second)
				return offline.RecoveryPlan{
					Node:     cfg.Node.Name,
					Previous: cluster.VoterConfig{Epoch: 5, Term: 42, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Mode: cluster.ModeQuorum},
					Stopped:  stopped, Heard: map[cluster.NodeID]time.Time{"n1": stopped.Add(-40 * time.Second), "n3": {}},
				}, nil
			},
			RecoverLease: func(cfg config.Config, actor string) (offline.Recovery, error) {
				if _, err := os.Stat(filepath.Join(cfg.StateDir, "locked")); err == nil {
					return offline.Recovery{}, fmt.Errorf("lock %s: in use by another process", cfg.StateDir)
				}
				return offline.Recovery{
					Node:     cfg.Node.Name,
					Previous: cluster.VoterConfig{Epoch: 5, Term: 42, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Mode: cluster.ModeQuorum},
					Config:   cluster.VoterConfig{Epoch: 6, Term: 1048618, Voters: []cluster.NodeID{cfg.Node.Name}, Mode: cluster.ModeSingle},
				}, nil
			},
		},
		local: local.Options{
			Version: "v9.9.9",
			Work:    outside.Run, // it asks nobody in these tests
			Run: func(ctx context.Context, cfg config.Config, o daemon.RunOptions) error {
				if _, err := os.Stat(filepath.Join(cfg.StateDir, "locked")); err == nil {
					return fmt.Errorf("lock %s: in use by another process", cfg.StateDir)
				}
				if _, err := os.Stat(filepath.Join(cfg.StateDir, "left")); err == nil {
					return gone{}
				}
				join := o.Join
				if o.JoinPatience > 0 {
					join += " for " + o.JoinPatience.String()
				}
				if join == "-" {
					b, err := io.ReadAll(o.Stdin)
					if err != nil {
						return err
					}
					join = "stdin " + strings.TrimSpace(string(b))
				}
				fmt.Fprintf(o.Stderr, "run %s node=%s socket=%s join=%q\n", o.Version, cfg.Node.Name, cfg.Status.Socket, join)
				return nil
			},
			Init: func(cfg config.Config, o offline.InitOptions) error {
				if _, err := os.Stat(cfg.StateDir); err == nil {
					return fmt.Errorf("init %s: belongs to a cluster already", cfg.StateDir)
				}
				return nil
			},
			OnlyRoot: func(dir, user string) bool { return user == "skein" && filepath.Base(dir) == "roots" },
			Verify: func(_ context.Context, dir string) (api.LogVerify, error) {
				r := api.LogVerify{OK: true, Forked: []event.SourceID{}, Events: 3, SizeBytes: 2048, Segments: 1, StateHash: cluster.Hash{0xab}, Sources: []api.LogSource{
					{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: 3, Hash: cluster.Hash{0xcd}},
				}}
				if strings.Contains(dir, "damaged") {
					r.OK, r.Problem = false, "segment 00002, offset 4711, record 12: checksum"
				}
				return r, nil
			},
			Damaged: func(_ context.Context, dir string) bool { return strings.Contains(dir, "damaged") },
			Repair: func(_ context.Context, dir string, peer cluster.NodeID, acceptLoss bool) (api.LogRepair, error) {
				if !strings.Contains(dir, "damaged") {
					return api.LogRepair{Chains: []api.ChainRepair{}}, nil
				}
				r := api.ChainRepair{
					Source: event.SourceID{Node: "n1", Inc: 1}, Own: true, Problem: "segment 00002, offset 4711: checksum",
					Kept: 30, Known: 42, Aside: "/var/lib/skein/damaged/n1.1.20260101T000000", Peer: peer,
				}
				if acceptLoss {
					r.Known = 0
				}
				return api.LogRepair{Chains: []api.ChainRepair{r}}, nil
			},
			Export: func(ctx context.Context, _ string, o offline.ExportOptions, w io.Writer) (api.ExportEnd, error) {
				_, err := fmt.Fprintf(w, "export from=%s since=%t kinds=%s node=%s\n", o.From, !o.Since.IsZero(), o.Kinds, o.Node)
				return api.ExportEnd{Events: 3, Cursor: "n1/1:2,n2/1:1"}, errors.Join(err, ctx.Err())
			},
			Replay: func(_ context.Context, _ string, o offline.ReplayOptions) (api.LogReplay, error) {
				if o.Position[event.SourceID{Node: "n9", Inc: 1}] > 0 {
					return api.LogReplay{}, errors.New("replay event log: position is not in the log")
				}
				return api.LogReplay{
					Host: "n2", Position: "n1/1:2,n2/1:1", LastAt: new(fakeNow), LastHLC: cluster.NewHLC(fakeNow, 1), Hindsight: o.Hindsight,
					Events: 3, Void: 1, StateHash: cluster.Hash{0xab},
					Lease:   api.ReplayLease{Term: 42, Holder: "n1", StartedAt: new(fakeNow.Add(-time.Hour))},
					Config:  api.LeaseConfig{Epoch: 5, Term: 40, Voters: []cluster.NodeID{"n1", "n2"}, Mode: cluster.ModeQuorum},
					Members: []api.ReplayMember{{Node: "n1", Status: "joined", Addr: "10.86.0.1", Health: cluster.Alive, Version: "v1", JoinedAt: new(fakeNow.Add(-2 * time.Hour))}},
					Jobs:    []api.ReplayJob{{ID: jobGood, Name: "pi", Owner: "uid:1000", State: job.Running, SubmittedAt: new(fakeNow.Add(-time.Minute)), Chunks: api.ChunkCounts{Total: 100, Accepted: 42}}},
					Actions: []api.ReplayAction{{At: fakeNow, Node: "n1", Kind: event.KindTokenCreated, Actor: "uid:0@n1", Subject: "abc"}},
				}, nil
			},
			Heads: func(string) ([]event.Head, error) {
				return []event.Head{
					{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: 2, Hash: cluster.Hash{1}, Sig: []byte{7}},
					{Source: event.SourceID{Node: "n2", Inc: 1}, Seq: 1, Hash: cluster.Hash{2}, Sig: []byte{8}},
				}, nil
			},
			Demo: func(_ context.Context, o demo.Options) (demo.Result, error) {
				fmt.Fprintf(o.Out, "demo profile=%s iterations=%d wasm=%s\n", o.Profile, o.Iterations, filepath.Base(o.Wasm))
				return demo.Result{}, nil
			},
			DemoShow: fakeShow, DemoScale: fakeScale,
			DemoOnion: func(_ context.Context, o demo.Options) (demo.OnionResult, error) {
				fmt.Fprintf(o.Out, "onion demo profile=%s\n", o.Profile)
				return demo.OnionResult{}, nil
			},
			Doctor: func(context.Context, config.Config, bool) []api.Finding {
				return []api.Finding{{Group: "host", Check: "disk-space", Verdict: api.VerdictFail, Detail: "0B free", Hint: "make room"}}
			},
			ExportRoot: func(cfg config.Config, out string, remove bool) error {
				f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if err != nil {
					return err
				}
				fmt.Fprintf(f, "key of %s remove=%v\n", filepath.Base(cfg.StateDir), remove)
				return f.Close()
			},
			ImportRoot: func(_ config.Config, in string) error {
				_, err := os.Stat(in)
				return err
			},
			Cleanup: func(_ context.Context, cfg config.Config) (bool, error) { return cfg.Mesh.Interface == "skein7", nil },
			Runner: func(stdin io.Reader, stdout, _ io.Writer) int {
				if _, err := io.Copy(stdout, stdin); err != nil {
					return 1
				}
				return 17
			},
			Watchdog: func([]string, io.Reader, io.Writer) int { return 17 },
		},
	}
}

func fakeSnapshot(events uint64) api.LogSnapshot {
	return api.LogSnapshot{
		ID: cluster.Hash{0xab, byte(events)}, Term: 40, Events: events, LastAt: fakeNow.Add(-time.Hour), SizeBytes: 48 << 10,
		StateHash: cluster.Hash{0xcd}, Signers: []cluster.NodeID{"n1", "n2"},
	}
}

func (f *fakeCluster) Snapshots(context.Context) (api.LogSnapshots, error) {
	return api.LogSnapshots{
		Snapshots: []api.LogSnapshot{fakeSnapshot(200_001), fakeSnapshot(400_100)}, EventsSince: 77, ReclaimableBytes: 64 << 20,
		DroppedEvents: 120_000, ArchivedSegments: 2,
	}, nil
}

func (f *fakeCluster) TakeSnapshot(context.Context, string) (api.LogSnapshotTaken, error) {
	return api.LogSnapshotTaken{LogSnapshot: fakeSnapshot(400_177)}, nil
}

// Has reports whether the log is that long.
func (f *fakeCluster) Has(at api.Cursor) bool {
	have := f.Cursor()
	for s, seq := range at {
		if have[s] < seq {
			return false
		}
	}
	return true
}

func (f *fakeCluster) Agreed(context.Context) (api.Cursor, error) { return f.Cursor(), nil }
