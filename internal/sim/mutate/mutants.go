package main

import (
	"slices"
	"strings"
)

// mutant is one defect.
type mutant struct {
	name, file, old, new string
}

// tests says where else than in the simulation m must be noticed: the package
// and which of its tests.
func (m mutant) tests() (pkg, run string) {
	switch {
	case strings.HasPrefix(m.file, "coord/"):
		return "./coord", "Config|Proof|Vote|Lost"
	case strings.HasPrefix(m.file, "gateway/"):
		return "./gateway/...", "."
	case strings.HasPrefix(m.name, "crew:"):
		return "./scheduler/...", "Crew|Named|Belief|Sessions|Health|Restored|Liars|Expelled|Queries|Awaited"
	case strings.HasPrefix(m.file, "scheduler/"):
		return "./scheduler/...", "Model|Twin|Hostile|Sleepers|Strangers|TakeOver|Salt|Liars|Enough|Samples"
	case strings.HasPrefix(m.file, "eventlog/state/"):
		return "./eventlog/state", "Order|Fork|Term|First"
	case strings.HasPrefix(m.file, "eventlog/"):
		return "./eventlog", "PowerLoss|Overlaps|Stable|CatchUp|Fork|Proof|Incarnation|Rolled|Refuse|Future|Peer"
	}
	return "./lease", "."
}

// mutants returns the table. The first six are the classic mistakes of lease
// protocols, the rest are ours.
func mutants() []mutant {
	return append(slices.Concat(logMutants(), planMutants(), crewMutants()), []mutant{
		{
			"vote not persisted", "lease/voter.go",
			"m.seen = max(m.seen, term)\n\t\tm.persist()", "m.seen = max(m.seen, term)",
		},
		{
			"candidate counts itself unsaved", "lease/candidate.go",
			"m.ask(Vote)\n\tm.persist()", "m.ask(Vote)",
		},
		{
			"no restart quarantine", "lease/state.go",
			"s.grantFrom = now + s.timing.Lease", "s.grantFrom = now",
		},
		{
			"lease counted from the ack", "lease/holder.go",
			"max(a.until, sent.at+m.timing.safe(m.timing.Lease))", "max(a.until, m.now+m.timing.safe(m.timing.Lease))",
		},
		{
			"clock that stops in pause", "internal/sim/node.go",
			"float64(n.w.now-n.born)*n.rate", "float64(n.w.now-n.born-n.pausedFor)*n.rate",
		},
		{
			"no guard", "lease/voter.go",
			"case m.guard.node != \"\" && m.guard.node != from && !m.givesUp(from, msg):", "case false:",
		},
		{
			"no drift margin", "lease/timing.go",
			"return d - d*time.Duration(t.MarginPercent)/100", "return d",
		},
		{
			"promise not checked in a vote", "lease/voter.go",
			"reason == \"\" && (msg.Term < v.PromisedTerm || (msg.Term == v.PromisedTerm && v.PromisedTo != from))", "reason == \"\" && v == nil",
		},
		{
			"renewal of an older term acknowledged", "lease/voter.go",
			"case msg.Term < m.vote.PromisedTerm:", "case false:",
		},
		{
			"older configuration accepted in a vote", "lease/voter.go",
			"case m.vote.Config.Newer(msg.Config):", "case false:",
		},
		{
			"new configuration needs no old majority", "lease/config.go",
			"t.stable || !m.persisted(&t.base) || !m.persisted(&m.vote.Config)", "t.stable",
		},
		{
			"third voter joins two in available mode at once", "lease/config.go",
			"next.Mode, next.Slots = cluster.ModeQuorum, slotsOf(&cur)\n\t\treturn next, true",
			"next.Mode, next.Slots = cluster.ModeQuorum, nil\n\t\tif add != \"\" {\n\t\t\tnext.Voters = with(cur.Voters, add)\n\t\t}\n\t\treturn next, true",
		},
		{
			"lease bound by one voter", "lease/holder.go",
			"return b[len(b)-c.Majority()]", "return b[len(b)-1]",
		},
		{
			"terms of both sides not kept apart", "lease/candidate.go",
			"m.vote.Config.Slot(m.self); ok", "m.vote.Config.Slot(m.self); ok && false",
		},
		{
			"duty: publishes only with the lease", "lease/duty.go",
			"case s.fit() && (best == nil || better(s.priority, s.self, best.Priority, best.Node)):", "case false:",
		},
		{
			"duty: publishes beside a visible lease", "lease/duty.go",
			"if h := s.holder; h.Holder != \"\" {", "if h := s.holder; h.Holder == s.self {",
		},
		{
			"duty: given up with the lease", "lease/duty.go",
			"keeps := s.duty.Publishing && !s.gone", "keeps := false",
		},
		{
			"duty: given up to a better host that does not publish", "lease/duty.go",
			"case keeps && (claims == nil ||", "case keeps && (best == nil || claims != nil &&",
		},
		{
			"duty: old word of a holder believed", "lease/duty.go",
			"p.Holds >= s.last.Term && p.Holds > s.released.Term", "true",
		},
		{
			"duty: witness publishes", "lease/duty.go",
			"return !s.witness && ", "return ",
		},
		{
			"duty: no wait for a lease to be seen again", "lease/duty.go",
			"s.unseen + s.timing.Suspect + s.timing.Grace", "s.unseen",
		},
		{
			"duty: no wait after the last word of a holder", "lease/duty.go",
			"p.Alive && m.declared() != p", "false",
		},
		{
			"duty: all hosts publish", "lease/duty.go",
			"case best != nil:\n\t\treturn Duty{Publisher: best.Node}", "case best != nil:\n\t\treturn own",
		},
		{
			"record: a voter that lost it votes", "lease/voter.go",
			"case m.vote.Lost != \"\":\n\t\treturn refusedLost\n\tcase m.holds() && (msg.Phase", "case m.holds() && (msg.Phase",
		},
		{
			"record: a voter that lost it acknowledges renewals", "lease/voter.go",
			"case m.vote.Lost != \"\":\n\t\tm.answer(", "case false:\n\t\tm.answer(",
		},
		{
			"record: trusted again without being taken out", "lease/voter.go",
			"c.IsZero() || c.Has(m.self) || m.now < m.grantFrom", "c.IsZero() || m.now < m.grantFrom",
		},
		{
			"record: trusted again before its guards ran out", "lease/voter.go",
			"c.IsZero() || c.Has(m.self) || m.now < m.grantFrom", "c.IsZero() || c.Has(m.self)",
		},
		{
			"voters: the operator's choice is not kept", "lease/voters.go",
			"if cur.Pinned || len(goal) == 0 {", "if len(goal) == 0 {",
		},
		{
			"voters: slots given up while one may hold alone", "lease/config.go",
			"return cur.Spent == 0 && cur.Mode != cluster.ModeAvailable && m.allAcked()", "return cur.Mode != cluster.ModeAvailable",
		},
		{
			"voters: slots given up though one left unheard", "lease/config.go",
			"!m.vote.Config.Has(v) && m.acked(v) {", "!m.vote.Config.Has(v) {",
		},
		{
			"voters: one that joins holds alone", "lease/candidate.go",
			"if c.Joining(m.self) && (p == nil || !p.Gone) {", "if false {",
		},
		{
			"voters: one that joins counts who does not know", "lease/candidate.go",
			"case msg.Granted && m.vote.Config.Joining(m.self) && m.vote.Config.Newer(msg.Config):", "case false:",
		},
		{
			"voters: a new one may hold alone at once", "lease/config.go",
			"next.Spent |= 1 << next.Slots[i]", "next.Spent |= 0",
		},
		{
			"voters: changed before the log is with them", "lease/config.go",
			"!t.ready || !t.stable || t.readyEpoch < m.vote.Config.Epoch", "!t.stable",
		},
		{
			"voters: changed while a change is pending", "lease/config.go",
			"!t.ready || !t.stable || t.readyEpoch < m.vote.Config.Epoch", "!t.ready",
		},
		{
			"clock: guards trusted after a jump", "lease/step.go",
			"m.grantFrom = max(m.grantFrom, m.now+m.timing.Lease)", "m.grantFrom = max(m.grantFrom, m.now)",
		},
		{
			"handover: at once to a better host", "lease/release.go",
			"max(best.since+delay, s.hold.since+s.timing.MinTenure)", "best.since+delay",
		},
		{
			"handover: a release of an older term ends the guard", "lease/voter.go",
			"m.guard.node != r.Holder || m.guard.term > r.Term", "m.guard.node == \"\"",
		},
		{
			"config: record taken without a signature", "coord/election/signer.go",
			"if s.checked.is(text, c.Proof) {", "if len(text) > 0 {",
		},
	}...)
}
