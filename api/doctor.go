package api

// Verdict is what a check found.
type Verdict string

// Verdicts.
const (
	VerdictOK   Verdict = "ok"
	VerdictWarn Verdict = "warn" // works, and will not for ever or not for all
	VerdictFail Verdict = "fail"
	VerdictSkip Verdict = "skip" // could not be checked here: Detail says why
)

// Doctor answers GET /v1/doctor.
type Doctor struct {
	Header
	Findings []Finding `json:"findings"`
}

// Finding is the result of one check.
type Finding struct {
	Group   string  `json:"group"` // host, mesh or cluster
	Check   string  `json:"check"` // e.g. "udp-port"
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Hint    string  `json:"hint"` // what to do; empty if all is well
	Doc     string  `json:"doc"`  // where the documents say more
}
