package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/registry"
)

// encoded returns the canonical bytes of s, which decode to an equal state.
func encoded(t testing.TB, s *State) []byte {
	t.Helper()
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.AppendBinary(nil)
	if err != nil || !bytes.Equal(again, b) {
		t.Fatalf("decoded and encoded again: %v, other bytes", err)
	}
	if d.Hash() != s.Hash() {
		t.Fatal("decoded: another hash")
	}
	if err := sameCounts(s, d); err != nil {
		t.Fatalf("decoded: %v", err)
	}
	return b
}

// example3 to example9 are example without what these versions did not know.
func example3() *State { return exampleOf(format3) }
func example4() *State { return exampleOf(format4) }
func example5() *State { return exampleOf(format5) }
func example6() *State { return exampleOf(format6) }
func example7() *State { return exampleOf(format7) }
func example8() *State { return exampleOf(format8) }
func example9() *State { return exampleOf(format9) }

// example has something in every table: all kinds of event, a fence that is
// not settled, and an event that waits for its submission.
func example() *State { return exampleOf(format13) }

func example12() *State { return exampleOf(format12) }

func example11() *State { return exampleOf(format11) }

func example10() *State { return exampleOf(format10) }

func exampleOf(version format) *State {
	a, b := newChain("a"), newChain("b")
	a.add(1, 0, event.KindHostStarted, event.HostStarted{Version: "1.4.0", Boot: 3})
	a.begin(2, 1, true)
	a.start(3, 2, a)
	a.submit(4, 2, "j1", testSpec("k", 60, 10))
	spec := testSpec("k2", 20, 10)
	spec.Priority, spec.Zones, spec.Permission.Access = 7, []string{"fsn", "hel"}, job.AccessOwner
	a.submit(5, 2, "j2", spec)
	a.add(5, 2, event.KindJobQueued, event.JobWaiting{Job: "j1", Reason: "no worker is fit for it"})
	a.assign(6, 2, "j1", job.Attempt{Chunk: 0, Number: 1, Worker: "w1"}, job.Attempt{Chunk: 1, Number: 1, Worker: "w2"},
		job.Attempt{Chunk: 2, Number: 1, Worker: "w1"})
	a.accept(7, 2, "j1", 0, 1, result(10, 1))
	a.accept(8, 2, "j1", 0, 2, result(10, 2))
	a.add(8, 2, event.KindChunksAccepted, event.ChunksAccepted{Job: "j1", Accepts: []event.Accept{
		{Chunk: 3, Attempt: 1, Worker: "w1", Seconds: 2, Result: result(10, 4)},
		{Chunk: 4, Attempt: 1, Worker: "w2", Seconds: 3, Result: result(10, 5), Settles: true},
	}})
	a.add(8, 2, event.KindChunkFailed, event.ChunkFailed{Job: "j1", Chunk: 5, Attempt: 1, Worker: "w2", Final: true, Parked: true})
	a.add(9, 2, event.KindChunkFailed, event.ChunkFailed{Job: "j1", Chunk: 1, Attempt: 1, Worker: "w2", Reason: "exit 3", Final: true})
	a.add(9, 2, event.KindChunkFailed, event.ChunkFailed{Job: "j1", Chunk: 2, Attempt: 2, Worker: "w2", Reason: "exit 4", Final: true})
	a.add(9, 2, event.KindChunksReleased, event.ChunksReleased{Job: "j1", Attempt: 2, Chunks: []job.Span{{First: 2, Last: 2}}, Actor: "uid:0@a"})
	a.add(10, 2, event.KindChunkReclaimed, event.ChunkReclaimed{Job: "j1", Chunk: 2, Attempt: 1, Worker: "w1", Reason: "timeout"})
	a.add(11, 2, event.KindJobStopped, event.JobStopped{Job: "j1", Actor: "uid:0@a", Reason: "wrong seed", Cause: job.StopStuck})
	r := result(20, 3)
	a.add(12, 2, event.KindJobDone, event.JobDone{Job: "j2", State: job.Completed, Result: &job.Result{
		Accepted: 2, Iterations: 20, Micros: 5, Metrics: r.Metrics, Workers: []job.WorkShare{{Worker: "w1", Chunks: 2, Iterations: 20}},
		Anomalies: []job.Anomaly{{Chunk: 1, Worker: "w1", Reason: "odd"}},
	}})
	a.add(13, 2, event.KindConfigChanged, event.ConfigChanged{Config: cluster.VoterConfig{
		Epoch: 2, Term: 2, Voters: []cluster.NodeID{"a", "b", "c"}, Mode: cluster.ModeQuorum, Issuer: "a",
	}})
	a.add(13, 2, event.KindJobsForgotten, event.JobsForgotten{Jobs: []job.ID{"j4"}})
	a.add(13, 2, event.KindGroupSet, event.GroupSet{Group: "render", Members: []string{"node:n4", "uid:1000"}, Actor: "uid:0@a"})
	if version != format3 {
		a.add(13, 2, event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter", Keys: [][]byte{bytes.Repeat([]byte{3}, 32)}, UIDs: []uint64{7, 1000}, Actor: "uid:0@a"})
		a.add(13, 2, event.KindUserSet, event.UserSet{Name: "bob", Role: "viewer", Disabled: true, Actor: "uid:0@a"})
		a.add(13, 2, event.KindHostOwnerSet, event.HostOwnerSet{Node: "b", Owner: "user:ann", Actor: "uid:0@a"})
		a.add(13, 2, event.KindHostOwnerSet, event.HostOwnerSet{Node: "c", Actor: "uid:0@a"})
	}
	if version.magic >= format9.magic {
		b := event.LoadRun{
			Run: event.NewLoadID("uid:1", "k"), Owner: "uid:1", Name: "shop", Bundle: cluster.Hash{3}, Hosts: 2, State: event.LoadStarted, Since: 12, Actor: "uid:1@a",
			Slices: []event.LoadSlice{{Host: "a", Share: 1}, {Host: "b", Share: 2, Lost: "not heard"}},
		}
		a.add(13, 2, event.KindLoadRun, b)
		b.Run, b.State, b.Verdict, b.Report = event.NewLoadID("uid:1", "k2"), event.LoadEnded, "passed", cluster.Hash{4}
		a.add(13, 2, event.KindLoadRun, b)
	}
	if version.magic >= format8.magic {
		a.add(13, 2, event.KindChunkFailed, event.ChunkFailed{Job: "j1", Chunk: 5, Attempt: 2, Worker: "w1", Reason: "exit 5", Log: cluster.Hash{8}})
		a.add(14, 2, event.KindChunkFailed, event.ChunkFailed{Job: "j2", Chunk: 1, Attempt: 7, Worker: "w2", Reason: "exit 5", Log: cluster.Hash{9}})
	}
	if version.magic >= format10.magic {
		spec := testSpec("k5", 20, 10)
		spec.Outputs, spec.Files = []string{"a", "b"}, map[string]cluster.Hash{"in": {5}}
		left := func(chunk byte) job.ChunkResult {
			r := result(10, float64(chunk))
			r.Outputs = job.Files{"a": {Hash: cluster.Hash{chunk, 1}, Size: 3}, "b": {Hash: cluster.Hash{chunk, 2}, Size: 1 << 20}}
			return r
		}
		for _, id := range []job.ID{"j5", "j6"} {
			a.submit(14, 2, id, spec)
			a.accept(14, 2, id, 0, 1, left(1))
		}
		a.accept(14, 2, "j6", 1, 1, left(2))
		a.accept(14, 2, "j6", 1, 2, left(3))
	}
	if version.magic >= format12.magic {
		spec := testSpec("k9", 20, 10)
		spec.Zones, spec.ZoneChoice = []string{"fra"}, &job.ZoneChoice{Count: 1, Among: []string{"ams", "fra"}, Prefer: []string{"fra"}}
		a.submit(14, 2, "j9", spec)
		a.add(14, 2, event.KindJobZones, event.JobZones{Job: "j9", Zones: []string{"ams"}, Reason: "zone fra: none of 3 hosts is alive"})
		a.add(14, 2, event.KindJobZones, event.JobZones{Job: "j0", Zones: []string{"ams"}}) // nobody submitted it
	}
	if version.magic >= format13.magic {
		a.submit(14, 2, "jb", testSpec("kb", 40, 10))
		a.add(14, 2, event.KindJobDone, event.JobDone{Job: "jb", State: job.Failed, Result: &job.Result{
			Failed: 4, Skipped: []job.Span{{First: 0, Last: 3}}, GivenUp: []job.FailShare{{Worker: "w1", Chunks: 1}, {Worker: "w3", Chunks: 2}}, // of one it is not told
		}})
	}
	if version.magic >= format11.magic {
		a.add(14, 2, event.KindReservationSet, event.ReservationSet{Name: "nightly", Owner: "user:ann", Zone: "eu", Slots: 8, Until: 1 << 32, Actor: "uid:0@a"})
		a.add(14, 2, event.KindReservationSet, event.ReservationSet{Name: "over", Owner: "user:ann", Zone: "eu", Until: 1 << 32, Actor: "uid:0@a"})
		spec := testSpec("k7", 20, 10)
		spec.Checkpoint = true
		a.submit(14, 2, "j7", spec)
		for attempt, worker := range []cluster.NodeID{"w1", "w2"} {
			a.add(14, 2, event.KindChunkSaved, event.ChunkCheckpointed{Job: "j7", Chunk: 1, Attempt: attempt + 1, Worker: worker, Checkpoint: job.Checkpoint{File: job.File{Hash: cluster.Hash{7}, Size: 1 << 20}, Done: 3}})
		}
	}
	if version.magic >= format10.magic {
		r := result(20, 3)
		a.add(14, 2, event.KindJobDone, event.JobDone{Job: "j6", State: job.Completed, Result: &job.Result{
			Accepted: 2, Disputed: 1, Iterations: 20, Micros: 5, Metrics: r.Metrics, Workers: []job.WorkShare{{Worker: "w1", Chunks: 2, Iterations: 20}},
			Outputs: &job.OutputSum{Manifest: cluster.Hash{9}, Files: 4, Bytes: 2<<20 + 6},
		}})
	}
	if version.magic >= format6.magic {
		run := flow.NewRunID("uid:1", "k")
		a.add(13, 2, event.KindFlowSubmitted, event.WorkflowSubmitted{
			Run: run, Owner: "uid:1", Name: "risk", Def: json.RawMessage(`{"step":[{"name":"a"}]}`), Params: json.RawMessage(`{"day":1}`),
		})
		a.add(13, 2, event.KindStepsStarted, event.StepsStarted{Run: run, Starts: []event.StepStart{{Step: "a", Try: 1, Job: "j1"}}})
		a.add(13, 2, event.KindStepsEnded, event.StepsEnded{Run: run, Ends: []event.StepEnd{
			{Step: "a", Try: 1, State: flow.Completed, Outputs: map[string]json.RawMessage{"mean": json.RawMessage("3.5")}},
		}})
		a.add(13, 2, event.KindFlowStopped, event.WorkflowStopped{Run: run, Actor: "uid:1@a", Reason: "enough", Now: true})
		a.add(13, 2, event.KindFlowDone, event.WorkflowDone{Run: run, State: flow.Cancelled, Reason: "enough"})
		a.add(13, 2, event.KindFlowRetried, event.WorkflowRetried{Run: run, Round: 1, From: "a", Actor: "uid:1@a"})
		a.add(13, 2, event.KindFlowsForgotten, event.WorkflowsForgotten{Runs: []flow.RunID{flow.NewRunID("uid:1", "k2")}})
	}
	if version.magic >= format7.magic {
		set := event.ScheduleSet{
			Schedule: flow.NewScheduleID("uid:1", "nightly"), Owner: "uid:1", Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", Missed: flow.MissedLast,
			MissedSeconds: 60, Overlap: flow.OverlapSkip, Since: 12, Def: json.RawMessage(`{"step":[{"name":"a"}]}`), Params: json.RawMessage(`{}`), Actor: "uid:1@a",
		}
		a.add(13, 2, event.KindScheduleSet, set)
		a.add(13, 2, event.KindScheduleFired, event.ScheduleFired{Schedule: set.Schedule, At: 90, Run: flow.NewRunID("uid:1", "k"), Missed: 3})
		a.add(13, 2, event.KindScheduleFired, event.ScheduleFired{Schedule: set.Schedule, At: 180, Skipped: "overlap"})
		set.Schedule, set.Name, set.Removed = flow.NewScheduleID("uid:1", "gone"), "gone", true
		a.add(13, 2, event.KindScheduleSet, set)
	}
	if version.magic >= format5.magic {
		w := enrolled(5, "user:ann")
		w.Name, w.Zone, w.Actor = "attic", "home", "uid:0@a"
		a.add(13, 2, event.KindWorkerEnrolled, w)
		w = enrolled(6, "node:b")
		w.Trusted = true
		a.add(13, 2, event.KindWorkerEnrolled, w)
		a.add(13, 2, event.KindWorkerRevoked, event.WorkerRevoked{Worker: w.Worker, Actor: "uid:0@a"})
		a.add(13, 2, event.KindWorkerRevoked, event.WorkerRevoked{Worker: enrolled(7, "").Worker, Actor: "uid:0@a"})
		a.add(13, 2, event.KindAccessSet, event.AccessSet{
			ID: "abcdefghijklmnop", Hash: cluster.Hash{1}, Owner: "user:ann", Roles: []string{"submit", "work"}, Expires: 1767225600, Actor: "uid:0@a",
		})
		a.add(13, 2, event.KindAccessSet, event.AccessSet{ID: "abcdefghijklmno2", Hash: cluster.Hash{2}, Owner: "user:ann", Expires: 1767225600})
		for _, kid := range []string{"k2", "k1", "k3"} { // of which the last two are kept
			a.add(13, 0, event.KindGatewayOpened, event.GatewayOpened{URL: "https://gw.example.org", KID: kid, Key: bytes.Repeat([]byte{4}, 32), Store: "memory", Until: 1767225600})
		}
	}
	a.add(13, 0, event.KindOnionSet, onionOf(1, 3, event.OnionClient{Name: "ann", Key: make([]byte, 32)}))
	a.accept(14, 2, "j3", 0, 1, result(10, 1)) // nobody submitted it
	a.add(15, 0, event.KindMemberJoined, event.MemberJoined{Node: "b", IDPub: []byte{1, 2}, IP4: "10.77.0.2", Invite: "i1"})
	a.add(16, 0, event.KindMemberRenewed, event.MemberRenewed{Node: "b", Expires: 1767225600})
	a.add(17, 0, event.KindMemberHealth, event.MemberHealth{Node: "b", From: cluster.Joining, To: cluster.Alive})
	a.add(18, 0, event.KindMemberRemoved, event.MemberRemoved{Node: "c", Actor: "uid:0@a", Reason: "disk lost"})
	a.add(19, 0, event.KindPublishing, event.Publishing{Publishing: true, Term: 2, Publisher: "a", Why: "holds the lease"})
	a.add(20, 0, event.KindTokenCreated, event.TokenChanged{Invite: "i1", Uses: 1, Expires: 9, Actor: "uid:0@a"})
	a.add(21, 0, event.KindLeaseReleased, event.LeaseReleased{Term: 2, Successor: "b", Reason: "maintenance"})
	a.add(22, 0, event.KindLeaseLost, event.LeaseLost{Term: 2, Reason: "the second word"})
	b.add(2, 0, event.KindHostDisk, event.HostDisk{State: "low", Free: 1, Log: 2})
	b.add(22, 0, event.KindMemberRekeyed, event.MemberRekeyed{Node: "b", WGPub: []byte{9}, Actor: "uid:0@b"})
	b.add(23, 0, event.KindMemberLeft, event.MemberLeft{Node: "b", Actor: "uid:0@b"})
	for range 3 { // of which two never arrive
		b.add(24, 0, event.KindDuplicate, event.Duplicate{Host: "c", Boot: 1})
	}
	a.start(25, 3, a, b)
	s := New()
	for _, e := range append(slices.Clone(a.events), b.events[:4]...) {
		if s.Apply(e) {
			panic("a rebuild")
		}
	}
	s.Fork(event.SourceID{Node: "d", Inc: 1}, 7)
	return s
}

// TestGoldenBytes holds the bytes of a state against those of the day when the
// format was made: other bytes need another version.
func TestGoldenBytes(t *testing.T) {
	golden(t, "state3.bin", format3, example3())
	golden(t, "state4.bin", format4, example4())
	golden(t, "state5.bin", format5, example5())
	golden(t, "state6.bin", format6, example6())
	golden(t, "state7.bin", format7, example7())
	golden(t, "state8.bin", format8, example8())
	golden(t, "state9.bin", format9, example9())
	golden(t, "state10.bin", format10, example10())
	golden(t, "state11.bin", format11, example11())
	golden(t, "state12.bin", format12, example12())
	s := golden(t, "state13.bin", format13, example())
	if j, ok := s.Job("jb"); !ok || !slices.Equal(j.GivenUp, []job.FailShare{{Worker: "w1", Chunks: 1}, {Worker: "w3", Chunks: 2}}) {
		t.Errorf("job of which chunks were given up %+v", j)
	}
	if j, ok := s.Job("j9"); !ok || !slices.Equal(j.Zones, []string{"ams"}) || !slices.Equal(j.Spec.Zones, []string{"fra"}) || j.Spec.ZoneChoice.Count != 1 {
		t.Errorf("job that moved %+v", j)
	}
	if r := s.Reservations(time.Unix(1<<32-1, 0)); len(r) != 1 || r[0].Name != "nightly" || r[0].Slots != 8 || len(s.Reservations(time.Unix(1<<32, 0))) != 0 {
		t.Errorf("reservations %+v", r)
	}
	if c, ok := s.Checkpoint("j7", 1); !ok || c.Attempt != 2 || c.Worker != "w2" || c.Hash != (cluster.Hash{7}) || c.Size != 1<<20 || c.Done != 3 || !s.Checkpoints()[c.Hash] {
		t.Errorf("checkpoint %+v, %t", c, ok)
	}
	if runs := s.Loads().Runs(); len(runs) != 2 || runs[0].Set == 0 || s.Artefacts()[cluster.Hash{4}] || !s.Artefacts()[cluster.Hash{3}] || !s.Kept()[cluster.Hash{4}] {
		t.Errorf("load tests %+v", runs)
	}
	u, ok := s.User("ann")
	if all := s.Users(); !ok || len(all.All) != 2 || u.Role != "submitter" || len(u.Keys) != 1 || !slices.Equal(u.UIDs, []uint64{7, 1000}) || s.Users() != all {
		t.Errorf("user %+v of %+v", u, all)
	}
	if own := s.Owners(); len(own) != 1 || own[0].Node != "b" || s.Owner("b") != "user:ann" || s.Owner("c") != "" || s.Owner("x") != "" {
		t.Errorf("owners %+v", own)
	}
	d, err := Decode(encoded(t, s))
	if err != nil {
		t.Fatal(err)
	}
	if w, ok := d.Outside().Worker(enrolled(5, "").Worker); !ok || w.Owner != "user:ann" || w.Name != "attic" || w.Zone != "home" || w.Trusted || w.Revoked {
		t.Errorf("outside worker %+v", w)
	}
	if w, ok := d.Outside().Worker(enrolled(6, "").Worker); !ok || !w.Trusted || !w.Revoked || w.RevokedBy != "uid:0@a" {
		t.Errorf("revoked worker %+v", w)
	}
	if _, ok := d.Outside().Worker(enrolled(7, "").Worker); ok || !d.Outside().Revoked(enrolled(7, "").Worker) {
		t.Error("a worker that was never enrolled is there, or is not revoked")
	}
	if tok, ok := d.Outside().Token("abcdefghijklmnop"); !ok || tok.Hash != (cluster.Hash{1}) || len(tok.Roles) != 2 {
		t.Errorf("access token %+v", tok)
	}
	if gws := d.Outside().Gateways(); len(gws) != 2 || gws[0].KID != "k1" || gws[1].KID != "k3" || gws[0].Node != "a" {
		t.Errorf("gateways %+v", gws)
	}
	if again, ok := d.User("ann"); !ok || !reflect.DeepEqual(again, u) {
		t.Errorf("decoded %+v, was %+v", again, u)
	}
	// No users in the bytes of version 4 is another encoding of version 3, and so on.
	for _, version := range []format{format4, format5, format6, format7, format8, format9, format10, format11, format12, format13} {
		b := encoded(t, New())
		b = append([]byte(version.magic), b[magicLen:]...)
		if _, err := Decode(b); !errors.Is(err, ErrEncoding) {
			t.Errorf("version %q of a state that has nothing of it: %v", version.hash, err)
		}
	}
}

func golden(t *testing.T, name string, version format, from *State) *State {
	t.Helper()
	b := encoded(t, from)
	path := filepath.Join("testdata", name)
	if _, err := os.Stat(path); os.Getenv("SKEIN_UPDATE") == "1" && errors.Is(err, fs.ErrNotExist) {
		// A file that is there is never replaced: other bytes are another version.
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Fatalf("the state of the golden events has other bytes: %d, want %d; that is another version: give it a magic and a file name of its own, "+
			"and SKEIN_UPDATE=1 go test ./eventlog/state -run Golden writes that file", len(b), len(want))
	}
	s, err := Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	rest := want[magicLen+8:]
	meaning := rest[:binary.BigEndian.Uint64(want[magicLen:])]
	if got := s.Hash(); got != sha256.Sum256(append([]byte(version.hash), meaning...)) {
		t.Errorf("hash %s is not that of the meaning", got)
	}
	m := s.Members()
	if len(m) != 3 || m[0].Status != MemberSeen || !m[0].Publishing || m[1].Status != MemberLeft || m[1].EndedBy != "uid:0@b" ||
		m[1].Health != cluster.Alive || m[1].Disk != "low" || m[1].Expires != 1767225600 || m[2].Status != MemberRemoved || m[2].Reason != "disk lost" {
		t.Errorf("members %+v", m)
	}
	if acts := s.Actions(); len(acts) != 4 || acts[0].Kind != event.KindMemberRemoved || acts[3].Actor != "uid:0@b" {
		t.Errorf("actions %+v", acts)
	}
	if j, _ := s.Job("j2"); j.State != job.Completed || j.Iterations != 20 || j.Aggregates[0].Mean != 3 || len(j.Workers) != 1 {
		t.Errorf("ended job %+v", j)
	}
	if s.Forks()[event.SourceID{Node: "d", Inc: 1}] != 7 || len(s.published.values()) != 1 || s.Voters().Epoch != 2 {
		t.Errorf("forks %v, publications %v, voters %v", s.Forks(), s.published.values(), s.Voters())
	}
	if last, _ := s.LastTerm(); last.Term != 3 || s.Terms()[1].Reason != "maintenance" || !s.Terms()[0].Split {
		t.Errorf("terms %+v", s.Terms())
	}
	return s
}

// TestDecodeRefuses changes every byte of an encoding, and cuts it off at every
// place.
func TestDecodeRefuses(t *testing.T) {
	want := example()
	b := encoded(t, want)
	flips := []byte{1, 0x80, 0xff}
	for i := range b {
		if _, err := Decode(b[:i]); !errors.Is(err, ErrEncoding) {
			t.Fatalf("the first %d bytes: %v", i, err)
		}
		c := slices.Clone(b)
		few := rounds(1, len(flips))
		for k := range few {
			c[i] = b[i] ^ flips[(i+k)%len(flips)]
			s, err := Decode(c)
			if err != nil {
				if !errors.Is(err, ErrEncoding) {
					t.Fatal(err)
				}
				continue
			}
			if !bytes.Equal(encoded(t, s), c) {
				t.Fatalf("byte %d: another encoding of one state was accepted", i)
			}
		}
	}
	if _, err := Decode(append(slices.Clone(b), 0)); !errors.Is(err, ErrEncoding) {
		t.Errorf("a byte too many: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, New()))
	f.Add(encoded(f, example()))
	f.Add(encoded(f, example3()))
	f.Add(encoded(f, example4()))
	f.Add(encoded(f, example5()))
	f.Add(encoded(f, example6()))
	f.Add(encoded(f, example7()))
	f.Add(encoded(f, example8()))
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 12))
		s, _ := fold(rng, history(rng)...)
		f.Add(encoded(f, s))
	}
	a := newChain("a")
	a.add(1, 0, event.KindHostStarted, event.HostStarted{})
	a.start(2, 1<<40)
	a.submit(3, 1<<40, "j9", testSpec("k", 60, 10))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		if !bytes.Equal(encoded(t, s), b) {
			t.Fatal("another encoding of one state was accepted")
		}
		// Whatever was accepted can be read and goes on.
		for _, j := range s.Jobs() {
			s.Job(j.ID)
			s.Open(j.ID)
			s.Result(j.ID)
		}
		s.Members()
		s.Terms()
		base := s.Clone()
		for _, e := range a.events {
			if s.Apply(e) {
				s.Refold(base, slices.Values(a.events))
			}
		}
		if s.stale {
			t.Fatal("stale after a rebuild")
		}
	})
}

// TestProgramIsEncoded: a job of a host program keeps its program.
func TestProgramIsEncoded(t *testing.T) {
	a := newChain("a")
	spec := testSpec("k", 60, 10)
	spec.Executor, spec.Program, spec.Artefact = job.ExecutorExec, "render", cluster.Hash{}
	a.start(1, 2, a)
	a.submit(2, 2, "j1", spec)
	s := New()
	for _, e := range a.events {
		s.Apply(e)
	}
	d, err := Decode(encoded(t, s))
	if err != nil {
		t.Fatal(err)
	}
	if j, ok := d.Job("j1"); !ok || !j.Spec.Equal(spec) {
		t.Errorf("decoded %+v, want %+v", j.Spec, spec)
	}
}

// TestEveryFieldIsEncoded fails when a type that the encoding writes field by
// field grows: then the encoding needs a new version.
func TestEveryFieldIsEncoded(t *testing.T) {
	for typ, want := range map[reflect.Type]int{
		reflect.TypeFor[event.HostStarted](): 2, reflect.TypeFor[member](): 9, reflect.TypeFor[admission](): 4, reflect.TypeFor[removal](): 2,
		reflect.TypeFor[Action](): 6, reflect.TypeFor[Publication](): 6, reflect.TypeFor[hosts](): 3,
		reflect.TypeFor[termInfo](): 5, reflect.TypeFor[olderTerms](): 3, reflect.TypeFor[release](): 4, reflect.TypeFor[leaseHistory](): 4,
		reflect.TypeFor[cluster.VoterConfig](): 11, reflect.TypeFor[group](): 2, reflect.TypeFor[onion](): 4, reflect.TypeFor[event.OnionClient](): 2,
		reflect.TypeFor[source](): 5, reflect.TypeFor[fence](): 3, reflect.TypeFor[fences](): 5, reflect.TypeFor[chains](): 5,
		reflect.TypeFor[bodies](): 2 /* with scratch, which means nothing */, reflect.TypeFor[State](): 15, reflect.TypeFor[beside](): 3, reflect.TypeFor[event.ReservationSet](): 6,
		reflect.TypeFor[users](): 2 /* with list, which follows from set */, reflect.TypeFor[event.UserSet](): 6, reflect.TypeFor[owner](): 2,
		reflect.TypeFor[registry.Registry](): 5 /* with sorted and moment, which follow from the others */, reflect.TypeFor[event.WorkerEnrolled](): 7, reflect.TypeFor[event.WorkerRevoked](): 2,
		reflect.TypeFor[event.AccessSet](): 6, reflect.TypeFor[event.GatewayOpened](): 5,
	} {
		if typ.NumField() != want {
			t.Errorf("%s has %d fields, the encoding knows %d", typ, typ.NumField(), want)
		}
	}
}

// TestLargeJob encodes a job of a million accepted chunks.
func TestLargeJob(t *testing.T) {
	chunks := 20_000
	if os.Getenv("SKEIN_PROVE") == "1" {
		chunks = job.MaxChunks
	}
	a := newChain("a")
	a.start(1, 1)
	a.submit(2, 1, "j1", testSpec("k", 10*uint64(chunks), 10))
	s := New()
	for _, e := range a.events {
		s.Apply(e)
	}
	rng := rand.New(rand.NewPCG(1, 13))
	for i := range chunks {
		worker := cluster.NodeID(fmt.Sprintf("host-%d", i%50))
		e := a.add(1<<60, 1, event.KindChunkAccepted, event.ChunkAccepted{
			Job: "j1", Chunk: i, Attempt: 1, Worker: worker, Result: result(10, rng.NormFloat64()), Seconds: 10,
		})
		a.events = a.events[:2] // a million would take much memory
		e.Seq = uint64(3 + i)
		s.Apply(e)
	}
	if j, _ := s.Job("j1"); j.Counts.Accepted != chunks {
		t.Fatalf("%d of %d results were accepted", j.Counts.Accepted, chunks)
	}
	start := time.Now()
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	wrote := time.Since(start)
	start = time.Now()
	d, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	read := time.Since(start)
	start = time.Now()
	hash := s.Hash()
	t.Logf("%d chunks: %d bytes, %.1f per chunk; written in %v, read and checked in %v, hashed in %v",
		chunks, len(b), float64(len(b))/float64(chunks), wrote, read, time.Since(start))
	if d.Hash() != hash {
		t.Error("another hash")
	}
	if per := len(b) / chunks; per > 150_000_000/job.MaxChunks {
		t.Errorf("%d bytes per chunk", per)
	}
	sealed, _ := s.Result("j1")
	e := a.add(1<<61, 1, event.KindJobDone, event.JobDone{Job: "j1", State: job.Completed, Result: &sealed})
	before, _ := s.Job("j1")
	e.Seq = uint64(3 + chunks)
	s.Apply(e)
	after, _ := s.Job("j1")
	before.State, before.Finished = after.State, after.Finished
	if !reflect.DeepEqual(before, after) {
		t.Errorf("sealed %+v, was %+v", after, before)
	}
	if b := encoded(t, s); len(b) > 5000 {
		t.Errorf("an ended job takes %d bytes", len(b))
	}
}
