package worker

import (
	"testing"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// TestIdleStatus: a worker with nothing to do says so every third time, and at
// once when something changes.
func TestIdleStatus(t *testing.T) {
	s := &session{}
	sent := func(st stream.Status) bool {
		t.Helper()
		s.status(st)
		f, ok := s.next(nil)
		if ok {
			if f.Status == nil {
				t.Fatalf("offered %+v", f)
			}
			s.sent()
		}
		return ok
	}
	idle, busy := stream.Status{Ready: true}, stream.Status{Ready: true, Running: []job.Attempt{{Job: "a", Number: 1}}}
	for i, c := range []struct {
		status stream.Status
		want   bool
	}{
		{idle, true},
		{idle, false},
		{idle, false},
		{idle, true},
		{idle, false},
		{busy, true},
		{busy, true},
		{idle, true},
		{idle, false},
		{stream.Status{Draining: true}, true},
		{stream.Status{Ready: true, Queued: 1}, true},
		{stream.Status{Ready: true, Queued: 1}, true},
	} {
		if got := sent(c.status); got != c.want {
			t.Errorf("status %d: sent %t, want %t", i, got, c.want)
		}
	}
}
