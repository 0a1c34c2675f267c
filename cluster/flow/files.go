package flow

import (
	"bytes"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// HasFiles reports that jobs of steps have files, outputs or no result, or that steps
// take some from others.
func (d Def) HasFiles() bool {
	for _, s := range d.Steps {
		if len(s.Files) > 0 || s.Job.HasFiles() || s.Provider != nil {
			return true
		}
	}
	return false
}

// MayHaveFiles reports that an encoded definition may name files by their hashes; it is
// cheaper than to decode one.
func MayHaveFiles(def []byte) bool { return bytes.Contains(def, []byte(`"files":`)) }

// AddFiles adds the hashes of files that an encoded definition names to a set. One that
// makes no sense names none: nobody can run it.
func AddFiles(set map[cluster.Hash]bool, def []byte) {
	if !MayHaveFiles(def) {
		return
	}
	d, err := Decode(def)
	if err != nil {
		return
	}
	for _, s := range d.Steps {
		for _, spec := range s.Jobs() {
			for _, h := range spec.Files {
				set[h] = true
			}
		}
	}
}

// Jobs are the specs of a step: its own, and that of its provider.
func (s Step) Jobs() []job.Spec {
	if s.Provider == nil {
		return []job.Spec{s.Job}
	}
	return []job.Spec{s.Job, *s.Provider}
}

// HasProviders reports that steps have providers.
func (d Def) HasProviders() bool {
	for _, s := range d.Steps {
		if s.Provider != nil {
			return true
		}
	}
	return false
}
