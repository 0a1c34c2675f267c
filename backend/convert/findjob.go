package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
)

// maxNamed is how many jobs a refusal names.
const maxNamed = 8

// FindJob finds the job of list, which is in the order of submission, whose id is text,
// or else the only one whose id begins with it or whose name it is. A whole id is no
// name: others name their jobs, and the job that is meant may be forgotten.
func FindJob(list []state.Job, text string) (job.ID, error) {
	var found []string
	_, notID := job.ParseID(text)
	for _, j := range slices.Backward(list) {
		if string(j.ID) == text {
			return j.ID, nil
		}
		if strings.HasPrefix(string(j.ID), text) || notID != nil && j.Spec.Name == text {
			found = append(found, string(j.ID))
		}
	}
	switch n := len(found); {
	case n == 0:
		return "", api.Errorf(api.CodeNotFound, "no job is called or begins with %q", text).WithHint("see `skein job ls`")
	case n == 1:
		return job.ID(found[0]), nil
	case n > maxNamed:
		found = append(found[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
		fallthrough
	default:
		return "", api.Errorf(api.CodeConflict, "%d jobs are called or begin with %q: %s", n, text, strings.Join(found, ", ")).
			WithHint("give the id of one, or more of it")
	}
}
