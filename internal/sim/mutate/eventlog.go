package main

// logMutants are mistakes of replicated logs.
func logMutants() []mutant {
	return []mutant{
		{
			"log: acknowledged before it is synced", "eventlog/pipeline.go",
			"if err := c.file.Sync(); err != nil {\n\t\t\treturn fmt.Errorf(\"sync %s: %w\", c.last().path, err)", "if err := l.Err(); err != nil && c != nil {\n\t\t\treturn err",
		},
		{
			"log: shown and pushed before it is synced", "eventlog/pipeline.go",
			"for _, c := range dirty {\n\t\tstarted := time.Now()", "if err := l.publish(dirty); err != nil {\n\t\treturn err\n\t}\n\tfor _, c := range dirty {\n\t\tstarted := time.Now()",
		},
		{
			"log: cut without catching up", "eventlog/pull.go",
			"_, err = l.pull(ctx, peer, term)\n\t\t}", "err = ctx.Err()\n\t\t}",
		},
		{
			"log: caught up with less than a majority", "eventlog/pull.go",
			"if got >= majority {\n\t\t\tbreak", "if got >= majority-1 {\n\t\t\treturn nil",
		},
		{
			"log: heads answered before the promise", "eventlog/serve.go",
			"term > promised || term > 0 && promised == Abstaining", "term > 0 && promised == Abstaining",
		},
		{
			"log: chain of a restored disk goes on", "eventlog/receive.go",
			"inc = max(inc, h.Source.Inc+1)", "inc = max(inc, own.Inc)",
		},
		{
			"log: acknowledgements of older terms count", "eventlog/stable.go",
			"e.term > 0 && e.term < a.promised", "e.term > a.promised",
		},
		{
			"log: own vote given in an older term", "eventlog/stable.go",
			"promised: l.o.Promised()}", "promised: 0}",
		},
		{
			"log: term start acknowledged without its cut", "eventlog/serve.go",
			"if ru.marks() {", "if ru.bytes == 0 {",
		},
		{
			"log: unsigned run stored", "eventlog/receive.go",
			"if err := record.VerifyHead(l.o.Cluster, ru.head, key); err != nil {\n\t\treturn nil, l.blame", "if err := ctx.Err(); err != nil {\n\t\treturn nil, l.blame",
		},
		{
			"log: second history stored", "eventlog/writer.go",
			"if events[0].Prev != c.tail.Hash {\n\t\treturn contradiction(c.src, c.tail.Seq)\n\t}", "events[0].Prev = c.tail.Hash",
		},
		{
			"log: proof believed without signatures", "eventlog/proof.go",
			"for _, ru := range []*run{a, b} {\n\t\tif err", "for _, ru := range []*run{} {\n\t\tif err",
		},
		{
			"log: forked source counts on", "eventlog/state/state.go",
			"ok && e.Seq >= end {\n\t\treturn false", "ok && end == 0 {\n\t\treturn false",
		},
		{
			"log: cut beyond a fork", "eventlog/equivocation.go",
			"ok && m.Seq >= f.Seq {\n\t\t\tm = cluster.Mark{Seq: f.Seq - 1, Hash: f.Prev}", "ok && m.Seq >= f.Seq {\n\t\t\tm = cluster.Mark{Seq: m.Seq, Hash: f.Prev}",
		},
		{
			"log: proofs not passed on", "eventlog/serve.go",
			"appendForks(nil, l.Forks())", "appendForks(nil, nil)",
		},
		{
			"log: late term start voids nothing", "eventlog/fold.go",
			"f.stale = f.st.Apply(e) || f.stale", "_ = f.st.Apply(e)",
		},
		{
			"log: result that arrives last counts", "eventlog/state/job.go",
			"if old != nil && !a.before(old) {\n\t\t\treturn\n\t\t}", "",
		},
		{
			"log: void term start fences", "eventlog/state/fences.go",
			"if n.at.seq <= f.limit(n.at.src, n.term) {", "if n != nil {",
		},
		{
			"log: events from the future stored", "eventlog/receive.go",
			"if ahead > l.o.MaxAhead {", "if ahead > l.o.MaxAhead<<20 {",
		},
	}
}
