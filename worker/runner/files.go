package runner

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/guestfs"
)

// openFiles maps the files of a guest into memory, and verifies them. The caller calls
// free when nothing reads them any more.
func openFiles(list []InFile) (in map[string][]byte, free func(), bad *Done) {
	in = make(map[string][]byte, len(list))
	var unmap []func()
	free = func() {
		for _, f := range unmap {
			f()
		}
	}
	for _, f := range list {
		b, done, err := mapFile(f.Path, job.MaxModuleBytes)
		if errors.Is(err, fs.ErrNotExist) {
			err = errCorrupt // somebody removed it: as good as damaged
		}
		if err == nil {
			unmap = append(unmap, done)
			if cluster.Hash(sha256.Sum256(b)) != f.Hash {
				err = errCorrupt
			}
		}
		if err != nil {
			return nil, free, fileTrouble(f.Hash, err)
		}
		in[f.Name] = b
	}
	return in, free, nil
}

// guestFiles adds the directories of a guest to what it sees. They are in memory: a
// directory of the host would be one that a guest leaves by "..", and by links.
func guestFiles(t Task, in map[string][]byte, c wazero.ModuleConfig) (_ wazero.ModuleConfig, left *guestfs.Dir) {
	const epoch = GuestEpoch * int64(time.Second)
	files, ok := wazero.NewFSConfig().(sysfs.FSConfig)
	if !ok {
		panic("runner: this version of wazero mounts no file system of ours")
	}
	var all wazero.FSConfig
	if len(in) > 0 || t.SaveEvery > 0 {
		all = files.WithSysFSMount(guestfs.ReadOnly(epoch, in), GuestIn)
		files, _ = all.(sysfs.FSConfig) // as above
	}
	if t.OutDir != "" {
		most := job.MaxOutputs
		if t.SaveEvery > 0 {
			most += 2 // a checkpoint, and the next one
		}
		left = guestfs.Writable(epoch, t.OutBytes, most)
		all = files.WithSysFSMount(left, GuestOut)
	}
	if all == nil {
		return c, nil
	}
	return c.WithFSConfig(all), left
}

// writeFiles writes what a guest left into a directory that is empty.
func writeFiles(left *guestfs.Dir, dir string) error {
	for _, name := range left.Names() {
		if name == job.CheckpointName {
			continue // what is left at the end is of no use
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("write outputs: %w", err)
		}
		err = left.WriteTo(name, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("write outputs: %w", err)
		}
	}
	return nil
}

// saver has what a guest saves where its parent finds it, at most once in so much time.
// One that cannot be written is none.
func saver(left *guestfs.Dir, t Task) func() bool {
	if left == nil || t.SaveEvery <= 0 {
		return nil
	}
	var last time.Time
	return func() bool {
		if !last.IsZero() && time.Since(last) < t.SaveEvery {
			return false
		}
		name := filepath.Join(t.OutDir, job.CheckpointName)
		f, err := os.Create(name + ".new")
		if err != nil {
			return false
		}
		err = left.WriteTo(job.CheckpointName, f)
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(f.Name(), name)
		}
		if err != nil {
			_ = os.Remove(f.Name()) // or it goes with the directory
			return false
		}
		last = time.Now()
		return true
	}
}
