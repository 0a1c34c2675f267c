package event

import (
	"bytes"
	"encoding/json"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// Class says how the log treats the events of a kind, as a set of flags.
type Class uint8

// Flags of a Class.
const (
	// Fact is a statement by its source. It needs no lease and is never void.
	Fact Class = 0
	// Authority is an exercise of the lease: it carries the writer's term and is
	// void beyond the cut of a later term.
	Authority Class = 1 << (iota - 1)
	// Essential gets through when a queue or a disk is nearly full.
	Essential
	// Compact kinds are so frequent that their bodies are written by AppendBody
	// and read by eventlog/state without reflection.
	Compact
)

// KindInfo declares a kind of event: all that this version knows of it, but for
// how eventlog/state folds it.
type KindInfo struct {
	Kind  Kind
	Class Class
	// Writer is the host that writes it, Meaning what it says; for people.
	Writer  string
	Meaning string
	// Body is an example of its body.
	Body any
}

// Level counts the sets of kinds that programs have known. Hosts tell each other
// theirs: nobody writes a kind that a member which lives would not understand.
const Level = 20

// classes is KindTable's column, by kind.
var classes = func() map[Kind]Class {
	m := map[Kind]Class{}
	for _, k := range KindTable() {
		m[k.Kind] = k.Class
	}
	return m
}()

// since lists the kinds that not every program knows, with the Level from which on
// they do.
var since = map[Kind]uint32{
	KindUserSet: 1, KindHostOwnerSet: 1, KindWorkerUp: 2, KindWorkerDown: 2, KindChunksStarted: 2, KindJobWaits: 3,
	KindWorkerEnrolled: 4, KindWorkerRevoked: 4, KindAccessSet: 4, KindGatewayOpened: 4,
	KindWorkerDrained: 5, KindPublishAsked: 6,
	KindFlowSubmitted: 7, KindStepsStarted: 7, KindStepsEnded: 7, KindFlowStopped: 7, KindFlowRetried: 7, KindFlowDone: 7, KindFlowsForgotten: 7,
	KindScheduleSet: 8, KindScheduleFired: 8,
	LogOfFailure():    9,
	KindHostLoad:      10,
	KindLoadRun:       11,
	FilesOfJob():      12,
	KindZoneHealth:    13,
	KeptJobs():        14,
	KindChunkExtended: 15,
	KindChunkSaved:    16, KindReservationSet: 16,
	HeldJobs():   17,
	KindJobZones: 18, QuorumOfRun(): 18,
	FailedOfWorkers(): 19,
	KeptRuns():        20,
}

// LogOfFailure is not a kind but a field that chunk_failed, an older kind, has had since
// a later Level: the fold keeps it, and older programs would not.
func LogOfFailure() Kind { return "chunk_failed with a log" }

// FilesOfJob is not a kind either: since a later Level jobs have files, outputs and a
// kind of result, and older programs would fold another job.
func FilesOfJob() Kind { return "job_submitted with files, outputs or a kind of result" }

// KeptJobs is not a kind either: since a later Level steps of runs have providers, and a
// try may continue the job of the one before.
func KeptJobs() Kind { return "steps_ended with kept jobs, steps_started with providers" }

// HeldJobs is not a kind either: since a later Level the jobs of steps that failed in
// part wait for a retry of the run, and providers leave larger values.
func HeldJobs() Kind { return "workflow_submitted with jobs that wait for a retry" }

// QuorumOfRun is not a kind either: since a later Level runs end once a given number of
// their steps have completed.
func QuorumOfRun() Kind { return "workflow_submitted with a quorum" }

// FailedOfWorkers is not a kind either: since a later Level the end of a job says on
// which workers chunks were given up, and the holder makes a run of a job that runs in
// each of several zones.
func FailedOfWorkers() Kind { return "job_done with chunks that were given up, by worker" }

// KeptRuns is no kind either: since a later Level a workflow says how long its runs are known
// after their end.
func KeptRuns() Kind { return "workflow_submitted with keep_seconds" }

// Kinds lists the kinds of event that this version knows, in the order of
// KindTable.
func Kinds() []Kind {
	table := KindTable()
	kinds := make([]Kind, len(table))
	for i, k := range table {
		kinds[i] = k.Kind
	}
	return kinds
}

// KindTable declares all kinds of event that this version knows, in the order
// in which docs/events.md, which is generated from it, explains them.
func KindTable() []KindInfo {
	key := []byte{0x3f, 0x01, 0x9a, 0x77}
	user := bytes.Repeat(key, 8)
	const onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"
	return []KindInfo{
		{KindHostStarted, Fact | Essential | Compact, "every host", "a daemon started", HostStarted{Version: "1.4.0", Boot: 1767225600}},
		{
			KindIncarnation, Fact | Essential, "every host", "its disk lost a part of its chain, or it took back what it wrote with a wrong clock, and it goes on with a new one", Incarnation{
				Previous: SourceMark{Source: SourceID{Node: "n4", Inc: 1}, Mark: Mark{Seq: 5120}},
				Reason:   "other hosts know more of n4/1 than the disk",
			},
		},
		{
			KindHostDisk, Fact | Essential, "every host", "the room for its event log is ok, low, full (no new work) or out (nothing can be written)",
			HostDisk{State: "low", Free: 900 << 20, Log: 3 << 30},
		},
		{
			KindHostLoad, Fact, "every host", "its level of load changed, and the old or the new one is high or above",
			HostLoad{Level: "high", Was: "elevated", Signal: "work delay", Score: 4.5},
		},
		{
			KindZoneHealth, Fact, "the holder", "the health of a zone changed, to or from degraded or unhealthy",
			ZoneHealth{Zone: "fra", Health: "unhealthy", Was: "healthy", Why: "none of 3 hosts is alive", Hosts: 3},
		},
		{
			KindConfigReloaded, Fact, "every host", "its configuration was read again and other settings hold",
			ConfigReloaded{Keys: []string{"lease.eligible"}},
		},
		{
			KindMemberJoined, Fact, "the sponsor", "a host was admitted; it spent one use of the invite. The founder writes its own",
			MemberJoined{Node: "n4", IDPub: key, IP4: "10.77.0.4", Invite: "k7f2"},
		},
		{KindMemberRenewed, Fact, "the sponsor", "a member was certified anew", MemberRenewed{Node: "n4", Expires: 1767225600}},
		{
			KindMemberRekeyed, Fact, "the member", "a host changed its WireGuard key",
			MemberRekeyed{Node: "n4", WGPub: key, Actor: "uid:0@n4"},
		},
		{
			KindMemberHealth, Fact, "the holder", "the holder believes something else of a member than the log says",
			MemberHealth{Node: "n4", From: cluster.Alive, To: cluster.Suspect},
		},
		{KindMemberLeft, Fact, "the member", "a host left for good", MemberLeft{Node: "n4", Actor: "uid:0@n4"}},
		{
			KindMemberRemoved, Fact, "the sponsor", "a member's key was revoked",
			MemberRemoved{Node: "n4", IDPub: key, Actor: "uid:0@n1", Reason: "disk lost"},
		},
		{
			KindMemberConflict, Fact, "the holder", "two valid records contradict each other",
			MemberConflict{Node: "n4", Why: "forked", Kept: "...", Other: "..."},
		},
		{
			KindTokenCreated, Fact, "the sponsor", "an operator made an invite",
			TokenChanged{Invite: "k7f2", Uses: 1, Expires: 1767225600, Actor: "uid:0@n1"},
		},
		{
			KindTokenRevoked, Fact, "the sponsor", "an operator revoked an invite",
			TokenChanged{Invite: "k7f2", Uses: 1, Expires: 1767225600, Actor: "uid:0@n1"},
		},
		{KindMTUBlackhole, Fact, "every host", "full packets to a peer vanish", MTUBlackhole{Peer: "n2", From: 1420, To: 1280}},
		{KindDuplicate, Fact, "every host", "two processes use the identity of one host", Duplicate{Host: "n4", Boot: 12}},
		{
			KindEquivocation, Fact, "the host that found out", "a host signed two histories of one chain, which ends where they part",
			Equivocation{Source: SourceID{Node: "n4", Inc: 1}, Seq: 5121},
		},
		{
			KindChainAhead, Fact, "each host that refuses it", "a chain runs ahead: its host wrote it with a wrong clock, and its events are refused",
			ChainAhead{Source: SourceID{Node: "n4", Inc: 1}, Seq: 5121, Seconds: 7185.5},
		},
		{KindTermStart, Authority | Essential, "the holder", "a term begins; its cut fences the lower terms", TermStart{
			Term: 7, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Grants: []cluster.NodeID{"n1", "n2"}, Previous: "n3",
			Cut:     Cut{{Source: SourceID{Node: "n3", Inc: 1}, Mark: Mark{Seq: 5120}}},
			Profile: cluster.ProfileLAN, ConfigTerm: 4, Epoch: 2,
		}},
		{KindLeaseReleased, Fact | Essential, "the holder", "the holder stepped down", LeaseReleased{Term: 7, Successor: "n2", Reason: "shutdown"}},
		{KindLeaseLost, Fact | Essential, "the holder that was", "the holder could not renew", LeaseLost{Term: 7, Reason: "no majority"}},
		{
			KindStepDownAsked, Fact, "the holder", "an operator asked the holder to hand over",
			StepDownAsked{Term: 7, Successor: "n2", Reason: "maintenance", Actor: "uid:0@n3"},
		},
		{
			KindVotersSet, Fact | Essential, "the holder, or the host that was forced", "an operator chose the voters or the mode",
			VotersSet{Voters: []cluster.NodeID{"n1", "n2", "n3"}, Mode: cluster.ModeQuorum, Actor: "uid:0@n1"},
		},
		{KindConfigChanged, Authority | Essential, "the holder", "a voter configuration became stable", ConfigChanged{
			Config: cluster.VoterConfig{Epoch: 3, Term: 7, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Mode: cluster.ModeQuorum, Issuer: "n2"},
		}},
		{
			KindPublishing, Fact, "every host", "a host took up or laid down the publishing duty",
			Publishing{Publishing: true, Term: 7, Publisher: "n2", Why: "holds the lease"},
		},
		{
			KindOnionSet, Fact, "a host with the address's key", "the cluster serves an onion address, no longer serves it, or serves it for other clients",
			OnionSet{Key: key, Version: 2, Clients: []OnionClient{{Name: "ann", Key: key}}, Actor: "uid:0@n1", Sig: key},
		},
		{
			KindOnionGranted, Fact, "the host that gave it", "a host got the key of an onion address and may publish",
			OnionGranted{Address: onion, Node: "n2", Actor: "uid:0@n1"},
		},
		{KindOnionDrained, Fact, "every host", "a host is out of the descriptors, or in them again", OnionDrained{Drained: true, Actor: "uid:0@n2"}},
		{KindOnionRotated, Fact, "every host", "a host took another onion key of its own", OnionRotated{From: onion, Actor: "uid:0@n2"}},
		{
			KindOnionTarget, Fact, "every host", "a service behind the onion addresses fails, or is back",
			OnionTarget{Target: "127.0.0.1:8080", Reason: "connection refused"},
		},
		{KindWrongMaster, Fact, "every host", "clients are sent to this host for an address that it does not know", OnionWrongMaster{Count: 3}},
		{
			KindPublishAsked, Fact, "the publisher", "an operator has new descriptors of an onion address made",
			PublishAsked{Address: onion, Term: 7, Actor: "uid:0@n2"},
		},
		{
			KindPublishDone, Fact, "the publisher", "clients find the new descriptor",
			PublishDone{Address: onion, Term: 7, Points: map[cluster.NodeID]int{"n1": 3, "n2": 3}, Stored: 6, Asked: 6, NextAt: 1_800_003_600},
		},
		{
			KindPublishFailed, Fact, "the publisher", "no descriptor could be made, or too few directories have it",
			PublishFailed{Address: onion, Term: 7, Stored: 1, Asked: 6, Reason: "too few directories have it"},
		},
		{KindPublishFenced, Fact, "the publisher", "a publisher of a later term is at work", PublishFenced{Address: onion, Term: 7, Later: 8}},
		{
			KindPublishForeign, Fact, "the publisher", "somebody outside of the cluster who has the address's key published with a higher revision",
			PublishForeign{Address: onion, Revision: 5_700_000_000, Dir: "0123456789ABCDEF0123456789ABCDEF01234567"},
		},
		{
			KindPublishRefused, Fact, "the publisher", "what a host sent as its descriptor cannot be used",
			PublishRefused{Address: onion, Node: "n3", Reason: "descriptor is older than the one before"},
		},
		{KindSnapshot, Fact | Essential, "the holder", "the voters agree on the fold of the log up to a cut", SnapshotTaken{
			Term: 7, Size: 48213, Heads: []Head{{Source: SourceID{Node: "n3", Inc: 1}, Seq: 5120}},
			Signatures: []Signature{{Node: "n1", Sig: key}, {Node: "n2", Sig: key}},
		}},
		{KindJobSubmitted, Authority, "the holder", "a job was accepted", JobSubmitted{Job: "j2kq6", Owner: "uid:1000@n1", Chunks: 10, Spec: job.Spec{
			Name: "pi", Key: "pi-1", Iterations: 1000, Chunk: 100, Seed: 1,
		}.WithDefaults()}},
		{KindJobQueued, Authority | Essential, "the holder", "a job was taken in and waits", JobWaiting{Job: "j2kq6", Reason: "0 of 3 workers eligible: n1, n2: not in zone mars; n3: draining"}},
		{KindJobWaits, Fact, "the holder", "nothing of a job runs though something is to be done, and why", JobWaits{
			Job: "j2kq6", Workers: 3, Reasons: []WaitReason{{Reason: "permission", Workers: 2}, {Reason: "zone", Workers: 1}},
		}},
		{KindJobZones, Authority, "the holder", "a zone that was chosen for a job is lost, and what has not begun runs in another", JobZones{
			Job: "j2kq6", Zones: []string{"ams", "rome"}, Reason: "zone fra: none of 3 hosts is alive",
		}},
		{KindJobStopped, Authority | Essential, "the holder", "a job is to end: somebody asked for it, or its time is over", JobStopped{Job: "j2kq6", Actor: "uid:1000@n1", Reason: "wrong seed"}},
		{KindJobDone, Authority | Essential, "the holder", "a job ended, and this is its result", JobDone{
			Job: "j2kq6", State: job.Partial, Reason: "1 of 10 chunks given up",
			Result: &job.Result{
				Accepted: 9, Failed: 1, Iterations: 900, Micros: 81_000_000,
				Metrics: map[string]job.Metric{"pi": {N: 900, Mean: 3.14, M2: 0.9, Min: 3, Max: 3.3}},
				Workers: []job.WorkShare{{Worker: "n2", Chunks: 9, Iterations: 900}}, Skipped: []job.Span{{First: 3, Last: 3}},
				GivenUp: []job.FailShare{{Worker: "n4", Chunks: 1}},
			},
		}},
		{KindJobsForgotten, Authority | Essential, "the holder", "jobs that ended long ago are forgotten", JobsForgotten{Jobs: []job.ID{"j2kq6"}}},
		{KindFlowSubmitted, Authority, "the holder", "a run of a workflow was accepted", WorkflowSubmitted{
			Run: "w7xk2", Owner: "uid:1000", Name: "sweep", Params: json.RawMessage(`{"day":"2026-11-24"}`),
			Def: json.RawMessage(`{"name":"sweep","step":[{"name":"price","job":{"executor":"exec","program":"price","iterations":1}}]}`),
		}},
		{KindStepsStarted, Authority, "the holder", "jobs were submitted for steps of a run", StepsStarted{
			Run: "w7xk2", Starts: []StepStart{{Step: "price", Index: 3, Round: 1, Try: 2, Job: "j2kq6"}},
		}},
		{KindStepsEnded, Authority | Essential, "the holder", "jobs of steps of a run ended, and these are their outputs", StepsEnded{
			Run: "w7xk2", Ends: []StepEnd{
				{Step: "price", Try: 1, State: flow.Completed, Outputs: map[string]json.RawMessage{"mean": json.RawMessage("3.14")}},
				{Step: "price", Index: 3, Round: 1, Try: 2, State: flow.Failed, Reason: "output mean: no metric pi", Final: true},
			},
		}},
		{KindFlowStopped, Authority | Essential, "the holder", "a run is to end", WorkflowStopped{
			Run: "w7xk2", Round: 1, Actor: "uid:1000@n1", Reason: "wrong day", Cause: flow.StopFailure, Now: true,
		}},
		{KindFlowRetried, Authority, "the holder", "what a run has not completed begins again", WorkflowRetried{
			Run: "w7xk2", Round: 1, From: "price", Actor: "uid:1000@n1",
		}},
		{KindFlowDone, Authority | Essential, "the holder", "a run ended", WorkflowDone{
			Run: "w7xk2", Round: 1, State: flow.Failed, Reason: "step price: exit 3",
		}},
		{KindFlowsForgotten, Authority | Essential, "the holder", "runs that ended long ago are forgotten", WorkflowsForgotten{Runs: []flow.RunID{"w7xk2"}}},
		{KindScheduleSet, Authority, "the holder", "somebody set when a workflow runs by itself, or ended that", ScheduleSet{
			Schedule: "s2kq6", Owner: "uid:1000", Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", Missed: flow.MissedLast,
			MissedSeconds: flow.DefaultMissed, Overlap: flow.OverlapSkip, Since: 1767225600, Params: json.RawMessage("{}"), Actor: "uid:1000@n1",
			Def: json.RawMessage(`{"name":"sweep","step":[{"name":"price","job":{"executor":"exec","program":"price","iterations":1}}]}`),
		}},
		{KindScheduleFired, Authority, "the holder", "a time of a schedule came: its run began, or why it did not", ScheduleFired{
			Schedule: "s2kq6", At: 1767231000, Run: "w7xk2", Missed: 2,
		}},
		{KindLoadRun, Authority | Essential, "the holder", "a load test that runs on hosts is in another state: somebody submitted or stopped it, it started, lost a host, or ended", LoadRun{
			Run: "l5xk2", Owner: "uid:1000", Name: "shop", Bundle: cluster.Hash(user), Hosts: 2, State: LoadEnded, Since: 1767225600, Actor: "uid:1000@n1",
			Slices: []LoadSlice{{Host: "n2", Share: 1}, {Host: "n3", Share: 1, Lost: "not heard for 15 s"}}, Verdict: "incomplete", Why: "n3 was lost", Report: cluster.Hash(user),
		}},
		{
			KindGroupSet, Authority, "the holder", "somebody said who belongs to a group",
			GroupSet{Group: "render", Members: []string{"node:n4", "uid:1000"}, Actor: "uid:0@n1"},
		},
		{
			KindReservationSet, Authority, "the holder", "an operator set for whose jobs slots of a zone are kept, or ended that",
			ReservationSet{Name: "nightly", Owner: "user:eve", Zone: "eu", Slots: 8, Until: 1767225600, Actor: "uid:0@n1"},
		},
		{
			KindUserSet, Authority, "the holder", "an operator said who a user is, what the user may do, and by which keys the user is known",
			UserSet{Name: "ann", Keys: [][]byte{user}, UIDs: []uint64{1000}, Role: "submitter", Actor: "uid:0@n1"},
		},
		{
			KindHostOwnerSet, Authority, "the holder", "an operator, or the invite with which it joined, said whose host it is",
			HostOwnerSet{Node: "n4", Owner: "user:ann", Actor: "uid:0@n1"},
		},
		{
			KindWorkerEnrolled, Authority, "the holder", "an operator said whose an outside worker is, which no host runs, and whether it is trusted", WorkerEnrolled{
				Worker: cluster.OutsideID(user), Key: user, Owner: "user:ann", Name: "attic", Zone: "home", Actor: "uid:0@n1",
			},
		},
		{
			KindWorkerRevoked, Authority, "the holder", "an operator shut an outside worker out for ever",
			WorkerRevoked{Worker: cluster.OutsideID(user), Actor: "uid:0@n1"},
		},
		{KindAccessSet, Authority, "the holder", "an operator made an access token, or revoked one", AccessSet{
			ID: "k7f2c3m5n2p4q6r7", Hash: cluster.Hash(user), Owner: "user:ann", Roles: []string{"submit", "watch"}, Expires: 1767225600, Actor: "uid:0@n1",
		}},
		{KindGatewayOpened, Fact, "every gateway", "a host serves as a gateway for outside workers", GatewayOpened{
			URL: "https://gw.example.org", KID: "n1-1", Key: user, Store: "memory", Until: 1767225600,
		}},
		{KindWorkerUp, Fact, "the holder", "a worker can be given chunks, or is something else than before", WorkerUp{
			Worker: "n2", Slots: 8, Executors: []string{"exec:render", "wasm"}, Owner: "user:ann",
			Accept: job.Acceptance{Accept: job.AcceptUser, Names: []string{"user:bob"}},
		}},
		{KindWorkerDown, Fact, "the holder", "a worker has not been reached for 10 s", WorkerDown{Worker: "n2", Reason: "lost"}},
		{KindWorkerDrained, Fact, "every host", "an operator had its worker begin no chunk, or undid that", WorkerDrained{Drained: true, Actor: "uid:0@n2"}},
		{KindChunksStarted, Fact, "the holder", "workers began to run chunks", ChunksStarted{
			Job: "j2kq6", Starts: []ChunkStart{{Chunk: 3, Attempt: 1, Worker: "n2", Seconds: 1.5}},
		}},
		{KindChunksAssigned, Authority | Compact, "the holder", "attempts were handed to workers", ChunksAssigned{
			Job: "j2kq6", Assignments: []job.Attempt{{Chunk: 3, Number: 1, Worker: "n2"}},
		}},
		{
			KindChunkFailed, Authority | Essential, "the holder", "an attempt ended without a result",
			ChunkFailed{Job: "j2kq6", Chunk: 3, Attempt: 1, Worker: "n2", Reason: "exit 3"},
		},
		{
			KindChunkReclaimed, Authority | Essential, "the holder", "an attempt was taken back",
			ChunkReclaimed{Job: "j2kq6", Chunk: 3, Attempt: 1, Worker: "n2", Reason: "timeout"},
		},
		{
			KindChunkExtended, Fact, "the holder", "an attempt asked for more time, and got some or none",
			ChunkExtended{Job: "j2kq6", Chunk: 3, Attempt: 1, Worker: "n2", AskedSeconds: 90, Seconds: 30, Reason: "the last frame is large"},
		},
		{
			KindChunkSaved, Authority, "the holder", "an attempt saved how far it is; the next one at its chunk continues from there",
			ChunkCheckpointed{Job: "j2kq6", Chunk: 3, Attempt: 1, Worker: "n2", Checkpoint: job.Checkpoint{File: job.File{Hash: cluster.Hash{3}, Size: 4096}, Done: 700}},
		},
		{KindChunksReleased, Authority, "the holder", "an operator lets chunks that were given up be tried again", ChunksReleased{
			Job: "j2kq6", Attempt: 3, Chunks: []job.Span{{First: 3, Last: 3}}, Actor: "uid:1000@n1",
		}},
		{KindChunkAccepted, Authority | Essential | Compact, "the holder", "a result became the chunk's", ChunkAccepted{
			Job: "j2kq6", Chunk: 3, Attempt: 2, Worker: "n3", Seconds: 8.5,
			Result: job.ChunkResult{Iterations: 100, Metrics: map[string]job.Metric{"pi": {N: 100, Mean: 3.14, M2: 0.1, Min: 3, Max: 3.3}}},
		}},
		{KindChunksAccepted, Authority | Essential | Compact, "the holder", "results became those of their chunks", ChunksAccepted{Job: "j2kq6", Accepts: []Accept{{
			Chunk: 3, Attempt: 2, Worker: "n3", Seconds: 8.5,
			Result: job.ChunkResult{Iterations: 100, Metrics: map[string]job.Metric{"pi": {N: 100, Mean: 3.14, M2: 0.1, Min: 3, Max: 3.3}}},
		}}}},
	}
}
