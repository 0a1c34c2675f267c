package present

import (
	"fmt"
	"strings"

	"github.com/skein-project/skein/api"
)

// Waiting says in one line why a job waits: "0 of 3 workers eligible: permission 2, zone
// 1", or what keeps it from all workers.
func Waiting(w api.Waiting) string {
	var why []string
	for _, r := range w.Reasons {
		if r.Workers == 0 {
			return r.Text
		}
		why = append(why, fmt.Sprintf("%s %d", r.Reason, r.Workers))
	}
	noun := "workers"
	if w.Workers == 1 {
		noun = "worker"
	}
	out := fmt.Sprintf("%d of %d %s eligible", w.Eligible, w.Workers, noun)
	if len(why) > 0 {
		out += ": " + strings.Join(why, ", ")
	}
	return out
}

// WaitReason says of whom a reason is: "n1, n2 and 3 more: not in zone mars".
func WaitReason(r api.WaitReason) string {
	names := make([]string, len(r.Examples))
	for i, n := range r.Examples {
		names[i] = string(n)
	}
	out := strings.Join(names, ", ")
	if more := r.Workers - len(names); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	if out != "" {
		out += ": "
	}
	return out + r.Text
}

// Explained shows what keeps each worker from a job, and what it does of it.
func Explained(e api.JobExplanation) Table {
	type W = api.ExplainedWorker
	return tableOf(e.Workers,
		col("WORKER", Text, 0, func(w W) Cell { return word(w.Node) }),
		col("ELIGIBLE", Text, 2, func(w W) Cell { return yes(w.Eligible) }),
		col("REASON", Text, 0, func(w W) Cell { return word(w.Reason) }),
		col("RUNS", Number, 3, func(w W) Cell { return whole(w.Assigned) }),
		col("DONE", Number, 4, func(w W) Cell { return whole(w.Accepted) }),
		col("WHY", Text, 1, func(w W) Cell { return word(w.Text) }),
	)
}
