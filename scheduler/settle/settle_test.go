package settle

import (
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

// One batch at a time is with the settler.
func TestSettling(t *testing.T) {
	s := New(nil)
	if s.Give() != nil {
		t.Error("nothing is given")
	}
	s.Add(job.Attempt{Job: "j"}, 7)
	if s.Give() == nil || s.waiting[0].Seq != 7 {
		t.Error("what waits is not given")
	}
	s.Given()
	s.Add(job.Attempt{Job: "j", Chunk: 1}, 8)
	if s.Give() != nil || s.Open() != 2 {
		t.Errorf("%d are open, and a second batch is given", s.Open())
	}
	if s.Back(); s.Give() == nil || s.Open() != 1 {
		t.Errorf("%d are open after the first batch", s.Open())
	}
}
