package main

// logMutants are mistakes of replicated logs.
func logMutants() []mutant {
	return []mutant{
		{
			"log: acknowledged before it is synced", "eventlog/store/writer.go",
			"if err := c.file.Sync(); err != nil {\n\t\t\treturn fmt.Errorf(\"sync %s: %w\", c.last().path, err)", "if err := w.s.Err(); err != nil && c != nil {\n\t\t\treturn err",
		},
		{
			"log: shown and pushed before it is synced", "eventlog/store/writer.go",
			"for _, c := range b.dirty {\n\t\tstarted := time.Now()", "w.Show(b)\n\tw.Notify()\n\tfor _, c := range b.dirty {\n\t\tstarted := time.Now()",
		},
		{
			"log: cut without catching up", "eventlog/replicate/pull.go",
			"_, err = r.pull(ctx, peer, term, r.dial)\n\t\t}", "err = ctx.Err()\n\t\t}",
		},
		{
			"log: caught up with less than a majority", "eventlog/replicate/pull.go",
			"if got >= majority {\n\t\t\tbreak", "if got >= majority-1 {\n\t\t\treturn nil",
		},
		{
			"log: heads answered before the promise", "eventlog/replicate/serve.go",
			"term > promised || term > 0 && promised == Abstaining", "term > 0 && promised == Abstaining",
		},
		{
			"log: chain of a restored disk goes on", "eventlog/replicate/receive.go",
			"inc = max(inc, h.Source.Inc+1)", "inc = max(inc, own.Inc)",
		},
		{
			"log: acknowledgements of older terms count", "eventlog/replicate/stable.go",
			"e.term > 0 && e.term < a.Promised", "e.term > a.Promised",
		},
		{
			"log: own vote given in an older term", "eventlog/replicate/stable.go",
			"Promised: s.promised()}", "Promised: 0}",
		},
		{
			"log: term start acknowledged without its cut", "eventlog/replicate/acker.go",
			"if ru.MovesCut() {", "if ru.Bytes == 0 {",
		},
		{
			"log: unsigned run stored", "eventlog/replicate/receive.go",
			"if err := record.VerifyHead(r.o.Cluster, ru.Head, key); err != nil {\n\t\treturn nil, r.m.blame", "if err := ctx.Err(); err != nil {\n\t\treturn nil, r.m.blame",
		},
		{
			"log: second history stored", "eventlog/store/writer.go",
			"if events[0].Prev != c.tail.Hash {\n\t\treturn Contradiction(c.src, c.tail.Seq)\n\t}", "events[0].Prev = c.tail.Hash",
		},
		{
			"log: proof believed without signatures", "eventlog/wire/proof.go",
			"for _, ru := range []*Run{a, b} {\n\t\tif err", "for _, ru := range []*Run{} {\n\t\tif err",
		},
		{
			"log: forked source counts on", "eventlog/state/state.go",
			"ok && e.Seq >= end {\n\t\treturn false", "ok && end == 0 {\n\t\treturn false",
		},
		{
			"log: cut beyond a fork", "eventlog/store/store.go",
			"ok && m.Seq >= f.Seq {\n\t\t\tm = event.Mark{Seq: f.Seq - 1, Hash: f.Prev}", "ok && m.Seq >= f.Seq {\n\t\t\tm = event.Mark{Seq: m.Seq, Hash: f.Prev}",
		},
		{
			"log: proofs not passed on", "eventlog/replicate/serve.go",
			"AppendForks(nil, r.st.Forks())", "AppendForks(nil, nil)",
		},
		{
			"log: late term start voids nothing", "eventlog/fold.go",
			"f.stale = f.st.Apply(e) || f.stale", "_ = f.st.Apply(e)",
		},
		{
			"log: result that arrives last counts", "eventlog/state/jobs/work.go",
			"if old != nil && !a.before(old) {\n\t\t\treturn\n\t\t}", "",
		},
		{
			"log: void term start fences", "eventlog/state/fences.go",
			"if n.at.Seq <= f.limit(n.at.Source, n.term) {", "if n != nil {",
		},
		{
			"log: events from the future stored", "eventlog/replicate/receive.go",
			"if refused {", "if refused && ahead < 0 {",
		},
	}
}
