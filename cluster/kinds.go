package cluster

// Kinds lists the kinds of event that this version knows, those without
// authority first.
func Kinds() []Kind {
	return []Kind{
		KindHostStarted, KindMemberJoined, KindMemberRenewed, KindMemberRekeyed, KindMemberHealth,
		KindMemberLeft, KindMemberRemoved, KindMemberConflict, KindTokenCreated, KindTokenRevoked,
		KindMTUBlackhole, KindDuplicate, KindLeaseReleased, KindLeaseLost, KindVotersSet, KindStepDownAsked,
		KindPublishing,
		KindTermStart, KindConfigChanged, KindJobSubmitted, KindJobStopped, KindJobDone,
		KindChunksAssigned, KindChunkFailed, KindChunkReclaimed, KindChunkAccepted,
	}
}
