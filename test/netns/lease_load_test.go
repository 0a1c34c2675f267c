//go:build linux

package netns_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// Shape of the load.
const (
	loadEvery  = 400 * time.Millisecond // between two small jobs
	loadChunks = 5
	loadWait   = 8 * time.Second
	loadBusy   = 12        // submits that wait at the same time
	largeJob   = 250       // chunks
	chunkSize  = 10        // iterations
	chunkWork  = 4_000_000 // turns of a loop: a few milliseconds
)

// load submits small jobs through all hosts in turn, so that the scheduler
// acts all the time, and remembers which were acknowledged as stable.
type load struct {
	f    *fleet
	spec job.Spec
	all  []*daemon

	cancel context.CancelFunc // nil: not running
	done   sync.WaitGroup
	made   atomic.Int64 // jobs

	mu      sync.Mutex
	acked   []job.ID
	refused int
}

// newLoad stores the module on every host.
func (f *fleet) newLoad() *load {
	f.t.Helper()
	l := &load{f: f, all: f.all}
	for _, d := range f.all {
		l.spec = d.upload(chunkWork)
	}
	return l
}

// module is a WASI command that counts down turns, a few milliseconds for
// chunkWork, and prints the result of a chunk of chunkSize iterations. Without
// turns it never ends. Any host compiles it in no time.
func module(turns int) []byte {
	const result = `{"iterations":10,"metrics":{"x":{"n":10,"mean":2,"m2":10,"min":1,"max":3}}}`
	uleb := func(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }
	text := func(s string) []byte { return append(uleb(len(s)), s...) }
	const at, written = 16, 8 // of the text, and of how much was written
	vector := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, at), uint32(len(result)))
	count := []byte{0x03, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b}
	if turns == 0 {
		count = []byte{0x03, 0x40, 0x0c, 0, 0x0b}
	}
	start := slices.Concat(
		[]byte{1, 1, 0x7f},                         // one local
		[]byte{0x41}, uleb(turns), []byte{0x21, 0}, // signed: the turns must so encoded not be below 0
		count,
		[]byte{0x41, 1, 0x41, 0, 0x41, 1, 0x41, written, 0x10, 0, 0x1a, 0x0b}, // fd_write
	)
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range []struct {
		id   byte
		body []byte
	}{
		{1, []byte{2, 0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f, 0x60, 0, 0}}, // fd_write and _start
		{2, slices.Concat([]byte{1}, text("wasi_snapshot_preview1"), text("fd_write"), []byte{0, 0})},
		{3, []byte{1, 1}},
		{5, []byte{1, 0, 1}}, // one page of memory
		{7, slices.Concat([]byte{2}, text("memory"), []byte{2, 0}, text("_start"), []byte{0, 1})},
		{10, slices.Concat([]byte{1}, uleb(len(start)), start)},
		{11, slices.Concat([]byte{2, 0, 0x41, 0, 0x0b}, text(string(vector)), []byte{0, 0x41, at, 0x0b}, text(result))},
	} {
		out = slices.Concat(out, []byte{s.id}, uleb(len(s.body)), s.body)
	}
	return out
}

// upload stores a module on d.
func (d *daemon) upload(turns int) job.Spec {
	d.f.t.Helper()
	a, err := d.api.PutArtefact(d.f.ctx, bytes.NewReader(module(turns)))
	if err != nil {
		d.f.t.Fatalf("artefact of %s: %v", d.Name(), err)
	}
	return job.Spec{Executor: job.ExecutorWASM, Artefact: a.Hash, Seed: 1}
}

// job is a job of so many chunks, another one each time.
func (l *load) job(chunks int) job.Spec {
	s := l.spec
	s.Key = fmt.Sprintf("load-%d", l.made.Add(1))
	s.Chunk, s.Iterations = chunkSize, uint64(chunks)*chunkSize
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
				_, _ = l.submit(l.f.ctx, d, s) // counted
			})
		}
	})
}

// stop ends the load, once all that was asked for is answered.
func (l *load) stop() {
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
		l.done.Wait()
	}
}

// submit hands one job to a host and notes the answer.
func (l *load) submit(ctx context.Context, d *daemon, s job.Spec) (job.ID, error) {
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
func (l *load) acknowledged() []job.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]job.ID(nil), l.acked...)
}
