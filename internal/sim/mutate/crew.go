package main

// crewMutants take out what keeps outside workers apart from each other and from the
// hosts that let them in: see packages scheduler/seats, gateway/desk and gateway/crew.
func crewMutants() []mutant {
	return []mutant{
		{
			"crew: an earlier session takes over", "scheduler/seats/seats.go",
			"case j.Session < st.session, j.Session == st.session && host != st.at:", "case j.Session == 0:",
		},
		{
			"crew: the host that a worker left is not told", "scheduler/seats/seats.go",
			"case st.live && host != st.at:", "case st.live && host == \"\":",
		},
		{
			"crew: the host says whose a worker is", "scheduler/seats/seats.go",
			"Owner: is.Owner, Accept", "Owner: j.Owner, Accept",
		},
		{
			"crew: the host makes a visitor a user's", "scheduler/seats/seats.go",
			"!enrolled && !strings.HasPrefix(j.Owner, visitors)", "!enrolled && !strings.HasPrefix(j.Owner, \"\")",
		},
		{
			"crew: a revoked worker is let in", "scheduler/seats/seats.go",
			"case is.Revoked, ", "case is.Revoked && is.Trusted, ",
		},
		{
			"crew: a host speaks for another's worker", "scheduler/seats/seats.go",
			"if st == nil || !st.live || st.at != host {", "if st == nil || !st.live {",
		},
		{
			"crew: a suspect host's workers get work", "scheduler/seats/seats.go",
			"case silent >= SuspectAfter, s.hosts[st.at] != \"\":", "case silent >= SuspectAfter:",
		},
		{
			"crew: who does not come back stays for ever", "scheduler/seats/seats.go",
			"limit = DeadAfter", "limit = 1000 * DeadAfter",
		},
		{
			"crew: liars come back", "scheduler/seats/seats.go",
			"case s.barred[worker]:", "case s.barred[worker] && enrolled:",
		},
		{
			"crew: stops await strangers", "scheduler/seats/seats.go",
			"return st != nil && st.trusted && ", "return st != nil && ",
		},
		{
			"crew: an offence of one ends the stream of all", "scheduler/commit.go",
			"if s := t.links.session(a.Worker); s != nil {", "if s := t.links.reach(a.Worker); s != nil {",
		},
		{
			"crew: what many did is not summed up", "scheduler/appender.go",
			"others.Iterations += sh.Iterations", "others.Iterations = sh.Iterations",
		},
		{
			"crew: a frame is about the worker before", "scheduler/stream/codec.go",
			"if f.Worker == e.worker {", "if e.worker != \"\" {",
		},
		{
			"crew: outside workers on the stream of a host", "scheduler/stream/crew.go",
			"case !crew && (named ||", "case !crew && !named && (named ||",
		},
		{
			"crew: a late assignment is obeyed", "gateway/desk/holder.go",
			"if order == stream.OrderStale || r == nil {", "if r == nil {",
		},
		{
			"crew: results are not told to the next holder", "gateway/desk/holder.go",
			"for _, k := range kept {", "for _, k := range kept[:0] {",
		},
		{
			"crew: a holder of another term is obeyed", "gateway/desk/holder.go",
			"if !d.on || term != d.term || term == 0 {", "if !d.on || term == 0 {",
		},
		{
			"crew: a drop ends a later session", "gateway/desk/holder.go",
			"if r.session > x.Session {", "if r.session == 0 {",
		},
		{
			"crew: results that nobody asked for are taken", "gateway/desk/desk.go",
			"case r.has[res.Attempt] == nil:", "case i < 0:",
		},
		{
			"crew: a session is not above those known elsewhere", "gateway/desk/desk.go",
			"r.least = max(r.least, r.session, a.After)", "r.least = max(r.least, r.session)",
		},
		{
			"crew: what the lease knows fences no stream", "gateway/crew/serve.go",
			"if known := c.o.MinTerm(); known > s.term {", "if known := c.o.MinTerm(); known > s.term+100 {",
		},
		{
			"crew: two hosts share a term", "gateway/crew/serve.go",
			"case s.term == c.term && s.from != c.holder:", "case s.term == c.term && s.from == \"\":",
		},
	}
}
