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
			"case m.guard.node != \"\" && m.guard.node != from:", "case false:",
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
			"case len(cur.Voters) == 2 && cur.Mode != cluster.ModeQuorum:", "case false:",
		},
		{
			"lease bound by one voter", "lease/holder.go",
			"return b[len(b)-c.Majority()]", "return b[len(b)-1]",
		},
		{
			"terms of both sides not kept apart", "lease/candidate.go",
			"m.vote.Config.Mode == cluster.ModeAvailable", "false",
		},
	}
}
