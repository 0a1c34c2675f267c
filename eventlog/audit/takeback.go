package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/durable"
)

// Cut says that of an own chain what comes after Kept is to be taken back, and
// why.
type Cut struct {
	Source event.SourceID
	Kept   uint64
	Reason string
}

// TakeBack ends own chains before what runs ahead, and sets that aside. The log
// must not be open. Opened again it goes on as a new incarnation; see Facts for
// what is written again there. It can be repeated after a crash.
func TakeBack(o RepairOptions, cuts []Cut) ([]Repairing, error) {
	lock, err := durable.Lock(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("take back events: %w", err)
	}
	defer lock.Close()
	pending, err := LoadRepairs(o.Dir)
	if err != nil {
		return nil, err
	}
	for _, c := range cuts {
		name, err := segmentOf(filepath.Join(o.Dir, segment.SourceDir(c.Source)), c.Kept+1)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was done before a crash
		}
		if err != nil {
			return pending, fmt.Errorf("take back events of %s: %w", c.Source, err)
		}
		r, err := o.setAside(&segment.CorruptError{Segment: name, Source: c.Source, Seq: c.Kept + 1, Own: true, Reason: c.Reason})
		if err != nil {
			return pending, fmt.Errorf("take back events of %s: %w", c.Source, err)
		}
		r.Known, r.TakenBack = 0, true
		pending = merge(pending, r)
		if err := o.finish(pending, r); err != nil {
			return pending, fmt.Errorf("take back events of %s: %w", c.Source, err)
		}
	}
	return pending, nil
}

// segmentOf returns the segment in dir that has the event seq.
func segmentOf(dir string, seq uint64) (path string, err error) {
	firsts, err := segment.Files(disk.OSFS(), dir)
	if err != nil {
		return "", err
	}
	for _, first := range firsts {
		if path == "" || first <= seq {
			path = filepath.Join(dir, segment.Name(first))
		}
	}
	if path == "" {
		return "", fmt.Errorf("no segment in %s", dir)
	}
	return path, nil
}

// Facts reads from what TakeBack set aside, of the events after that seq, those
// that did not exercise the lease. The first events of a start and of a chain are
// not among them: they were true of that start only.
func Facts(r Repairing, after uint64) (out []event.Event, err error) {
	if !r.TakenBack {
		return nil, nil
	}
	names, err := os.ReadDir(r.Aside)
	if err != nil {
		return nil, fmt.Errorf("read what was taken back of %s: %w", r.Source, err)
	}
	for _, e := range names {
		b, err := os.ReadFile(filepath.Join(r.Aside, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read what was taken back of %s: %w", r.Source, err)
		}
		for run := range wire.Groups(b) {
			ru, err := wire.DecodeRun(run)
			if err != nil || ru.Head.Source != r.Source {
				continue // of an interrupted write
			}
			for _, e := range ru.Events {
				if e.Seq > after && e.Term == 0 && e.Kind != event.KindIncarnation && e.Kind != event.KindHostStarted && json.Valid(e.Body) {
					out = append(out, e)
				}
			}
		}
	}
	return out, nil
}
