package executor

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/runner"
)

const (
	// saveBefore is how long before its end a program is told of it, at most half of the
	// time that it has.
	saveBefore = 10 * time.Second
	// resumePatience bounds the fetch of a checkpoint: without it the work begins anew.
	resumePatience = 30 * time.Second
)

// saver stores the checkpoints of one attempt.
type saver struct {
	dir     string // of what the attempt leaves
	owner   int    // whose files these are; negative: anybody's
	outputs *artefact.Store
	tell    func(job.Checkpoint)
	every   time.Duration

	mu   sync.Mutex
	last time.Time // zero: none was stored, or the next one is due whenever it comes
}

// due has the next checkpoint stored whenever it comes: it is the last.
func (s *saver) due() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Time{}
}

// save stores the checkpoint that is there. One that cannot be stored is none: the work
// goes on, and its result is the same without.
func (s *saver) save(done uint64) {
	s.mu.Lock()
	if !s.last.IsZero() && time.Since(s.last) < s.every {
		s.mu.Unlock()
		return
	}
	s.last = time.Now()
	s.mu.Unlock()
	fd, err := unix.Open(s.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	f, size, err := openLeft(fd, job.CheckpointName, s.owner)
	if err != nil {
		return
	}
	defer f.Close()
	if size > job.MaxCheckpointBytes {
		return
	}
	if stored, err := storeOne(f, size, s.outputs); err == nil {
		s.tell(job.Checkpoint{File: stored, Done: done})
	}
}

// resume has the checkpoint of an earlier attempt on this disk, among the files of a task;
// if it cannot be had there is none.
func resume(ctx context.Context, outputs *artefact.Store, t Task) []runner.InFile {
	if t.Resume == nil || outputs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resumePatience)
	defer cancel()
	h := t.Resume.Hash
	if _, there := outputs.Has(h); !there && outputs.Fetch(ctx, h, nil) != nil {
		return nil
	}
	if outputs.Verify(h) != nil {
		return nil
	}
	if _, there := outputs.Has(h); !there {
		return nil
	}
	return []runner.InFile{{Name: job.CheckpointName, Hash: h, Path: outputs.Path(h)}}
}

// copyResume puts a checkpoint into the directory of files of a program; if that fails there
// is none.
func copyResume(dir string, list []runner.InFile) (size int64) {
	for _, f := range list {
		name := filepath.Join(dir, f.Name)
		n, err := copyFile(name, f)
		if err != nil {
			_ = os.Remove(name) // it may not be there
			continue
		}
		size += n
	}
	return size
}

// warn calls tell when an attempt ends soon: some time before its limit, or when ending is
// closed. The caller calls stop.
func (l limit) warn(ending <-chan struct{}, moved func() bool, tell func()) (stop func()) {
	before := func(d time.Duration) time.Duration { return max(d-saveBefore, d/2) }
	soft := time.AfterFunc(before(l.soft), func() {
		if l.soft == l.hard || !moved() {
			tell()
		}
	})
	hard := time.AfterFunc(before(l.hard), func() {
		if l.soft != l.hard {
			tell()
		}
	})
	over := make(chan struct{})
	go func() { // ends with the attempt
		select {
		case <-ending:
			tell()
		case <-over:
		}
	}()
	return func() { soft.Stop(); hard.Stop(); close(over) }
}
