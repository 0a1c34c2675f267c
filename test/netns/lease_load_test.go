//go:build linux

package netns_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// Shape of the load.
const (
	loadEvery  = 400 * time.Millisecond // between two small jobs
	loadChunks = 5
	loadSize   = 300_000 // iterations of a chunk: a few milliseconds
	loadWait   = 8 * time.Second
	loadBusy   = 12  // submits that wait at the same time
	largeJob   = 150 // chunks
)

// load submits small jobs through all hosts in turn, so that the scheduler
// acts all the time, and remembers which were acknowledged as stable.
type load struct {
	f    *fleet
	spec cluster.JobSpec
	all  []*daemon

	cancel context.CancelFunc // nil: not running
	done   sync.WaitGroup
	made   atomic.Int64 // jobs

	mu      sync.Mutex
	acked   []cluster.JobID
	refused int
}

// newLoad stores the module on every host.
func (f *fleet) newLoad() *load {
	f.t.Helper()
	l := &load{f: f, all: f.all}
	for _, d := range f.all {
		l.spec = d.upload()
	}
	return l
}

// upload stores the module of the jobs on d.
func (d *daemon) upload() cluster.JobSpec {
	d.f.t.Helper()
	file, err := os.Open(piModule(d.f))
	if err != nil {
		d.f.t.Fatal(err)
	}
	defer file.Close()
	a, err := d.api.PutArtefact(d.f.ctx, file)
	if err != nil {
		d.f.t.Fatalf("artefact of %s: %v", d.Name(), err)
	}
	return cluster.JobSpec{Executor: cluster.ExecutorWASM, Artefact: a.Hash, Seed: 1}
}

// piMu lets one test compile the module.
var piMu sync.Mutex

// piModule is the file of the example job; it is compiled if the build did not
// bring it.
func piModule(f *fleet) string {
	f.t.Helper()
	piMu.Lock()
	defer piMu.Unlock()
	path := filepath.Join(filepath.Dir(exe), "examples", "pi.wasm")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.CommandContext(f.ctx, "go", "build", "-o", path, "../../examples/pi")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("compile the module: %v\n%s", err, out)
	}
	return path
}

// job is a job of so many chunks, another one each time.
func (l *load) job(chunks int) cluster.JobSpec {
	s := l.spec
	s.Key = fmt.Sprintf("load-%d", l.made.Add(1))
	s.Chunk, s.Iterations = loadSize, uint64(chunks)*loadSize
	return s
}

// start goes on with the load.
func (l *load) start() {
	ctx, cancel := context.WithCancel(l.f.ctx)
	l.cancel = cancel
	l.done.Go(func() {
		free := make(chan struct{}, loadBusy) // holds one per submit that waits; when full, none is added
		tick := time.NewTicker(loadEvery)
		defer tick.Stop()
		for turn := 0; ; turn++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case free <- struct{}{}:
			default:
				continue
			}
			s := l.job(loadChunks)
			d := l.all[turn%len(l.all)]
			l.done.Go(func() {
				defer func() { <-free }()
				_, _ = l.submit(ctx, d, s) // counted
			})
		}
	})
}

// stop ends the load; what was not acknowledged yet is given up.
func (l *load) stop() {
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
		l.done.Wait()
	}
}

// submit hands one job to a host and notes the answer.
func (l *load) submit(ctx context.Context, d *daemon, s cluster.JobSpec) (cluster.JobID, error) {
	ctx, cancel := context.WithTimeout(ctx, loadWait)
	defer cancel()
	sub, err := d.api.Submit(ctx, api.SubmitRequest{Spec: s, Wait: api.WaitStable})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.refused++
		return "", err
	}
	l.acked = append(l.acked, sub.Job)
	return sub.Job, nil
}

// acknowledged lists the jobs that must never be lost.
func (l *load) acknowledged() []cluster.JobID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]cluster.JobID(nil), l.acked...)
}
