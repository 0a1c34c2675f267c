package cli

// Exit is an exit code and what it means.
type Exit struct {
	Code int
	Text string // Markdown
}

// Exits are the exit codes of all commands but check.
func Exits() []Exit {
	return []Exit{
		{ExitOK, "ok"},
		{ExitFailed, "failed"},
		{ExitUsage, "usage, a faulty configuration, or what keeps `run` from starting until somebody acts: not a member, a refused or spent token, a damaged log or file. The unit does not try again"},
		{ExitUnreachable, "the daemon does not answer"},
		{ExitNotFound, "not found"},
		{ExitForbidden, "not permitted"},
		{ExitDegraded, "the daemon answers and something is degraded (`status`, `doctor`)"},
		{ExitTimeout, "timed out; a followed job ended as timeout"},
		{ExitGoal, "the goal was missed: a followed job ended as failed, partial or cancelled (`job run|status|results --follow`, `wait --for job=`)"},
		{ExitInterrupted, "interrupted"},
	}
}

// CheckExits are those of check.
const CheckExits = "`check` alone exits 0 ok, 1 warning, 2 critical, 3 unknown."
