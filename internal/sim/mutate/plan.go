package main

// planMutants take out what the plan does against strangers: see package trust.
func planMutants() []mutant {
	return []mutant{
		{
			"failures of strangers spend the budget", "scheduler/plan/attempt.go",
			"return t.worker.Stranger && (", "return t.gone && (",
		},
		{
			"losses of outside workers count", "scheduler/plan/attempt.go",
			"cluster.IsOutside(t.worker.node), time.Duration(0)", "cluster.IsOutside(t.worker.node) && t.job == nil, time.Duration(0)",
		},
		{
			"bad ends do not bring a chunk to members", "scheduler/plan/opinion.go",
			"c.strange >= trust.BadEnds", "c.strange < 0",
		},
		{
			"a stranger chooses its chunks", "scheduler/plan/report.go",
			"if w.Stranger { // it would", "if w.Stranger && j == nil { // it would",
		},
		{
			"a result that nobody asked a stranger for", "scheduler/plan/result.go",
			"given := !w.Stranger || own != nil", "given := !w.Stranger || own != nil || j != nil",
		},
		{
			"which results are checked is no secret", "scheduler/plan/trust/standing.go",
			"h.Write(s[:])", "h.Write(nil)",
		},
		{
			"one owner is as many as it has keys", "scheduler/plan/trust/check.go",
			"} else if !slices.Contains(strange, o.Owner) {", "} else {",
		},
		{
			"strangers make each other good", "scheduler/plan/trust/check.go",
			"return !r.Fit && votes >= max(r.Wanted, owners), false", "return votes >= r.Wanted, true",
		},
		{
			"what a member says beside a stranger needs another", "scheduler/plan/result.go",
			"(c.check == nil || c.check.Doubtful() && voice != trust.Established)", "c.check == nil",
		},
		{
			"liars go on", "scheduler/plan/trust/standing.go",
			"return s.Stranger && s.Wrong >= MaxWrong", "return s.Stranger && s.Wrong < 0",
		},
		{
			"a stranger says how long it took", "scheduler/plan/result.go",
			"if w.Stranger {\n\t\tbegan", "if w.Stranger && own == nil {\n\t\tbegan",
		},
		{
			"rates follow from what strangers say", "scheduler/plan/result.go",
			"if !w.Stranger { // of a stranger", "if j != nil { // of a stranger",
		},
		{
			"slots of strangers size chunks", "scheduler/plan/roster.go",
			"if w != nil && !w.Stranger && w.serves() && (executor", "if w != nil && w.serves() && (executor",
		},
		{
			"a stranger is missed at once", "scheduler/plan/worker.go",
			"return max(cfg.Grace, trust.Grace)", "return cfg.Grace",
		},
		{
			"strangers get what does not go outside", "scheduler/plan/eligible/class.go",
			"w.Stranger && !c.permission.AllowsOutside(", "w.Stranger && !c.permission.Allows(",
		},
		{
			"all strangers are looked at for each chunk", "scheduler/plan/choose.go",
			"most := maxStrangers", "most := maxStrangers << 20",
		},
		{
			"what silent strangers have is not copied", "scheduler/plan/choose.go",
			"bounded := of == eligible.All || !t.strange", "bounded := of >= eligible.All",
		},
	}
}
