package main

// mutant is one defect.
type mutant struct {
	name, file, old, new string
}

// mutants returns the table. The first six are the classic mistakes of lease
// protocols, the rest are ours.
func mutants() []mutant {
	return []mutant{
		{
			"vote not persisted", "lease/voter.go",
			"m.seen = max(m.seen, term)\n\t\tm.persist()", "m.seen = max(m.seen, term)",
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
	}
}
