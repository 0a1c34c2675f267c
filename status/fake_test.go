package status

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/internal/fakeflows"
	"github.com/skein-project/skein/internal/fakeonion"
	"github.com/skein-project/skein/internal/fakeoutside"
)

const jobA = job.ID("jaaaaaaaaaaaaaaaaaaaaaaaaaa")

// fake is a Backend of plain values.
type fake struct {
	fakeonion.Backend
	fakeoutside.Registry
	fakeflows.Control
	live      func(after string) (api.LoadLive, error) // nil: as Control has it
	links     api.Links
	moreOfJob chan struct{} // what a JobWatch says beyond the log; nil: nothing
	mu        sync.Mutex
	job       api.Job
	about     []event.Subject // what Events was asked about
	runs      api.ChunkRuns
	more      []api.Job // what the list has; nil: a job
	log       []event.Event
	oldest    api.Cursor // what stands before it is kept no more
	changed   chan struct{}
	ready     error
	agreed    api.Cursor // what the holder has
	disagree  error
	actors    []string
	submits   []api.SubmitRequest
	voters    []api.VotersRequest
	revoked   string
	removed   []string      // node and reason
	block     chan struct{} // Members waits for it, if not nil
	entered   chan struct{} // and says so here
	users     *access.Directory
	holder    cluster.NodeID

	carry func(context.Context, api.Carried) api.Answered // to the holder
}

func newFake() *fake {
	return &fake{changed: make(chan struct{}), job: api.Job{ID: jobA, State: job.Running}, holder: "n1"}
}

func (f *fake) LoadLive(ctx context.Context, id event.LoadID, after string, wait time.Duration) (api.LoadLive, error) {
	if f.live == nil {
		return f.Control.LoadLive(ctx, id, after, wait)
	}
	return f.live(after)
}

func (f *fake) Directory() *access.Directory {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == nil {
		f.users = access.NewDirectory(nil)
	}
	return f.users
}

func (f *fake) Users(context.Context) (api.Users, error) { return api.Users{}, nil }

func (f *fake) SetUser(_ context.Context, actor string, set event.UserSet) (api.UserSet, error) {
	f.did(actor)
	return api.UserSet{User: api.User{Name: set.Name, Role: set.Role}}, nil
}

func (f *fake) SetOwner(_ context.Context, actor string, set event.HostOwnerSet) (api.OwnerSet, error) {
	f.did(actor)
	return api.OwnerSet{Node: set.Node, Owner: set.Owner}, nil
}

func (f *fake) Holder() cluster.NodeID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holder
}

func (f *fake) Carry(ctx context.Context, _ cluster.NodeID, req api.Carried) (api.Answered, error) {
	return f.carry(ctx, req), nil
}

// update changes the fake and wakes followers.
func (f *fake) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) Header() api.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return api.NewHeader("n1", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), uint64(len(f.log)))
}

// Cursor is the end of the log.
func (f *fake) Cursor() api.Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := api.Cursor{}
	for _, e := range f.log {
		at.Advance(e.Source, e.Seq)
	}
	return at
}

func (f *fake) Status(context.Context) (api.Status, error) {
	return api.Status{Cluster: "blue", Role: cluster.RoleHolder}, nil
}

func (f *fake) Members(ctx context.Context, all bool) (api.Members, error) {
	if f.block != nil {
		close(f.entered)
		select {
		case <-f.block:
		case <-ctx.Done():
			return api.Members{}, ctx.Err()
		}
	}
	list := []api.Member{{Node: "n1"}}
	if all {
		list = append(list, api.Member{Node: "n8", State: cluster.Left, Removed: true})
	}
	return api.Members{Members: list}, nil
}

func (f *fake) Leave(_ context.Context, actor string) (api.Left, error) {
	f.did(actor)
	return api.Left{Told: []cluster.NodeID{"n2"}}, nil
}

func (f *fake) Remove(_ context.Context, actor string, node cluster.NodeID, reason string) (api.Removed, error) {
	f.did(actor)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, string(node)+" "+reason)
	return api.Removed{Member: node, By: "n1"}, nil
}

func (f *fake) RotateKey(_ context.Context, actor string) (api.Rotated, error) {
	f.did(actor)
	return api.Rotated{NextPublicKey: "bmV4dA=="}, nil
}

func (f *fake) Doctor(context.Context) (api.Doctor, error) {
	return api.Doctor{Findings: []api.Finding{{Group: "mesh", Check: "mtu", Verdict: api.VerdictOK}}}, nil
}
func (f *fake) Links(context.Context, cluster.NodeID) (api.Links, error) { return f.links, nil }

func (f *fake) Mesh(context.Context) (api.Mesh, error)     { return api.Mesh{}, nil }
func (f *fake) Config(context.Context) (api.Config, error) { return api.Config{}, nil }
func (*fake) Overload(context.Context) (api.Overload, error) {
	return api.Overload{
		Level: "high", Score: 4.5, Signal: "work delay", Enabled: true, Signals: []api.OverloadSignal{{Signal: "work delay", Value: new(0.12), From: 0.05, Unit: "seconds", Score: 4.5}},
		Lanes:  []api.OverloadLane{{Lane: "list", From: "high", Refuses: true, Places: 20, Running: 3, RefusedByLevel: 7}},
		Silent: []api.SilentHost{{Node: "n3", Kind: "blob", WaitSeconds: 4}}, Hosts: []api.LoadedHost{{Node: "n1", Level: "high"}},
	}, nil
}

func (f *fake) Lease(context.Context) (api.Lease, error) { return api.Lease{}, nil }
func (f *fake) LeaseHistory(context.Context) (api.LeaseHistory, error) {
	return api.LeaseHistory{Terms: []api.TermRecord{{Term: 1}}}, nil
}

func (f *fake) Voters(context.Context) (api.Voters, error) {
	return api.Voters{Target: []cluster.NodeID{"n1"}, Voters: []api.Voter{{Node: "n1", Voter: true}}}, nil
}

func (f *fake) SetVoters(ctx context.Context, actor string, req api.VotersRequest) (api.Voters, error) {
	f.did(actor)
	f.mu.Lock()
	f.voters = append(f.voters, req)
	f.mu.Unlock()
	return f.Voters(ctx)
}

func (f *fake) StepDown(_ context.Context, actor string, req api.StepDownRequest) (api.Lease, error) {
	f.did(actor)
	if req.To == "n9" {
		return api.Lease{}, api.Errorf(api.CodeConflict, "n9 is not alive").WithHint("see `skein members`")
	}
	return api.Lease{}, nil
}

func (f *fake) Drain(_ context.Context, actor string, req api.DrainRequest) (api.Drain, error) {
	f.did(actor)
	return api.Drain{Node: req.Node, Worker: api.WorkerSummary{Draining: !req.Undo}}, nil
}

func (f *fake) Submit(_ context.Context, actor string, req api.SubmitRequest) (api.SubmitResponse, error) {
	f.did(actor)
	f.mu.Lock()
	f.submits = append(f.submits, req)
	f.mu.Unlock()
	return api.SubmitResponse{Job: jobA, Created: true, Spec: req.Spec, Ack: req.Wait, StableVoters: 2}, nil
}

func (f *fake) Stop(_ context.Context, actor string, id job.ID, _ string) (api.Job, error) {
	f.did(actor)
	return api.Job{ID: id, State: job.Cancelled}, nil
}

func (f *fake) Jobs(context.Context) (api.Jobs, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.more != nil {
		return api.Jobs{Jobs: slices.Clone(f.more)}, nil
	}
	return api.Jobs{Jobs: []api.Job{{}}}, nil
}

func (f *fake) Job(_ context.Context, id job.ID) (api.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id != jobA {
		return api.Job{}, api.Errorf(api.CodeNotFound, "no job %s", id)
	}
	return f.job, nil
}

func (f *fake) ChunkMap(id job.ID, most int) (api.ChunkRuns, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id != jobA {
		return api.ChunkRuns{}, api.Errorf(api.CodeNotFound, "no job %s", id)
	}
	f.runs.Step = min(f.runs.Step, most)
	return f.runs, nil
}

func (f *fake) Explain(_ context.Context, id job.ID) (api.JobExplanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id != jobA {
		return api.JobExplanation{}, api.Errorf(api.CodeNotFound, "no job %s", id)
	}
	return api.JobExplanation{
		Job: id, State: job.Pending, Holder: "n1", Term: 7, Waits: "0 of 1 worker eligible: zone 1", Since: new(time.Unix(1000, 0).UTC()), Hint: "move one there",
		Reasons: []api.WaitReason{{Reason: "zone", Text: "not in zone mars", Workers: 1, Examples: []cluster.NodeID{"n1"}}},
		Workers: []api.ExplainedWorker{{Node: "n1", Reason: "zone", Text: "not in zone mars"}},
	}, nil
}

// fakeOutput is what chunk 3 of every job left.
var fakeOutput = job.OutputFile{Chunk: 3, Name: "rows.csv", File: job.File{Hash: sha256.Sum256([]byte("a,b\n")), Size: 4}, Worker: "n1"}

func (f *fake) JobOutputs(_ context.Context, id job.ID) (api.JobOutputs, error) {
	return api.JobOutputs{Job: id, Sum: &job.OutputSum{Manifest: cluster.Hash{1}, Files: 1, Bytes: 4}, Outputs: []job.OutputFile{fakeOutput}}, nil
}

func (f *fake) OpenOutput(_ context.Context, id job.ID, chunk int, name string) (job.OutputFile, io.ReadCloser, error) {
	switch {
	case chunk != fakeOutput.Chunk || name != fakeOutput.Name && name != "x":
		return job.OutputFile{}, nil, api.Errorf(api.CodeNotFound, "chunk %d of job %s has no output %s", chunk, id, name)
	}
	return fakeOutput, io.NopCloser(strings.NewReader("a,b\n")), nil
}

func (f *fake) JobLogs(ctx context.Context, id job.ID, q api.JobLogQuery, send func(api.JobLog) error) error {
	line := api.JobLog{Job: id, Chunk: 3, Attempt: 1, Worker: "n1", Seconds: 2, Error: "exit code 3", Text: "no licence\n"}
	if q.Chunk != nil {
		line.Chunk = *q.Chunk
	}
	if err := send(line); err != nil || !q.Follow {
		return err
	}
	<-ctx.Done() // the reader goes, or the server stops
	return ctx.Err()
}

func (f *fake) JobOwner(id job.ID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range append([]api.Job{f.job}, f.more...) {
		if j.ID == id {
			return j.Owner
		}
	}
	return ""
}

func (f *fake) FindJob(_ context.Context, prefix, owner string) (job.ID, error) {
	if owner != "" && owner != f.job.Owner {
		return "", api.Errorf(api.CodeNotFound, "no job begins with %q", prefix)
	}
	if strings.HasPrefix(string(jobA), prefix) {
		return jobA, nil
	}
	return "", api.Errorf(api.CodeNotFound, "no job begins with %q", prefix)
}

func (f *fake) Events(_ context.Context, at api.Cursor, since time.Time, about event.Subject) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		f.mu.Lock()
		f.about = append(f.about, about)
		list, oldest := slices.Clone(f.log), f.oldest
		f.mu.Unlock()
		for s, seq := range oldest {
			if at[s] < seq {
				p := api.Errorf(api.CodeCompacted, "gone")
				p.Cursor = oldest.String()
				yield(event.Event{}, p)
				return
			}
		}
		for _, e := range list {
			if e.Seq <= at[e.Source] {
				continue
			}
			at.Advance(e.Source, e.Seq)
			if !e.HLC.Time().Before(since) && !yield(e, nil) {
				return
			}
		}
	}
}

func (f *fake) Release(_ context.Context, actor string, id job.ID) (api.Released, error) {
	f.did(actor)
	return api.Released{Job: id, Chunks: 3}, nil
}

func (f *fake) Groups(context.Context) (api.Groups, error) {
	return api.Groups{Groups: []api.Group{}}, nil
}

func (f *fake) SetGroup(_ context.Context, _ string, set event.GroupSet) (api.GroupSet, error) {
	return api.GroupSet{Name: set.Group, Members: len(set.Members)}, nil
}

func (f *fake) Reservations(context.Context) (api.Reservations, error) {
	return api.Reservations{Reservations: []api.Reservation{{Name: "nightly", Owner: "user:ann", Zone: "fra", Slots: 2, Until: time.Now().Add(time.Hour)}}}, nil
}

func (f *fake) SetReservation(_ context.Context, actor string, set event.ReservationSet) (api.Reservation, error) {
	f.did(actor)
	return api.Reservation{Name: set.Name, Owner: set.Owner, Zone: set.Zone, Slots: set.Slots}, nil
}

func (f *fake) WorkerGroups(ctx context.Context) (api.Workers, error) { return f.Workers(ctx) }

func (f *fake) Workers(context.Context) (api.Workers, error) {
	return api.Workers{Workers: []api.Worker{{Node: "n1"}}}, nil
}

func (f *fake) Zones(context.Context) (api.Zones, error) {
	return api.Zones{Holder: "n1", Term: 42, Zones: []api.Zone{{Zone: "fra", Health: "healthy", Hosts: 1, Alive: 1, RTTSeconds: new(0.01)}}}, nil
}

func (f *fake) WatchedZones(ctx context.Context) (api.Zones, error) { return f.Zones(ctx) }

func (f *fake) Knows(node cluster.NodeID) bool { return node != "n99" }

func (f *fake) Void(e event.Event) bool { return e.Term == 666 }

func (f *fake) Oldest() api.Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.oldest
}

func (f *fake) Debug(_ context.Context, _ string, node cluster.NodeID, _ api.DebugAsk) (api.DebugFiles, error) {
	if node == "n9" {
		return api.DebugFiles{}, api.Errorf(api.CodeNotReady, "n9 not reached")
	}
	return api.DebugFiles{Host: node, Version: "1", Files: []api.DebugFile{{Name: "status.json", Size: 1, Gzip: []byte{1}}}}, nil
}

func (f *fake) CheckLog(_ context.Context, node cluster.NodeID, run uint64) (api.LogCheck, error) {
	if node == "n9" {
		return api.LogCheck{}, api.Errorf(api.CodeNotReady, "n9 not reached")
	}
	return api.LogCheck{Host: node, Run: run + 1, Running: true}, nil
}

func (f *fake) Replay(_ context.Context, at api.ReplayAt) (api.LogReplay, error) {
	if len(at.Position) > 0 {
		return api.LogReplay{}, api.Errorf(api.CodeInvalidRequest, "at: not there")
	}
	return api.LogReplay{
		Position: at.Time.Format(time.RFC3339), Hindsight: at.Hindsight, Actions: []api.ReplayAction{{Kind: event.KindHostStarted}},
		Jobs: []api.ReplayJob{{ID: jobA, Owner: "user:ann"}, {ID: jobB, Owner: "user:sam"}},
	}, nil
}

func (f *fake) Density(_ context.Context, from, to time.Time, spans int) (api.LogDensity, error) {
	return api.LogDensity{From: from, To: to, Events: make([]uint64, spans)}, nil
}

// Proof has the log from an event on; its hashes are those that the log has.
func (f *fake) Proof(_ context.Context, src event.SourceID, seq uint64) (out api.EventProof, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.log {
		if e.Source != src || e.Seq < seq {
			continue
		}
		raw, err := record.AppendEvent(nil, e)
		if err != nil {
			return out, err
		}
		out.Events = append(out.Events, api.RawEvent{Source: src, Seq: e.Seq, Prev: e.Prev, Hash: e.Hash, Raw: raw})
		out.Head = event.Head{Source: src, Seq: e.Seq, Sig: make([]byte, 64)}
	}
	if len(out.Events) == 0 {
		return out, api.Errorf(api.CodeNotFound, "no event %d of %s", seq, src)
	}
	out.Cluster, out.Certs, out.RootKey = "blue", []string{"a.b", "c.d"}, make([]byte, 32)
	out.Checked = &api.EventCheck{At: time.Unix(1_800_000_000, 0).UTC(), OK: true}
	return out, nil
}

// fakeWatch watches the one job of a fake.
type fakeWatch struct {
	f  *fake
	id job.ID
}

func (f *fake) WatchJob(id job.ID) JobWatch                  { return fakeWatch{f, id} }
func (w fakeWatch) Job(ctx context.Context) (api.Job, error) { return w.f.Job(ctx, w.id) }
func (w fakeWatch) Changed() <-chan struct{}                 { return w.f.moreOfJob }
func (w fakeWatch) Close()                                   {}

func (f *fake) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *fake) CreateToken(_ context.Context, actor string, req api.TokenRequest) (api.TokenCreated, error) {
	f.did(actor)
	return api.TokenCreated{Token: api.Token{ID: "abc", Uses: req.Uses, Owner: req.Owner, ExpiresAt: time.Unix(int64(req.TTLSeconds), 0)}, Secret: "s3cret"}, nil
}
func (f *fake) Tokens(context.Context) (api.Tokens, error) { return api.Tokens{}, nil }
func (f *fake) RevokeToken(_ context.Context, actor, id string) error {
	f.did(actor)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revoked = id
	return nil
}

func (f *fake) PutArtefact(_ context.Context, r io.Reader) (cluster.Hash, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return cluster.Hash(h.Sum(nil)), n, err
}
func (f *fake) Healthy() error { return nil }
func (f *fake) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ready
}

func (f *fake) did(actor string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.actors = append(f.actors, actor)
}

var errNotJoined = errors.New("not joined yet")

func testEvent(seq uint64, kind event.Kind, at time.Time) event.Event {
	return event.Event{
		Source: event.SourceID{Node: "n1", Inc: 1}, Seq: seq, HLC: cluster.NewHLC(at, 0), Kind: kind, Body: []byte(`{"a":1}`),
	}
}

func (f *fake) Snapshots(context.Context) (api.LogSnapshots, error) {
	return api.LogSnapshots{Snapshots: []api.LogSnapshot{}}, nil
}

func (f *fake) TakeSnapshot(_ context.Context, actor string) (api.LogSnapshotTaken, error) {
	f.did(actor)
	return api.LogSnapshotTaken{}, nil
}

// Has reports whether the log is that long.
func (f *fake) Has(at api.Cursor) bool {
	have := f.Cursor()
	for s, seq := range at {
		if have[s] < seq {
			return false
		}
	}
	return true
}

func (f *fake) Agreed(context.Context) (api.Cursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.agreed, f.disagree
}
