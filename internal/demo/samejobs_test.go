package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/offline"
)

// sameJobs are jobs for outside workers that a user sends one after the other, so that there
// is something to do as long as faults last. They differ in their keys alone: each finds the
// same.
type sameJobs struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // the test's
	d    *demo
	urls map[*host]string
	ann  *portalUser
	spec job.Spec
	sent []job.ID
}

// newSameJobs sends the first.
func newSameJobs(ctx context.Context, t *testing.T, d *demo, urls map[*host]string, ann *portalUser, spec job.Spec) *sameJobs {
	t.Helper()
	s := &sameJobs{t: t, ctx: ctx, d: d, urls: urls, ann: ann, spec: spec}
	if err := s.send(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sameJobs) chunks() int { return int(s.spec.Iterations / s.spec.Chunk) }

// send has a gateway that lives take another.
func (s *sameJobs) send() error {
	spec := s.spec
	spec.Key += fmt.Sprint(" ", len(s.sent))
	var errs []error
	for _, h := range s.d.hosts {
		sub, err := s.ann.submit(s.ctx, s.urls[h], spec)
		if err == nil {
			s.sent = append(s.sent, sub.Job)
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// accepted is how many chunks of the last one count, and how many of them are outside
// workers'.
func (s *sameJobs) accepted() (all, outside int) {
	for _, h := range s.d.hosts {
		j, err := h.api.Job(s.ctx, string(s.sent[len(s.sent)-1]))
		if err != nil || j.Chunks.Accepted <= all {
			continue
		}
		all, outside = j.Chunks.Accepted, 0
		for _, w := range j.Workers {
			if cluster.IsOutside(w.Node) {
				outside += w.Accepted
			}
		}
	}
	return all, outside
}

// goOn waits until more chunks of outside workers count.
func (s *sameJobs) goOn(what string) {
	s.t.Helper()
	_, before := s.accepted()
	eventually(s.ctx, s.t, 5*time.Minute, what+": outside workers count", func() error {
		all, now := s.accepted()
		if now >= before+3 {
			return nil
		}
		if all >= s.chunks() {
			before = 0
			return errors.Join(errors.New("the job is done, another is sent"), s.send())
		}
		return fmt.Errorf("%d before, %d now, %d of all", before, now, all)
	})
}

// end waits until all are done: each chunk counts once, and each is what one computer alone
// makes of it, to the bit.
func (s *sameJobs) end() {
	t, ctx := s.t, s.ctx
	t.Helper()
	module, err := os.ReadFile(filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := offline.RunLocal(ctx, offline.LocalJob{Spec: s.spec.WithDefaults(), Module: module, RunnerArgv: []string{plainSkein(), "runner"}, Modules: wasmtest.Modules(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range s.sent {
		got := finish(ctx, t, s.d.hosts[2], id)
		if got.State != job.Completed || got.Chunks.Accepted != s.chunks() || got.Attempts.Failed > 0 {
			t.Errorf("%s: %+v, attempts %+v", got.State, got.Chunks, got.Attempts)
		}
		if !reflect.DeepEqual(got.Aggregates, want.Aggregates) || got.Iterations != want.Iterations {
			t.Errorf("by outside workers %v %+v\nlocally %v %+v", got.Iterations, got.Aggregates, want.Iterations, want.Aggregates)
		}
	}
	t.Logf("%d jobs of %d chunks", len(s.sent), s.chunks())
}
