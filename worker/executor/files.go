package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/runner"
)

// The directories of an attempt, in its own.
const (
	inDir  = "in"
	outDir = "out"
)

// errNoOutputs says that a host keeps no files of jobs.
var errNoOutputs = errors.New("this host keeps no outputs of jobs")

// fetchFiles has the files of a job on this disk: what attempts here left is there, the
// rest comes from other hosts. Hosts are asked again for some time.
func fetchFiles(ctx context.Context, artefacts, outputs *artefact.Store, spec job.Spec, patience time.Duration) ([]runner.InFile, error) {
	var out []runner.InFile
	for _, name := range slices.Sorted(maps.Keys(spec.Files)) {
		h := spec.Files[name]
		f := runner.InFile{Name: name, Hash: h, Path: artefacts.Path(h)}
		if outputs != nil {
			if _, ok := outputs.Has(h); ok {
				f.Path = outputs.Path(h)
				out = append(out, f)
				continue
			}
		}
		if err := fetchOne(ctx, artefacts, h, patience); err != nil {
			return nil, fmt.Errorf("file %s: %w", name, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// verifyFiles drops what does not match its digest, so that it is fetched anew.
func verifyFiles(artefacts, outputs *artefact.Store, spec job.Spec) (err error) {
	for _, h := range spec.Files {
		err = errors.Join(err, artefacts.Verify(h))
		if outputs != nil {
			err = errors.Join(err, outputs.Verify(h))
		}
	}
	return err
}

// room reports that files have more bytes together than limit. One file may be there under
// many names.
func room(files []runner.InFile, limit int64) error {
	sum := int64(0)
	for _, f := range files {
		info, err := os.Stat(f.Path)
		if err != nil {
			return fmt.Errorf("file %s: %w", f.Name, err)
		}
		if sum += info.Size(); sum > limit {
			return fmt.Errorf("the job's files have more than %d bytes, exec.scratch_bytes of this host", limit)
		}
	}
	return nil
}

// copyFiles makes the directory of files of a program, which may have other rights than
// the daemon. It verifies what it copies.
func copyFiles(dir string, files []runner.InFile) (size int64, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // a program's user reads it
		return 0, fmt.Errorf("make directory of files: %w", err)
	}
	for _, f := range files {
		n, err := copyFile(filepath.Join(dir, f.Name), f)
		if err != nil {
			return 0, fmt.Errorf("file %s: %w", f.Name, err)
		}
		size += n
	}
	return size, nil
}

func copyFile(to string, f runner.InFile) (n int64, err error) {
	in, err := os.Open(f.Path)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	digest := cluster.NewDigest(in)
	n, err = io.Copy(out, digest)
	if err = errors.Join(err, out.Close()); err == nil && digest.Sum() != f.Hash {
		err = artefact.ErrCorrupt
	}
	return n, err
}

// leftError is what is wrong with the files that an attempt left.
func leftError(format string, args ...any) error {
	return fmt.Errorf("outputs: "+format, args...)
}

// Collect stores the files that an attempt left in a directory: exactly those that its
// job lists, each a plain file that nobody else has. What else is there fails it. owner
// is whose files they must be; negative: anybody's. What this host cannot do is Infra.
func Collect(dir string, spec job.Spec, limit int64, owner int, outputs *artefact.Store) (job.Files, error) {
	if len(spec.Outputs) == 0 {
		return nil, nil
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, leftError("the directory is gone: %w", err)
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close()
	names, err := d.Readdirnames(job.MaxOutputs + 2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, leftError("%w", err)
	}
	if spec.Checkpoint {
		names = slices.DeleteFunc(names, func(name string) bool { return name == job.CheckpointName })
	}
	if len(names) > job.MaxOutputs {
		return nil, leftError("more than %d files", job.MaxOutputs)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, err := job.ParseFileName(name); err != nil {
			return nil, leftError("%w", err)
		}
		if !slices.Contains(spec.Outputs, name) {
			return nil, leftError("file %s is not among those that the job lists", name)
		}
	}
	open := make([]*os.File, 0, len(spec.Outputs))
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	sizes := make([]int64, len(spec.Outputs))
	for i, name := range spec.Outputs {
		if !slices.Contains(names, name) {
			return nil, leftError("there is no file %s", name)
		}
		f, size, err := openLeft(fd, name, owner)
		if err != nil {
			return nil, err
		}
		open, sizes[i] = append(open, f), size
		if limit -= size; limit < 0 {
			return nil, tooMuch(name)
		}
	}
	return storeAll(open, sizes, outputs)
}

// storeAll stores files, two at a time: while the disk takes one, the next is read.
func storeAll(open []*os.File, sizes []int64, outputs *artefact.Store) (job.Files, error) {
	stored, errs := make([]job.File, len(open)), make([]error, len(open))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(2, len(open)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(open)); i = next.Add(1) - 1 {
				stored[i], errs[i] = storeOne(open[i], sizes[i], outputs)
			}
		})
	}
	all.Wait()
	left := make(job.Files, len(open))
	for i, f := range open {
		if errs[i] != nil {
			return nil, errs[i]
		}
		left[f.Name()] = stored[i]
	}
	return left, nil
}

// openLeft opens one file without following a link, and looks at it again when it is open:
// what runs on could have put another in its place.
func openLeft(dir int, name string, owner int) (*os.File, int64, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, 0, leftError("file %s: %w", name, err)
	}
	if err := plainFile(name, &st, owner); err != nil {
		return nil, 0, err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, leftError("file %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err = unix.Fstat(fd, &st); err != nil {
		err = leftError("file %s: %w", name, err)
	} else {
		err = plainFile(name, &st, owner)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size, nil
}

func tooMuch(name string) error {
	return leftError("more than the bytes that a chunk may leave, with file %s", name)
}

// storeOne stores a file, no more of it than it had.
func storeOne(f *os.File, size int64, outputs *artefact.Store) (job.File, error) {
	h, err := outputs.Put(f, size)
	switch {
	case errors.Is(err, artefact.ErrTooLarge):
		return job.File{}, tooMuch(f.Name())
	case err != nil:
		return job.File{}, Infra(leftError("file %s: %w", f.Name(), err))
	}
	size, stored := outputs.Has(h)
	if !stored {
		return job.File{}, Infra(leftError("file %s: it was removed from the store", f.Name()))
	}
	return job.File{Hash: h, Size: size}, nil
}

func plainFile(name string, st *unix.Stat_t, owner int) error {
	what := ""
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		what = "a link"
	case unix.S_IFDIR:
		what = "a directory"
	default:
		what = "a device, a pipe or a socket"
	}
	switch {
	case what != "":
		return leftError("%s is %s, want a plain file", name, what)
	case st.Nlink != 1:
		return leftError("%s is a link to a file that is elsewhere as well", name)
	case owner >= 0 && int(st.Uid) != owner:
		return leftError("%s belongs to somebody else", name)
	}
	return nil
}

// finished is the result of an attempt at a chunk that ended well.
func finished(spec job.Spec, out []byte, iterations uint64, left job.Files) (job.ChunkResult, error) {
	r := job.ChunkResult{Iterations: iterations, Metrics: map[string]job.Metric{}}
	if spec.Result != job.ResultNone {
		var err error
		if r, err = decodeResult(out, iterations); err != nil {
			return job.ChunkResult{}, err
		}
	}
	r.Outputs = left
	return r, nil
}

// fetchOne asks again for a while before it gives up: the hosts that have an
// artefact may be restarting, or not be known here yet, and a failed attempt
// costs the job one of few.
func fetchOne(ctx context.Context, artefacts *artefact.Store, h cluster.Hash, patience time.Duration) error {
	started := time.Now()
	for {
		err := artefacts.Fetch(ctx, h, nil)
		if err == nil || ctx.Err() != nil || time.Since(started) > patience {
			return err
		}
		timer := time.NewTimer(fetchPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}
