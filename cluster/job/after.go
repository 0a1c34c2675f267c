package job

import (
	"fmt"
	"strings"
)

// MaxAfter is how many jobs one can wait for.
const MaxAfter = 64

// How a job that another waits for has to end.
const (
	AfterSuccess = ""       // as completed
	AfterFailed  = "failed" // as failed, partial or timeout
	AfterDone    = "done"   // whatever came of it
)

// After is a job that another waits for: "ID", "ID:done" or "ID:failed".
type After struct {
	Job ID
	How string // AfterSuccess, AfterFailed or AfterDone
}

// ParseAfter reads one of them.
func ParseAfter(text string) (After, error) {
	id, how, said := strings.Cut(text, ":")
	if said && how != AfterFailed && how != AfterDone {
		return After{}, fmt.Errorf("after %.64q: want the id of a job, alone or with :done or :failed", text)
	}
	job, err := ParseID(id)
	if err != nil {
		return After{}, fmt.Errorf("after: %w", err)
	}
	return After{Job: job, How: how}, nil
}

// String is what ParseAfter reads.
func (a After) String() string {
	if a.How == "" {
		return string(a.Job)
	}
	return string(a.Job) + ":" + a.How
}

// Met says whether a job that ended so is as a wants it.
func (a After) Met(s State) bool {
	switch a.How {
	case AfterDone:
		return s.Final()
	case AfterFailed:
		return s == Failed || s == Partial || s == TimedOut
	}
	return s == Completed
}

// checkAfter reports the first reason why no job can wait for those.
func checkAfter(list []string) error {
	if len(list) > MaxAfter {
		return fmt.Errorf("after names %d jobs, at most %d are allowed", len(list), MaxAfter)
	}
	seen := make(map[ID]bool, len(list))
	for _, text := range list {
		a, err := ParseAfter(text)
		if err != nil {
			return err
		}
		if seen[a.Job] {
			return fmt.Errorf("after names job %s twice", a.Job)
		}
		seen[a.Job] = true
	}
	return nil
}
