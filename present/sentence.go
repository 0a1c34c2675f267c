package present

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// Sentence says in one line what an event is about: of which kind it is and who
// wrote it stands beside it. An event of a kind that this version does not know,
// or whose body is not what its kind says, is shown as its kind and body. Bodies come
// from other hosts: no control character gets through.
func Sentence(writer cluster.NodeID, kind event.Kind, body json.RawMessage) string {
	text := string(kind) + ": " + string(body)
	if say := sentences[kind]; say != nil {
		if s, err := say(writer, body); err == nil {
			text = s
		}
	}
	return Plain(text)
}

// wholeID are the ids of jobs, runs of workflows and load tests, which differ by their beginnings.
var wholeID = regexp.MustCompile(`\b([jwl][a-z2-7]{8})[a-z2-7]{18}\b`)

// Brief is a sentence for a screen whose lines are cut: of ids it has the beginning, by
// which every command finds what is meant.
func Brief(sentence string) string { return wholeID.ReplaceAllString(sentence, "$1") }

// instance names a try at an instance of a step.
func instance(step string, index, try int) string {
	out := step
	if index > 0 {
		out += fmt.Sprintf("[%d]", index)
	}
	if try > 1 {
		out += fmt.Sprintf(" (try %d)", try)
	}
	return out
}

// Plain replaces what a terminal might obey, and the ends of lines.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

type sayer func(writer cluster.NodeID, body json.RawMessage) (string, error)

// of makes a sayer of what it says of a body of its kind.
func of[B any](say func(writer cluster.NodeID, b B) string) sayer {
	return func(writer cluster.NodeID, body json.RawMessage) (string, error) {
		var b B
		if err := json.Unmarshal(body, &b); err != nil {
			return "", err
		}
		return say(writer, b), nil
	}
}

var sentences = map[event.Kind]sayer{
	event.KindHostStarted: of(func(w cluster.NodeID, b event.HostStarted) string {
		return fmt.Sprintf("%s started, version %s", w, b.Version)
	}),
	event.KindIncarnation: of(func(w cluster.NodeID, b event.Incarnation) string {
		return fmt.Sprintf("%s goes on with a new chain after event %d of %s%s", w, b.Previous.Seq, b.Previous.Source, because(b.Reason))
	}),
	event.KindHostDisk: of(func(w cluster.NodeID, b event.HostDisk) string {
		s := fmt.Sprintf("disk of %s: room for the log is %s", w, b.State)
		if b.Free >= 0 {
			s += fmt.Sprintf(", %s free", BytesOf(uint64(b.Free)))
		}
		return s
	}),
	event.KindHostLoad: of(func(w cluster.NodeID, b event.HostLoad) string {
		return fmt.Sprintf("load of %s is %s by %s, was %s", w, b.Level, OrDash(b.Signal), b.Was)
	}),
	event.KindZoneHealth: of(func(_ cluster.NodeID, b event.ZoneHealth) string {
		return fmt.Sprintf("zone %s is %s, was %s%s", b.Zone, b.Health, b.Was, because(b.Why))
	}),
	event.KindConfigReloaded: of(func(w cluster.NodeID, b event.ConfigReloaded) string {
		return fmt.Sprintf("%s read its configuration again: %s changed", w, list(b.Keys))
	}),
	event.KindMemberJoined: of(func(w cluster.NodeID, b event.MemberJoined) string {
		if b.Invite == "" {
			return fmt.Sprintf("%s founded the cluster, address %s", b.Node, b.IP4)
		}
		return fmt.Sprintf("%s joined by %s with invite %s, address %s", b.Node, w, b.Invite, b.IP4)
	}),
	event.KindMemberRenewed: of(func(w cluster.NodeID, b event.MemberRenewed) string {
		return fmt.Sprintf("%s certified %s until %s", w, b.Node, date(b.Expires))
	}),
	event.KindMemberRekeyed: of(func(_ cluster.NodeID, b event.MemberRekeyed) string {
		return fmt.Sprintf("%s changed its WireGuard key%s", b.Node, by(b.Actor))
	}),
	event.KindMemberHealth: of(func(_ cluster.NodeID, b event.MemberHealth) string {
		if b.Stopped {
			return fmt.Sprintf("%s stopped, was %s", b.Node, b.From)
		}
		return fmt.Sprintf("%s is %s, was %s", b.Node, b.To, b.From)
	}),
	event.KindMemberLeft: of(func(_ cluster.NodeID, b event.MemberLeft) string {
		return fmt.Sprintf("%s left for good%s", b.Node, by(b.Actor))
	}),
	event.KindMemberRemoved: of(func(_ cluster.NodeID, b event.MemberRemoved) string {
		return fmt.Sprintf("%s was removed%s%s", b.Node, by(b.Actor), because(b.Reason))
	}),
	event.KindMemberConflict: of(func(_ cluster.NodeID, b event.MemberConflict) string {
		return fmt.Sprintf("two valid records of %s contradict each other: %s", b.Node, b.Why)
	}),
	event.KindTokenCreated: of(func(_ cluster.NodeID, b event.TokenChanged) string {
		return fmt.Sprintf("invite %s made for %s until %s%s", b.Invite, count(b.Uses, "host"), date(b.Expires), by(b.Actor))
	}),
	event.KindTokenRevoked: of(func(_ cluster.NodeID, b event.TokenChanged) string {
		return fmt.Sprintf("invite %s revoked%s", b.Invite, by(b.Actor))
	}),
	event.KindMTUBlackhole: of(func(w cluster.NodeID, b event.MTUBlackhole) string {
		return fmt.Sprintf("full packets from %s to %s vanish: %d bytes now, were %d", w, b.Peer, b.To, b.From)
	}),
	event.KindDuplicate: of(func(_ cluster.NodeID, b event.Duplicate) string {
		return fmt.Sprintf("two processes use the identity of %s", b.Host)
	}),
	event.KindEquivocation: of(func(_ cluster.NodeID, b event.Equivocation) string {
		return fmt.Sprintf("%s signed two histories of chain %s, which differ from event %d on", b.Source.Node, b.Source, b.Seq)
	}),
	event.KindChainAhead: of(func(_ cluster.NodeID, b event.ChainAhead) string {
		return fmt.Sprintf("chain %s runs %s ahead of the clocks: its events from %d on are refused", b.Source, Age(b.Seconds), b.Seq)
	}),

	event.KindTermStart: of(func(w cluster.NodeID, b event.TermStart) string {
		s := fmt.Sprintf("term %d: %s holds the lease, granted by %s of %s", b.Term, w, list(b.Grants), count(len(b.Voters), "voter"))
		if b.Previous != "" && b.Previous != w {
			s += ", after " + string(b.Previous)
		}
		return s
	}),
	event.KindLeaseReleased: of(func(w cluster.NodeID, b event.LeaseReleased) string {
		s := fmt.Sprintf("%s gave up the lease of term %d", w, b.Term)
		if b.Successor != "" {
			s += " to " + string(b.Successor)
		}
		return s + because(b.Reason)
	}),
	event.KindLeaseLost: of(func(w cluster.NodeID, b event.LeaseLost) string {
		return fmt.Sprintf("%s lost the lease of term %d%s", w, b.Term, because(b.Reason))
	}),
	event.KindStepDownAsked: of(func(w cluster.NodeID, b event.StepDownAsked) string {
		s := fmt.Sprintf("%s was asked to hand the lease of term %d over", w, b.Term)
		if b.Successor != "" {
			s += " to " + string(b.Successor)
		}
		return s + by(b.Actor) + because(b.Reason)
	}),
	event.KindVotersSet: of(func(_ cluster.NodeID, b event.VotersSet) string {
		s := "voters wanted: "
		if b.Auto {
			s += "chosen by the holder"
		} else {
			s += list(b.Voters)
		}
		if b.Mode != "" {
			s += fmt.Sprintf(", mode %s", b.Mode)
		}
		if b.Forced {
			s += fmt.Sprintf(", forced: %s left behind", list(b.Previous))
		}
		return s + by(b.Actor)
	}),
	event.KindConfigChanged: of(func(_ cluster.NodeID, b event.ConfigChanged) string {
		return fmt.Sprintf("voters are %s, mode %s", list(b.Config.Voters), b.Config.Mode)
	}),

	event.KindPublishing: of(func(w cluster.NodeID, b event.Publishing) string {
		if b.Publishing {
			return fmt.Sprintf("%s publishes: %s", w, b.Why)
		}
		return fmt.Sprintf("%s no longer publishes: %s", w, b.Why)
	}),
	event.KindOnionSet: of(func(_ cluster.NodeID, b event.OnionSet) string {
		switch {
		case b.Removed:
			return "an onion address is no longer served" + by(b.Actor)
		case len(b.Clients) > 0:
			return fmt.Sprintf("an onion address is served for %s%s", count(len(b.Clients), "client"), by(b.Actor))
		}
		return "an onion address is served" + by(b.Actor)
	}),
	event.KindOnionGranted: of(func(_ cluster.NodeID, b event.OnionGranted) string {
		return fmt.Sprintf("%s got the key of %s%s", b.Node, short(b.Address), by(b.Actor))
	}),
	event.KindOnionDrained: of(func(w cluster.NodeID, b event.OnionDrained) string {
		if b.Drained {
			return fmt.Sprintf("%s is out of the descriptors%s", w, by(b.Actor))
		}
		return fmt.Sprintf("%s is in the descriptors again%s", w, by(b.Actor))
	}),
	event.KindOnionRotated: of(func(w cluster.NodeID, b event.OnionRotated) string {
		return fmt.Sprintf("%s took another onion key of its own%s", w, by(b.Actor))
	}),
	event.KindOnionTarget: of(func(w cluster.NodeID, b event.OnionTarget) string {
		if b.Healthy {
			return fmt.Sprintf("service %s on %s is healthy again", b.Target, w)
		}
		return fmt.Sprintf("service %s on %s fails%s", b.Target, w, because(b.Reason))
	}),
	event.KindWrongMaster: of(func(w cluster.NodeID, b event.OnionWrongMaster) string {
		return fmt.Sprintf("clients are sent to %s for an address that it does not know, %s", w, count(b.Count, "time"))
	}),
	event.KindPublishAsked: of(func(w cluster.NodeID, b event.PublishAsked) string {
		return fmt.Sprintf("%s is to publish %s anew under term %d%s", w, short(b.Address), b.Term, by(b.Actor))
	}),
	event.KindPublishDone: of(func(_ cluster.NodeID, b event.PublishDone) string {
		var hosts []string
		for _, n := range slices.Sorted(maps.Keys(b.Points)) {
			hosts = append(hosts, fmt.Sprintf("%s %d", n, b.Points[n]))
		}
		s := fmt.Sprintf("descriptor of %s is on %d of %d directories", short(b.Address), b.Stored, b.Asked)
		if len(hosts) > 0 {
			s += ", points: " + strings.Join(hosts, ", ")
		}
		return s
	}),
	event.KindPublishFailed: of(func(_ cluster.NodeID, b event.PublishFailed) string {
		return fmt.Sprintf("descriptor of %s is on %d of %d directories%s", short(b.Address), b.Stored, b.Asked, because(b.Reason))
	}),
	event.KindPublishFenced: of(func(_ cluster.NodeID, b event.PublishFenced) string {
		return fmt.Sprintf("publisher of term %d gave way to one of term %d for %s", b.Term, b.Later, short(b.Address))
	}),
	event.KindPublishForeign: of(func(_ cluster.NodeID, b event.PublishForeign) string {
		return fmt.Sprintf("somebody outside of the cluster published %s, revision %d at %.8s", short(b.Address), b.Revision, b.Dir)
	}),
	event.KindPublishRefused: of(func(_ cluster.NodeID, b event.PublishRefused) string {
		return fmt.Sprintf("what %s sent for %s cannot be used%s", b.Node, short(b.Address), because(b.Reason))
	}),
	event.KindSnapshot: of(func(_ cluster.NodeID, b event.SnapshotTaken) string {
		return fmt.Sprintf("snapshot of %s, signed by %s%s", BytesOf(uint64(max(0, b.Size))), count(len(b.Signatures), "voter"), by(b.Actor))
	}),

	event.KindJobSubmitted: of(func(_ cluster.NodeID, b event.JobSubmitted) string {
		name := ""
		if b.Spec.Name != "" {
			name = " (" + b.Spec.Name + ")"
		}
		return fmt.Sprintf("job %s%s of %s: %d iterations in %s", b.Job, name, b.Owner, b.Spec.Iterations, count(b.Chunks, "chunk"))
	}),
	event.KindJobQueued: of(func(_ cluster.NodeID, b event.JobWaiting) string {
		return fmt.Sprintf("job %s waits%s", b.Job, because(b.Reason))
	}),
	event.KindJobStopped: of(func(_ cluster.NodeID, b event.JobStopped) string {
		if b.Cause != "" {
			return fmt.Sprintf("job %s is to end: %s", b.Job, b.Cause)
		}
		return fmt.Sprintf("job %s is to end%s%s", b.Job, by(b.Actor), because(b.Reason))
	}),
	event.KindJobDone: of(func(_ cluster.NodeID, b event.JobDone) string {
		s := fmt.Sprintf("job %s: %s%s", b.Job, b.State, because(b.Reason))
		if b.Result != nil {
			s += fmt.Sprintf("; %s, %d iterations", count(b.Result.Accepted, "chunk"), b.Result.Iterations)
		}
		return s
	}),
	event.KindJobsForgotten: of(func(_ cluster.NodeID, b event.JobsForgotten) string {
		return fmt.Sprintf("%s forgotten: %s", count(len(b.Jobs), "job"), list(b.Jobs))
	}),
	event.KindFlowSubmitted: of(func(_ cluster.NodeID, b event.WorkflowSubmitted) string {
		return fmt.Sprintf("%s submitted run %s of workflow %s", b.Owner, ShortRun(b.Run), OrDash(b.Name))
	}),
	event.KindStepsStarted: of(func(_ cluster.NodeID, b event.StepsStarted) string {
		var list []string
		for _, s := range b.Starts {
			of := ""
			if s.Provider {
				of = "the provider of "
			}
			list = append(list, fmt.Sprintf("%s%s as job %s", of, instance(s.Step, s.Index, s.Try), Short(s.Job)))
		}
		return fmt.Sprintf("run %s: began %s", ShortRun(b.Run), Joined(list))
	}),
	event.KindStepsEnded: of(func(_ cluster.NodeID, b event.StepsEnded) string {
		var list []string
		for _, s := range b.Ends {
			kept := ""
			if s.Kept {
				kept = ", its job is kept"
			}
			list = append(list, fmt.Sprintf("%s %s%s%s", instance(s.Step, s.Index, s.Try), s.State, because(s.Reason), kept))
		}
		return fmt.Sprintf("run %s: ended %s", ShortRun(b.Run), Joined(list))
	}),
	event.KindFlowStopped: of(func(_ cluster.NodeID, b event.WorkflowStopped) string {
		return fmt.Sprintf("%s stopped run %s%s", b.Actor, ShortRun(b.Run), because(cmp.Or(b.Reason, string(b.Cause))))
	}),
	event.KindFlowRetried: of(func(_ cluster.NodeID, b event.WorkflowRetried) string {
		from := "what is not completed"
		if b.From != "" {
			from = "step " + b.From + " and all behind it"
		}
		return fmt.Sprintf("%s began %s of run %s again", b.Actor, from, ShortRun(b.Run))
	}),
	event.KindFlowDone: of(func(_ cluster.NodeID, b event.WorkflowDone) string {
		return fmt.Sprintf("run %s is %s%s", ShortRun(b.Run), b.State, because(b.Reason))
	}),
	event.KindScheduleSet: of(func(_ cluster.NodeID, b event.ScheduleSet) string {
		switch {
		case b.Removed:
			return fmt.Sprintf("schedule %s of %s was removed%s", b.Name, b.Owner, by(b.Actor))
		case b.Paused:
			return fmt.Sprintf("schedule %s of %s is paused%s", b.Name, b.Owner, by(b.Actor))
		}
		return fmt.Sprintf("schedule %s of %s: %s in %s%s", b.Name, b.Owner, b.Cron, cmp.Or(b.Zone, "UTC"), by(b.Actor))
	}),
	event.KindLoadRun: of(func(_ cluster.NodeID, b event.LoadRun) string {
		id := string(b.Run)[:min(len(b.Run), 9)]
		switch {
		case b.State == event.LoadEnded:
			return fmt.Sprintf("load test %s ended: %s%s", id, b.Verdict, because(b.Why))
		case b.Stop != "":
			return fmt.Sprintf("load test %s is to end%s%s", id, because(b.Stop), by(b.Actor))
		case b.State == event.LoadStarted:
			var lost []string
			for _, s := range b.Slices {
				if s.Lost != "" {
					lost = append(lost, string(s.Host)+" is lost: "+s.Lost)
				}
			}
			return fmt.Sprintf("load test %s runs on %s%s", id, count(len(b.Slices), "host"), because(strings.Join(lost, "; ")))
		}
		return fmt.Sprintf("load test %s %q of %s waits for its hosts%s", id, b.Name, b.Owner, by(b.Actor))
	}),
	event.KindScheduleFired: of(func(_ cluster.NodeID, b event.ScheduleFired) string {
		s := fmt.Sprintf("schedule %s, %s: ", string(b.Schedule)[:min(len(b.Schedule), 9)], time.Unix(b.At, 0).UTC().Format(time.RFC3339))
		if b.Run != "" {
			s += "began run " + ShortRun(b.Run)
		} else {
			s += "no run, " + b.Skipped
		}
		if b.Missed > 0 {
			s += fmt.Sprintf("; %s before it missed", count(b.Missed, "time"))
		}
		return s
	}),
	event.KindFlowsForgotten: of(func(_ cluster.NodeID, b event.WorkflowsForgotten) string {
		var list []string
		for _, id := range b.Runs {
			list = append(list, ShortRun(id))
		}
		return "runs forgotten: " + Joined(list)
	}),
	event.KindGroupSet: of(func(_ cluster.NodeID, b event.GroupSet) string {
		if len(b.Members) == 0 {
			return fmt.Sprintf("group %s was removed%s", b.Group, by(b.Actor))
		}
		return fmt.Sprintf("group %s has %s: %s%s", b.Group, count(len(b.Members), "member"), list(b.Members), by(b.Actor))
	}),
	event.KindReservationSet: of(func(_ cluster.NodeID, b event.ReservationSet) string {
		if b.Slots == 0 {
			return fmt.Sprintf("reservation %s has ended%s", b.Name, by(b.Actor))
		}
		return fmt.Sprintf("reservation %s keeps %s of zone %s for %s until %s%s", b.Name, Plural(b.Slots, "slot"), b.Zone, b.Owner, Stamp(time.Unix(b.Until, 0).UTC()), by(b.Actor))
	}),
	event.KindUserSet: of(func(_ cluster.NodeID, b event.UserSet) string {
		if b.Disabled {
			return fmt.Sprintf("user %s is disabled%s", b.Name, by(b.Actor))
		}
		return fmt.Sprintf("user %s is %s, with %s%s", b.Name, b.Role, count(len(b.Keys), "key"), by(b.Actor))
	}),
	event.KindHostOwnerSet: of(func(_ cluster.NodeID, b event.HostOwnerSet) string {
		if b.Owner == "" {
			return fmt.Sprintf("%s is nobody's in particular%s", b.Node, by(b.Actor))
		}
		return fmt.Sprintf("%s is the host of %s%s", b.Node, b.Owner, by(b.Actor))
	}),
	event.KindWorkerEnrolled: of(func(_ cluster.NodeID, b event.WorkerEnrolled) string {
		trust := "a stranger"
		if b.Trusted {
			trust = "trusted as a host is"
		}
		if b.Name != "" {
			trust += fmt.Sprintf(", called %s", b.Name)
		}
		return fmt.Sprintf("outside worker %s is %s's, %s, in zone %s%s", b.Worker, b.Owner, trust, cmp.Or(b.Zone, cluster.OutsideZone), by(b.Actor))
	}),
	event.KindWorkerRevoked: of(func(_ cluster.NodeID, b event.WorkerRevoked) string {
		return fmt.Sprintf("outside worker %s is shut out for ever%s", b.Worker, by(b.Actor))
	}),
	event.KindAccessSet: of(func(_ cluster.NodeID, b event.AccessSet) string {
		if len(b.Roles) == 0 {
			return fmt.Sprintf("access token %s of %s is revoked%s", b.ID, b.Owner, by(b.Actor))
		}
		return fmt.Sprintf("access token %s of %s may %s until %s%s", b.ID, b.Owner, strings.Join(b.Roles, ", "), Stamp(time.Unix(b.Expires, 0)), by(b.Actor))
	}),
	event.KindGatewayOpened: of(func(n cluster.NodeID, b event.GatewayOpened) string {
		return fmt.Sprintf("%s is a gateway at %s, by key %s until %s", n, b.URL, b.KID, Stamp(time.Unix(b.Until, 0)))
	}),
	event.KindJobZones: of(func(_ cluster.NodeID, b event.JobZones) string {
		return fmt.Sprintf("job %s goes on in %s%s", b.Job, list(b.Zones), because(b.Reason))
	}),
	event.KindJobWaits: of(func(_ cluster.NodeID, b event.JobWaits) string {
		w := api.Waiting{Workers: b.Workers, Eligible: b.Eligible}
		for _, r := range b.Reasons {
			w.Reasons = append(w.Reasons, api.WaitReason{Reason: r.Reason, Text: r.Reason, Workers: r.Workers})
		}
		return fmt.Sprintf("job %s waits: %s", b.Job, Waiting(w))
	}),
	event.KindWorkerUp: of(func(_ cluster.NodeID, b event.WorkerUp) string {
		return fmt.Sprintf("worker %s of %s: %s at once of %s, accepts %s", b.Worker, b.Owner, count(b.Slots, "chunk"), list(b.Executors), b.Accept)
	}),
	event.KindWorkerDown: of(func(_ cluster.NodeID, b event.WorkerDown) string {
		return fmt.Sprintf("worker %s is down%s", b.Worker, because(b.Reason))
	}),
	event.KindWorkerDrained: of(func(w cluster.NodeID, b event.WorkerDrained) string {
		if b.Drained {
			return fmt.Sprintf("worker %s finishes what it has and begins no chunk%s", w, by(b.Actor))
		}
		return fmt.Sprintf("worker %s begins chunks again%s", w, by(b.Actor))
	}),
	event.KindChunksStarted: of(func(_ cluster.NodeID, b event.ChunksStarted) string {
		chunks := make(map[cluster.NodeID][]job.Span)
		for _, a := range b.Starts {
			chunks[a.Worker] = append(chunks[a.Worker], job.Span{First: a.Chunk, Last: a.Chunk})
		}
		return fmt.Sprintf("job %s: %s", b.Job, shares(chunks, "began on "))
	}),
	event.KindChunksAssigned: of(func(_ cluster.NodeID, b event.ChunksAssigned) string {
		chunks := make(map[cluster.NodeID][]job.Span)
		for _, a := range b.Assignments {
			chunks[a.Worker] = append(chunks[a.Worker], job.Span{First: a.Chunk, Last: a.Chunk})
		}
		return fmt.Sprintf("job %s: %s", b.Job, shares(chunks, "to "))
	}),
	event.KindChunkFailed: of(func(_ cluster.NodeID, b event.ChunkFailed) string {
		s := fmt.Sprintf("job %s: chunk %d failed on %s, attempt %d%s", b.Job, b.Chunk, b.Worker, b.Attempt, because(b.Reason))
		switch {
		case b.Parked:
			s += "; it waits for an operator"
		case b.Final:
			s += "; it is given up"
		}
		return s
	}),
	event.KindChunkReclaimed: of(func(_ cluster.NodeID, b event.ChunkReclaimed) string {
		return fmt.Sprintf("job %s: chunk %d taken back from %s, attempt %d%s", b.Job, b.Chunk, b.Worker, b.Attempt, because(b.Reason))
	}),
	event.KindChunkExtended: of(func(_ cluster.NodeID, b event.ChunkExtended) string {
		s := fmt.Sprintf("job %s: chunk %d on %s, attempt %d, asked for %s more", b.Job, b.Chunk, b.Worker, b.Attempt, Age(b.AskedSeconds))
		if b.Seconds > 0 {
			return s + " and got " + Age(b.Seconds) + because(b.Reason)
		}
		return s + " and got none" + because(b.Denied)
	}),
	event.KindChunkSaved: of(func(_ cluster.NodeID, b event.ChunkCheckpointed) string {
		return fmt.Sprintf("job %s: chunk %d on %s, attempt %d, saved a checkpoint of %s after %d iterations", b.Job, b.Chunk, b.Worker, b.Attempt, BytesOf(uint64(max(b.Size, 0))), b.Done)
	}),
	event.KindChunksReleased: of(func(_ cluster.NodeID, b event.ChunksReleased) string {
		return fmt.Sprintf("job %s: chunks %s are tried again%s", b.Job, spans(b.Chunks), by(b.Actor))
	}),
	event.KindChunkAccepted: of(func(_ cluster.NodeID, b event.ChunkAccepted) string {
		s := fmt.Sprintf("job %s: chunk %d of %s counts, %s", b.Job, b.Chunk, b.Worker, Age(b.Seconds))
		if b.Settles {
			s += "; it settles a dispute"
		}
		return s
	}),
	event.KindChunksAccepted: of(func(_ cluster.NodeID, b event.ChunksAccepted) string {
		chunks := make(map[cluster.NodeID][]job.Span)
		for _, a := range b.Accepts {
			chunks[a.Worker] = append(chunks[a.Worker], job.Span{First: a.Chunk, Last: a.Chunk})
		}
		verb := "count"
		if len(b.Accepts) == 1 {
			verb = "counts"
		}
		return fmt.Sprintf("job %s: %s %s", b.Job, shares(chunks, "of "), verb)
	}),
}

// by names who asked; nobody did where it is empty.
func by(actor string) string {
	if actor == "" {
		return ""
	}
	return ", by " + actor
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// most is how many names or spans a sentence lists.
const most = 5

func list[T any](items []T) string {
	var names []string
	for _, v := range items[:min(len(items), most)] {
		names = append(names, fmt.Sprint(v))
	}
	s := strings.Join(names, ", ")
	if more := len(items) - most; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	if s == "" {
		return "none"
	}
	return s
}

// spans writes sorted chunks with neighbours joined: "0-3, 7".
func spans(chunks []job.Span) string {
	var joined []job.Span
	for _, c := range chunks {
		if n := len(joined); n > 0 && joined[n-1].Last+1 == c.First {
			joined[n-1].Last = c.Last
		} else {
			joined = append(joined, c)
		}
	}
	var parts []string
	for _, c := range joined {
		if c.First == c.Last {
			parts = append(parts, strconv.Itoa(c.First))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", c.First, c.Last))
		}
	}
	return list(parts)
}

// shares says which chunks went to whom: "chunks 0-3 to n1, 4 to n2".
func shares(chunks map[cluster.NodeID][]job.Span, word string) string {
	total := 0
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(chunks)) {
		list := chunks[n]
		slices.SortFunc(list, func(a, b job.Span) int { return a.First - b.First })
		total += len(list)
		parts = append(parts, fmt.Sprintf("%s %s%s", spans(list), word, n))
	}
	noun := "chunks "
	if total == 1 {
		noun = "chunk "
	}
	return noun + list(parts)
}

func count[N int | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// short cuts the middle of an onion address out.
func short(address string) string {
	name, ok := strings.CutSuffix(address, ".onion")
	if !ok || len(name) <= 16 {
		return address
	}
	return name[:8] + "...onion"
}

func date(unix int64) string { return time.Unix(unix, 0).UTC().Format("2006-01-02 15:04 UTC") }
