package convert

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/scheduler/plan/eligible"
)

// Waiting shows what keeps the workers from a job.
func Waiting(why eligible.Explanation, since time.Time) api.Waiting {
	out := api.Waiting{Since: since, Workers: why.Workers, Eligible: why.Eligible, Reasons: []api.WaitReason{}, Hint: WaitHint(why)}
	for _, o := range why.Reasons {
		out.Reasons = append(out.Reasons, api.WaitReason{Reason: string(o.Reason), Text: o.Text, Workers: len(o.Workers), Examples: o.Examples()})
	}
	return out
}

// WaitHint says what to do about the reason that keeps most workers from a job.
func WaitHint(why eligible.Explanation) string {
	if len(why.Reasons) == 0 {
		return "`skein members` shows which hosts there are"
	}
	switch why.Reasons[0].Reason {
	case eligible.LacksExecutor:
		return "allow its program on a host: exec.programs in the host's configuration"
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
	case eligible.Unready, eligible.Stuck:
	}
	return "`skein workers` shows how the workers do"
}
