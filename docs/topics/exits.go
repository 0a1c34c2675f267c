package topics

// Exit is an exit code and what it means.
type Exit struct {
	Code int
	Text string
}

// Exits are the exit codes of all commands but check.
func Exits() []Exit {
	return []Exit{
		{0, "ok"},
		{1, "failed"},
		{2, "usage, a faulty configuration, or what keeps `run` from starting until somebody acts: not a member, a refused or spent token, a damaged log or file. The unit does not try again"},
		{3, "the daemon does not answer"},
		{4, "not found"},
		{5, "not permitted"},
		{6, "the daemon answers and something is degraded (`status`, `doctor`); the figures of a load test may be those of the generator (`load run`)"},
		{7, "timed out; a followed job ended as timeout"},
		{8, "the goal was missed: a followed job ended as failed, partial, cancelled or skipped (`job run|status|results --follow`, `wait --for job=`), or a load test did not pass (`load run`, `load check --once`, `load compare`)"},
		{130, "interrupted"},
	}
}

// CheckExits are those of check.
const CheckExits = "`check` alone exits 0 ok, 1 warning, 2 critical, 3 unknown."
