package convert

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/plan/eligible"
)

// Waiting shows what keeps the workers from a job, or the job from all of them.
func Waiting(why eligible.Explanation, since time.Time) api.Waiting {
	out := api.Waiting{Since: since, Workers: why.Workers, Eligible: why.Eligible, Reasons: []api.WaitReason{}, Hint: WaitHint(why)}
	reasons := why.Reasons
	if why.Job.Reason != "" {
		reasons = []eligible.Obstacle{why.Job}
	}
	for _, o := range reasons {
		out.Reasons = append(out.Reasons, api.WaitReason{Reason: string(o.Reason), Text: o.Text, Workers: len(o.Workers), Examples: append([]cluster.NodeID{}, o.Examples()...)})
	}
	return out
}

// WaitHint says what to do about the reason that keeps a job, or most workers from it.
func WaitHint(why eligible.Explanation) string {
	switch why.Main() {
	case "":
		return "`skein members` shows which hosts there are"
	case eligible.LacksExecutor:
		return "allow its program on a host: exec.programs in the host's configuration"
	case eligible.LacksMemory:
		return "ask for less with memory_bytes, or let a host allow more: worker.memory_bytes in its configuration"
	case eligible.LacksVersion:
		return "run a newer version there; workers outside of the cluster take no jobs with files"
	case eligible.LacksOutputRoom:
		return "let a host keep more: jobs.output_bytes in its configuration; or have jobs forgotten sooner: keep_seconds"
	case eligible.LacksZone:
		return "`skein members` shows the zones; node.zone in a host's configuration puts it into one"
	case eligible.LacksPermission:
		return "name workers as node:HOST: in --permit user:node:HOST, or in a group: `skein group set`"
	case eligible.LacksAccept:
		return "`skein workers` shows whose jobs each host runs; worker.accept in a host's configuration says it"
	case eligible.Draining:
		return "end a drain: `skein worker drain --undo NODE`"
	case eligible.Gone, eligible.NoStream:
		return "`skein members` shows which hosts are reached"
	case eligible.After:
		return "`skein job status` of the jobs that it waits for shows how they do"
	case eligible.Held:
		return "make room on the disk of the host that holds the lease: `skein doctor` there"
	case eligible.Operator:
		return "`skein job retry` has what was given up tried again, `skein job stop` ends the job"
	case eligible.Backoff, eligible.Excluded:
		return "`skein job status` shows what failed"
	case eligible.Reserved:
		return "`skein reserve ls` shows for whom slots are kept, and until when"
	case eligible.Opinion:
		return "the job wants each result of several hosts: let another one run it"
	case eligible.Unready, eligible.Stuck, eligible.Busy, eligible.Unproven, eligible.Distrusted:
	}
	return "`skein workers` shows how the workers do"
}
