package flow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// takeFiles reads which outputs of other steps the chunks of a step find as files.
func (g *Graph) takeFiles(i int) error {
	n := &g.nodes[i]
	for name, s := range n.outputs {
		if s.IsFile() && !slices.Contains(n.Job.Outputs, s.File) {
			return fmt.Errorf("output %s: the job lists no output %s", name, s.File)
		}
	}
	if len(n.Step.Files)+len(n.Job.Files) > job.MaxFiles {
		return fmt.Errorf("%d files, at most %d are allowed", len(n.Step.Files)+len(n.Job.Files), job.MaxFiles)
	}
	for _, name := range sortedKeys(n.Step.Files) {
		if _, err := job.ParseFileName(name); err != nil {
			return fmt.Errorf("files: %w", err)
		}
		if _, both := n.Job.Files[name]; both {
			return fmt.Errorf("files: the job has a file %s as well", name)
		}
		path := strings.Split(n.Step.Files[name], ".")
		if len(path) != 2 || !g.Has(path[0]) {
			return fmt.Errorf("files: %s: %.64q is no output of a step, want STEP.OUTPUT", name, n.Step.Files[name])
		}
		if err := g.checkRef(i, path); err != nil {
			return fmt.Errorf("files: %s: %w", name, err)
		}
		if !g.nodes[g.byName[path[0]]].outputs[path[1]].IsFile() {
			return fmt.Errorf("files: %s: %s is no file: its source is %q, want file:NAME or files:NAME", name, n.Step.Files[name], g.nodes[g.byName[path[0]]].Outputs[path[1]])
		}
	}
	return nil
}

// files are what each chunk of a step's job finds: of one file under its name, of several
// under that and their numbers.
func (m *Machine) files(i int) (map[string]cluster.Hash, error) {
	n := &m.g.nodes[i]
	if len(n.Step.Files) == 0 {
		return n.Job.Files, nil
	}
	out := maps.Clone(n.Job.Files)
	if out == nil {
		out = make(map[string]cluster.Hash, len(n.Step.Files))
	}
	for _, name := range sortedKeys(n.Step.Files) {
		step, output, _ := strings.Cut(n.Step.Files[name], ".")
		v := data{m}.value(m.g.byName[step], output)
		hashes, err := hashesOf(v, nil)
		if err != nil {
			return nil, fmt.Errorf("file %s: %s: %w", name, n.Step.Files[name], err)
		}
		if _, several := v.([]any); !several {
			out[name] = hashes[0]
			continue
		}
		for k, h := range hashes {
			out[fmt.Sprintf("%s.%04d", name, k)] = h
		}
	}
	return out, nil
}

// hashesOf are those in an output that is a file, or a list of some. Where a list has none,
// because something failed that may, there is no file.
func hashesOf(v any, out []cluster.Hash) ([]cluster.Hash, error) {
	switch v := v.(type) {
	case string:
		h, err := cluster.ParseHash(v)
		return append(out, h), err
	case []any:
		var err error
		for _, one := range v {
			if one == nil {
				continue
			}
			if out, err = hashesOf(one, out); err != nil {
				return nil, err
			}
			if len(out) > job.MaxFiles {
				return nil, fmt.Errorf("more than %d files", job.MaxFiles)
			}
		}
		return out, nil
	}
	return nil, errors.New("there is no file")
}
