package offline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/runner"
)

// localStores are what a local job needs, and what its chunks leave.
type localStores struct{ in, out *artefact.Store }

// store puts what the job needs into stores below dir, fills in its hashes and checks it.
func (j LocalJob) store(dir string) (s localStores, spec job.Spec, err error) {
	if spec, err = j.Spec, j.checkFiles(); err != nil {
		return s, spec, err
	}
	if s.in, err = artefact.New(artefact.Options{Dir: filepath.Join(dir, "artefacts"), Logger: zerolog.Nop()}); err != nil {
		return s, spec, err
	}
	if s.out, err = artefact.New(artefact.Options{Dir: filepath.Join(dir, "outputs"), Name: "output", Logger: zerolog.Nop()}); err != nil {
		return s, spec, err
	}
	if j.Module != nil {
		if err := runner.CheckModule(j.Module); err != nil {
			return s, spec, err
		}
		if spec.Artefact, err = s.in.Put(bytes.NewReader(j.Module), job.MaxModuleBytes); err != nil {
			return s, spec, err
		}
	}
	if j.Input != nil {
		if spec.Config, err = s.in.Put(bytes.NewReader(j.Input), job.MaxConfigBytes); err != nil {
			return s, spec, err
		}
	}
	if len(j.Files) > 0 {
		spec.Files = make(map[string]cluster.Hash, len(j.Files))
	}
	for name, path := range j.Files {
		if spec.Files[name], err = s.take(path); err != nil {
			return s, spec, fmt.Errorf("file %s: %w", name, err)
		}
	}
	if err = spec.Validate(); err != nil {
		return s, spec, err
	}
	// Who may run it, where, and how many hosts must agree are questions of a cluster.
	spec.Permission, spec.Zones, spec.Replication = job.Permission{}, nil, job.Replication{}
	return s, spec, nil
}

// checkFiles refuses a job whose files are not here, or whose chunks leave some nowhere.
func (j LocalJob) checkFiles() error {
	for _, name := range slices.Sorted(maps.Keys(j.Spec.Files)) {
		if j.Files[name] == "" {
			return fmt.Errorf("file %s is named by its hash, and there is no cluster that has it: give its path on this machine, --files %s=PATH", name, name)
		}
	}
	switch {
	case len(j.Spec.After) > 0:
		return errors.New("after names jobs of a cluster, and there is none here")
	case len(j.Spec.Outputs) > 0 && j.To == "":
		return errors.New("the chunks of the job leave files, and nothing says where they go: --to DIR")
	case len(j.Spec.Outputs) == 0 && j.To != "":
		return errors.New("the chunks of the job leave no files for --to: --outputs NAME says which they leave")
	}
	return nil
}

func (s localStores) take(path string) (cluster.Hash, error) {
	f, err := os.Open(path)
	if err != nil {
		return cluster.Hash{}, err
	}
	defer f.Close()
	return s.in.Put(f, job.MaxModuleBytes)
}

// write copies what chunks left below a directory, each as CHUNK/NAME, under another name
// until it is whole.
func (s localStores) write(left []job.OutputFile, to string) error {
	for _, f := range left {
		dir := filepath.Join(to, strconv.Itoa(f.Chunk))
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as any directory that a command makes for its user
			return fmt.Errorf("write files of chunks: %w", err)
		}
		if err := s.writeOne(f.Hash, filepath.Join(dir, f.Name)); err != nil {
			return fmt.Errorf("write file %s of chunk %d: %w", f.Name, f.Chunk, err)
		}
	}
	return nil
}

func (s localStores) writeOne(h cluster.Hash, name string) (err error) {
	in, _, err := s.out.Open(h)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(name), ".skein-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o644), out.Close()); err == nil {
		err = os.Rename(out.Name(), name)
	}
	if err != nil {
		_ = os.Remove(out.Name()) // it is of no use
	}
	return err
}
