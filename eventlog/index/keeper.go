package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/internal/wait"
)

const (
	suffix = ".idx"
	// maxTail bounds the entries that are in memory, of all chains: 64 MiB.
	maxTail = 4 << 20
	// work is for how long a Keeper reads before it rests as long.
	work = 5 * time.Millisecond
)

// Segments is the log that is indexed.
type Segments interface {
	Ends() []event.Head
	Segments(src event.SourceID) []store.Segment
	Changed() <-chan struct{}
}

// Options configure a Keeper. All fields are required.
type Options struct {
	Dir     string // of the files; created if it is not there
	Cluster string
	FS      disk.FS
	Log     Segments
	// Takes says whether the disk has room for more.
	Takes  func() bool
	Every  time.Duration // the least time from one look to the next
	Logger zerolog.Logger
}

// Keeper keeps the index of a log.
type Keeper struct {
	o   Options
	log zerolog.Logger

	mu    sync.Mutex
	tails map[event.SourceID]*table // of each chain's last segment
	held  int                       // entries in them
	kept  map[string]bool           // paths of files that were good when last seen
	wake  chan struct{}             // holds one: a file is to be made again; full: it is already known
}

// New makes a Keeper, which does nothing until Run runs.
func New(o Options) *Keeper {
	return &Keeper{
		o: o, log: o.Logger.With().Str("component", "eventlog").Logger(),
		tails: map[event.SourceID]*table{}, kept: map[string]bool{}, wake: make(chan struct{}, 1),
	}
}

// Run makes the files of full segments and removes those of dropped ones, until
// ctx ends. What fails is tried again at the next change of the log.
func (k *Keeper) Run(ctx context.Context) {
	for {
		changed := k.o.Log.Changed() // before the look, so that nothing is missed
		if err := k.pass(ctx); err != nil && ctx.Err() == nil {
			k.log.Debug().Err(err).Msg("index of events not up to date")
		}
		if wait.For(ctx, k.o.Every) != nil {
			return
		}
		select {
		case <-changed:
		case <-k.wake:
		case <-ctx.Done():
			return
		}
	}
}

// pass looks at all segments once.
func (k *Keeper) pass(ctx context.Context) error {
	wanted := map[string]bool{}
	var errs []error
	for _, h := range k.o.Log.Ends() {
		for _, s := range k.o.Log.Segments(h.Source) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !s.Sealed {
				errs = append(errs, k.follow(s))
				continue
			}
			path := k.path(s)
			wanted[path] = true
			errs = append(errs, k.keep(ctx, s, path))
		}
	}
	return errors.Join(append(errs, k.tidy(wanted))...)
}

func (k *Keeper) path(s store.Segment) string {
	return filepath.Join(k.o.Dir, segment.SourceDir(s.Source)+"-"+strings.TrimSuffix(segment.Name(s.First), segment.Suffix)+suffix)
}

// follow reads on in a chain's last segment.
func (k *Keeper) follow(s store.Segment) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.tail(s)
	return err
}

// tail returns the table of a segment in memory, up to date.
func (k *Keeper) tail(s store.Segment) (*table, error) {
	t := k.tails[s.Source]
	if !t.of(s) {
		k.forget(s.Source)
		t = newTable(s)
		k.tails[s.Source] = t
	}
	had := len(t.entries)
	t.full = t.full || k.held > maxTail
	err := t.read(k.o.FS, s, func() error { return nil })
	k.held += len(t.entries) - had
	if err != nil {
		k.forget(s.Source)
	}
	return t, err
}

func (k *Keeper) forget(src event.SourceID) {
	if t := k.tails[src]; t != nil {
		k.held -= len(t.entries)
		delete(k.tails, src)
	}
}

// keep sees to it that the file of a full segment is there.
func (k *Keeper) keep(ctx context.Context, s store.Segment, path string) error {
	k.mu.Lock()
	known := k.kept[path]
	k.mu.Unlock()
	if known {
		return nil
	}
	err := k.check(s, path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			k.log.Warn().Err(err).Msg("index of events is made again")
		}
		if !k.o.Takes() {
			return nil // reading takes longer meanwhile
		}
		if err = k.make(ctx, s, path); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept[path] = true
	if k.tails[s.Source].of(s) {
		k.forget(s.Source)
	}
	return nil
}

// check reads a file to its end.
func (k *Keeper) check(s store.Segment, path string) error {
	return k.with(s, path, func(o *opened) error {
		for i := range o.entries {
			if _, err := o.entry(i); err != nil {
				return err
			}
		}
		return nil
	})
}

// with calls f with the file of s.
func (k *Keeper) with(s store.Segment, path string, f func(*opened) error) error {
	file, err := k.o.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	o, err := open(file, size, key(k.o.Cluster, s), s)
	if err == nil {
		err = f(o)
	}
	if err != nil {
		return disk.ReadError(path, err)
	}
	return nil
}

// make writes the file of a full segment.
func (k *Keeper) make(ctx context.Context, s store.Segment, path string) error {
	k.mu.Lock()
	t := k.tails[s.Source]
	if t.of(s) && !t.full {
		k.forget(s.Source) // it is this goroutine's from here on
	} else {
		t = newTable(s)
	}
	k.mu.Unlock()
	began := time.Now()
	err := t.read(k.o.FS, s, func() error {
		worked := time.Since(began)
		if worked < work {
			return nil
		}
		err := wait.For(ctx, worked)
		began = time.Now()
		return err
	})
	if err == nil && (t.end.Seq != s.Last || t.end.Hash != s.Hash) {
		err = disk.ReadError(s.Path, errChain)
	}
	if err != nil {
		return err
	}
	if err := k.o.FS.MkdirAll(k.o.Dir, 0o700); err != nil {
		return fmt.Errorf("create index directory: %w", err)
	}
	b, err := t.encode(key(k.o.Cluster, s))
	if err != nil {
		return err
	}
	return disk.WriteFile(k.o.FS, path, b)
}

// tidy removes the files of segments that are no longer there.
func (k *Keeper) tidy(wanted map[string]bool) error {
	entries, err := k.o.FS.ReadDir(k.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list index: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, e := range entries {
		path := filepath.Join(k.o.Dir, e.Name())
		if ours := strings.HasSuffix(strings.TrimSuffix(path, disk.TmpSuffix), suffix); ours && !wanted[path] {
			delete(k.kept, path)
			errs = append(errs, k.o.FS.Remove(path))
		}
	}
	return errors.Join(errs...)
}
