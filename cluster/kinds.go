package cluster

// KindInfo describes a kind of event for people.
type KindInfo struct {
	Kind Kind
	// Writer is the host that writes it.
	Writer  string
	Meaning string
	// Body is an example of its body.
	Body any
}

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

// KindTable describes all kinds of event that this version knows, in the order
// in which they are explained. docs/events.md is made from it.
func KindTable() []KindInfo {
	key := []byte{0x3f, 0x01, 0x9a, 0x77}
	const onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"
	return []KindInfo{
		{KindHostStarted, "every host", "a daemon started", HostStarted{Version: "1.4.0", Boot: 12}},
		{
			KindIncarnation, "every host", "its disk lost a part of its chain, and it goes on with a new one", Incarnation{
				Previous: SourceMark{Source: SourceID{Node: "n4", Inc: 1}, Mark: Mark{Seq: 5120}},
				Reason:   "other hosts know more of n4/1 than the disk",
			},
		},
		{
			KindHostDisk, "every host", "the room for its event log is ok, low, full (no new work) or out (nothing can be written)",
			HostDisk{State: "low", Free: 900 << 20, Log: 3 << 30},
		},
		{
			KindConfigReloaded, "every host", "its configuration was read again and other settings hold",
			ConfigReloaded{Keys: []string{"lease.eligible"}},
		},
		{
			KindMemberJoined, "the sponsor", "a host was admitted; it spent one use of the invite",
			MemberJoined{Node: "n4", IDPub: key, IP4: "10.77.0.4", Invite: "k7f2"},
		},
		{KindMemberRenewed, "the sponsor", "a member was certified anew", MemberRenewed{Node: "n4", Expires: 1767225600}},
		{
			KindMemberRekeyed, "the member", "a host changed its WireGuard key",
			MemberRekeyed{Node: "n4", WGPub: key, Actor: "uid:0@n4"},
		},
		{
			KindMemberHealth, "the holder", "the holder believes something else of a member",
			MemberHealth{Node: "n4", From: Alive, To: Suspect},
		},
		{KindMemberLeft, "the member", "a host left for good", MemberLeft{Node: "n4", Actor: "uid:0@n4"}},
		{
			KindMemberRemoved, "the sponsor", "a member's key was revoked",
			MemberRemoved{Node: "n4", IDPub: key, Actor: "uid:0@n1", Reason: "disk lost"},
		},
		{
			KindMemberConflict, "the holder", "two valid records contradict each other",
			MemberConflict{Node: "n4", Why: "forked", Kept: "...", Other: "..."},
		},
		{
			KindTokenCreated, "the sponsor", "an operator made an invite",
			TokenChanged{Invite: "k7f2", Uses: 1, Expires: 1767225600, Actor: "uid:0@n1"},
		},
		{
			KindTokenRevoked, "the sponsor", "an operator revoked an invite",
			TokenChanged{Invite: "k7f2", Uses: 1, Expires: 1767225600, Actor: "uid:0@n1"},
		},
		{KindMTUBlackhole, "every host", "full packets to a peer vanish", MTUBlackhole{Peer: "n2", From: 1420, To: 1280}},
		{KindDuplicate, "every host", "two processes use the identity of one host", Duplicate{Host: "n4", Boot: 12}},
		{
			KindEquivocation, "the host that found out", "a host signed two histories of one chain, which ends where they part",
			Equivocation{Source: SourceID{Node: "n4", Inc: 1}, Seq: 5121},
		},
		{KindTermStart, "the holder", "a term begins; its cut fences the lower terms", TermStart{
			Term: 7, Voters: []NodeID{"n1", "n2", "n3"}, Grants: []NodeID{"n1", "n2"}, Previous: "n3",
			Cut:     Cut{{Source: SourceID{Node: "n3", Inc: 1}, Mark: Mark{Seq: 5120}}},
			Profile: ProfileLAN, ConfigTerm: 4, Epoch: 2,
		}},
		{KindLeaseReleased, "the holder", "the holder stepped down", LeaseReleased{Term: 7, Successor: "n2", Reason: "shutdown"}},
		{KindLeaseLost, "the holder that was", "the holder could not renew", LeaseLost{Term: 7, Reason: "no majority"}},
		{
			KindStepDownAsked, "the holder", "an operator asked the holder to hand over",
			StepDownAsked{Term: 7, Successor: "n2", Reason: "maintenance", Actor: "uid:0@n3"},
		},
		{
			KindVotersSet, "the holder, or the host that was forced", "an operator chose the voters or the mode",
			VotersSet{Voters: []NodeID{"n1", "n2", "n3"}, Mode: ModeQuorum, Actor: "uid:0@n1"},
		},
		{KindConfigChanged, "the holder", "a voter configuration became stable", ConfigChanged{
			Config: VoterConfig{Epoch: 3, Term: 7, Voters: []NodeID{"n1", "n2", "n3"}, Mode: ModeQuorum, Issuer: "n2"},
		}},
		{
			KindPublishing, "every host", "a host took up or laid down the publishing duty",
			Publishing{Publishing: true, Term: 7, Publisher: "n2", Why: "holds the lease"},
		},
		{
			KindOnionSet, "a host with the address's key", "the cluster serves an onion address, or no more, or for other clients",
			OnionSet{Key: key, Version: 2, Clients: []OnionClient{{Name: "ann", Key: key}}, Actor: "uid:0@n1", Sig: key},
		},
		{
			KindOnionGranted, "the host that gave it", "a host got the key of an onion address and may publish",
			OnionGranted{Address: onion, Node: "n2", Actor: "uid:0@n1"},
		},
		{KindOnionDrained, "every host", "a host is out of the descriptors, or in them again", OnionDrained{Drained: true, Actor: "uid:0@n2"}},
		{KindOnionRotated, "every host", "a host took another onion key of its own", OnionRotated{From: onion, Actor: "uid:0@n2"}},
		{
			KindOnionTarget, "every host", "the service behind the onion addresses fails, or is back",
			OnionTarget{Target: "127.0.0.1:8080", Reason: "connection refused"},
		},
		{KindWrongMaster, "every host", "clients are sent to this host for an address that it does not know", OnionWrongMaster{Count: 3}},
		{
			KindPublishDone, "the publisher", "clients find the new descriptor",
			PublishDone{Address: onion, Term: 7, Points: map[NodeID]int{"n1": 3, "n2": 3}, Stored: 6, Asked: 6},
		},
		{
			KindPublishFailed, "the publisher", "no descriptor could be made, or too few directories have it",
			PublishFailed{Address: onion, Term: 7, Stored: 1, Asked: 6, Reason: "too few directories have it"},
		},
		{KindPublishFenced, "the publisher", "a publisher of a later term is at work", PublishFenced{Address: onion, Term: 7, Later: 8}},
		{
			KindPublishForeign, "the publisher", "the address's key is used outside of the cluster",
			PublishForeign{Address: onion, Revision: 5_700_000_000, Dir: "0123456789ABCDEF0123456789ABCDEF01234567"},
		},
		{
			KindPublishRefused, "the publisher", "what a host sent as its descriptor cannot be used",
			PublishRefused{Address: onion, Node: "n3", Reason: "descriptor is older than the one before"},
		},
		{KindSnapshot, "the holder", "the voters agree on the fold of the log up to a cut", SnapshotTaken{
			Term: 7, Size: 48213, Heads: []Head{{Source: SourceID{Node: "n3", Inc: 1}, Seq: 5120}},
			Signatures: []Signature{{Node: "n1", Sig: key}, {Node: "n2", Sig: key}},
		}},
		{KindJobSubmitted, "the holder", "a job was accepted", JobSubmitted{Job: "j2kq6", Owner: "uid:1000@n1", Chunks: 10, Spec: JobSpec{
			Name: "pi", Key: "pi-1", Iterations: 1000, Chunk: 100, Seed: 1,
		}.WithDefaults()}},
		{KindJobQueued, "the holder", "a job was taken in and waits", JobWaiting{Job: "j2kq6", Reason: "no worker is fit for it"}},
		{KindJobStopped, "the holder", "a job is to end: somebody asked for it, or its time is over", JobStopped{Job: "j2kq6", Actor: "uid:1000@n1", Reason: "wrong seed"}},
		{KindJobDone, "the holder", "a job ended, and this is its result", JobDone{
			Job: "j2kq6", State: JobPartial, Reason: "1 of 10 chunks given up",
			Result: &JobResult{
				Accepted: 9, Failed: 1, Iterations: 900, Micros: 81_000_000,
				Metrics: map[string]Metric{"pi": {N: 900, Mean: 3.14, M2: 0.9, Min: 3, Max: 3.3}},
				Workers: []WorkShare{{Worker: "n2", Chunks: 9, Iterations: 900}}, Skipped: []Span{{First: 3, Last: 3}},
			},
		}},
		{KindJobsForgotten, "the holder", "jobs that ended long ago are forgotten", JobsForgotten{Jobs: []JobID{"j2kq6"}}},
		{
			KindGroupSet, "the holder", "somebody said who belongs to a group",
			GroupSet{Group: "render", Members: []string{"node:n4", "uid:1000"}, Actor: "uid:0@n1"},
		},
		{KindChunksAssigned, "the holder", "attempts were handed to workers", ChunksAssigned{
			Job: "j2kq6", Assignments: []Assignment{{Chunk: 3, Attempt: 1, Worker: "n2"}},
		}},
		{
			KindChunkFailed, "the holder", "an attempt ended without a result",
			ChunkFailed{Job: "j2kq6", Chunk: 3, Attempt: 1, Worker: "n2", Reason: "exit 3"},
		},
		{
			KindChunkReclaimed, "the holder", "an attempt was taken back",
			ChunkReclaimed{Job: "j2kq6", Chunk: 3, Attempt: 1, Worker: "n2", Reason: "timeout"},
		},
		{KindChunksReleased, "the holder", "an operator lets chunks that were given up be tried again", ChunksReleased{
			Job: "j2kq6", Attempt: 3, Chunks: []Span{{First: 3, Last: 3}}, Actor: "uid:1000@n1",
		}},
		{KindChunkAccepted, "the holder", "a result became the chunk's", ChunkAccepted{
			Job: "j2kq6", Chunk: 3, Attempt: 2, Worker: "n3", Seconds: 8.5,
			Result: ChunkResult{Iterations: 100, Metrics: map[string]Metric{"pi": {N: 100, Mean: 3.14, M2: 0.1, Min: 3, Max: 3.3}}},
		}},
		{KindChunksAccepted, "the holder", "results became those of their chunks", ChunksAccepted{Job: "j2kq6", Accepts: []Accept{{
			Chunk: 3, Attempt: 2, Worker: "n3", Seconds: 8.5,
			Result: ChunkResult{Iterations: 100, Metrics: map[string]Metric{"pi": {N: 100, Mean: 3.14, M2: 0.1, Min: 3, Max: 3.3}}},
		}}}},
	}
}
