package flow

import (
	"bytes"

	"github.com/skein-project/skein/cluster"
)

// HasFiles reports that jobs of steps have files, outputs or no result, or that steps
// take some from others.
func (d Def) HasFiles() bool {
	for _, s := range d.Steps {
		if len(s.Files) > 0 || s.Job.HasFiles() {
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
		for _, h := range s.Job.Files {
			set[h] = true
		}
	}
}
