package jobs

import (
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// A retry has a name of its own, by which its first job is still found by its name.
func TestRetryName(t *testing.T) {
	for name, want := range map[string]string{"": "", "part": "part~12-15", strings.Repeat("é", 32): strings.Repeat("é", 29) + "~12-15"} {
		j := api.Job{ID: "j2", Spec: job.Spec{Name: name, Iterations: 1000, Chunk: 10}}
		if got := retryOf(j, job.Span{First: 12, Last: 15}); got.Name != want || len(got.Name) > job.MaxName {
			t.Errorf("%q: %q, want %q", name, got.Name, want)
		}
	}
}
