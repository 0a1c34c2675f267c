package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
)

var errPower = errors.New("power lost")

// powerFS is a disk in memory that loses power after a number of operations.
// What was not synced by then survives in part: any of the sectors, sizes and
// directory entries that were changed.
type powerFS struct {
	home    string // of the log on it, for tests that open it more than once
	mu      sync.Mutex
	rng     *rand.Rand
	left    int // operations until the power goes; negative: never
	files   map[string]*powerFile
	dirs    map[string]bool
	durable map[string]*powerFile // names after the last SyncDir of their directory
	ddirs   map[string]bool
	slow    func() // waits before a sync counts; nil: it takes no time
}

type powerFile struct {
	name    string
	disk    *powerFS
	data    []byte
	synced  []byte
	pending []func([]byte) []byte // changes since the sync; each may have reached the disk
}

func newPowerFS(rng *rand.Rand) *powerFS {
	return &powerFS{
		rng: rng, left: -1, files: map[string]*powerFile{}, dirs: map[string]bool{},
		durable: map[string]*powerFile{}, ddirs: map[string]bool{},
	}
}

// step counts an operation; it fails once the power is gone.
func (p *powerFS) step() error {
	if p.left == 0 {
		return errPower
	}
	if p.left > 0 {
		p.left--
	}
	return nil
}

func (p *powerFS) OpenFile(name string, flag int, _ fs.FileMode) (disk.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.step(); err != nil {
		return nil, err
	}
	f := p.files[name]
	switch {
	case f == nil && flag&os.O_CREATE == 0:
		return nil, fs.ErrNotExist
	case f != nil && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case f == nil:
		f = &powerFile{name: name, disk: p}
		p.files[name] = f
	}
	return f, nil
}

func (p *powerFS) ReadDir(dir string) ([]fs.DirEntry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.step(); err != nil {
		return nil, err
	}
	var names []string
	for name := range p.files {
		if filepath.Dir(name) == dir {
			names = append(names, name)
		}
	}
	for name := range p.dirs {
		if filepath.Dir(name) == dir {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []fs.DirEntry
	for _, n := range names {
		out = append(out, powerEntry{name: filepath.Base(n), dir: p.dirs[n]})
	}
	return out, nil
}

func (p *powerFS) MkdirAll(name string, _ fs.FileMode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirs[name] = true
	return p.step()
}

func (p *powerFS) Remove(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.step(); err != nil {
		return err
	}
	delete(p.files, name)
	return nil
}

func (p *powerFS) Rename(from, to string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.step(); err != nil {
		return err
	}
	f := p.files[from]
	if f == nil {
		return fs.ErrNotExist
	}
	delete(p.files, from)
	p.files[to] = f
	return nil
}

func (p *powerFS) SyncDir(dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.step(); err != nil {
		return err
	}
	maps.DeleteFunc(p.durable, func(n string, _ *powerFile) bool { return filepath.Dir(n) == dir })
	for n, f := range p.files {
		if filepath.Dir(n) == dir {
			p.durable[n] = f
		}
	}
	for n := range p.dirs {
		if filepath.Dir(n) == dir {
			p.ddirs[n] = true
		}
	}
	return nil
}

type powerEntry struct {
	name string
	dir  bool
}

func (e powerEntry) Name() string               { return e.name }
func (e powerEntry) IsDir() bool                { return e.dir }
func (e powerEntry) Type() fs.FileMode          { return 0 }
func (e powerEntry) Info() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

func (f *powerFile) change(do func([]byte) []byte) {
	f.data = do(f.data)
	f.pending = append(f.pending, do)
}

func (f *powerFile) WriteAt(b []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.disk.step()
	b = slices.Clone(b)
	for at := 0; at < len(b); { // sector by sector, each on its own
		n := min(len(b)-at, 512-int(off+int64(at))%512)
		sector, to := b[at:at+n], int(off)+at
		f.change(func(d []byte) []byte {
			d = slices.Clone(d)
			if len(d) < to+len(sector) {
				d = append(d, make([]byte, to+len(sector)-len(d))...)
			}
			copy(d[to:], sector)
			return d
		})
		at += n
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (f *powerFile) ReadAt(b []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *powerFile) Close() error { return nil }

func (f *powerFile) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return int64(len(f.data)), nil
}

func (f *powerFile) resize(n int64, shrink bool) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.disk.step()
	f.change(func(d []byte) []byte {
		if int64(len(d)) > n {
			if !shrink {
				return d
			}
			return slices.Clone(d[:n])
		}
		return append(slices.Clone(d), make([]byte, n-int64(len(d)))...)
	})
	return err
}

func (f *powerFile) Truncate(n int64) error         { return f.resize(n, true) }
func (f *powerFile) Preallocate(off, n int64) error { return f.resize(off+n, false) }
func (f *powerFile) Sync() error {
	if f.disk.slow != nil {
		f.disk.slow()
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.step(); err != nil {
		return err
	}
	f.synced, f.pending = f.data, nil
	return nil
}

// restart returns the disk as it may look when the power is back.
func (p *powerFS) restart() *powerFS {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := newPowerFS(p.rng)
	next.home = p.home
	next.slow = p.slow
	for d := range p.dirs {
		if p.ddirs[d] || p.rng.IntN(2) == 0 {
			next.dirs[d], next.ddirs[d] = true, true
		}
	}
	keep := p.rng.Float64()
	for name := range allNames(p.files, p.durable) {
		f, was := p.files[name], p.durable[name]
		if f != was && p.rng.IntN(2) == 0 {
			f = was // the entry did not get to the disk
		}
		if f == nil || !next.dirs[filepath.Dir(name)] {
			continue
		}
		content := f.synced
		for _, do := range f.pending {
			if p.rng.Float64() < keep {
				content = do(content)
			}
		}
		nf := &powerFile{name: name, disk: next, data: content, synced: content}
		next.files[name], next.durable[name] = nf, nf
	}
	return next
}

func allNames(ms ...map[string]*powerFile) map[string]bool {
	out := map[string]bool{}
	for _, m := range ms {
		for n := range m {
			out[n] = true
		}
	}
	return out
}

// TestPowerLoss cuts the power at random operations, of appending and of
// recovery, several times in the life of one log. The log must open again
// without complaint and hold every acknowledged event.
func TestPowerLoss(t *testing.T) {
	seeds := uint64(150)
	if os.Getenv("SKEIN_PROVE") != "" {
		seeds = 5000
	}
	first := uint64(1)
	if s := os.Getenv("SKEIN_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &first); err != nil {
			t.Fatal(err)
		}
		seeds = 1
	}
	acked := 0
	for seed := first; seed < first+seeds; seed++ {
		n, err := powerLife(t, seed)
		if err != nil {
			t.Fatalf("seed %d: %v\nreplay: SKEIN_SEED=%d go test -run TestPowerLoss ./eventlog", seed, err, seed)
		}
		acked += n
	}
	t.Logf("%d disks, %d acknowledged events, none lost", seeds, acked)
}

func powerLife(t *testing.T, seed uint64) (int, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	disk := newPowerFS(rng)
	if seed%2 == 0 {
		disk.slow = runtime.Gosched // so that groups are staged behind others
	}
	o := testOptions(t.TempDir(), "n1")
	o.SegmentSize, o.Prealloc = 4096, 2048
	acked := map[uint64]cluster.Hash{}
	for range 4 {
		disk.left = rng.IntN(120)
		o.FS = disk
		l, err := Open(o)
		if err == nil {
			err = appendUntilDark(l, rng.Uint64(), acked)
		}
		if err != nil && !errors.Is(err, errPower) {
			return 0, err
		}
		disk = disk.restart()
	}
	o.FS = disk
	l, err := Open(o)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	found := 0
	for e, err := range l.Read(l.Source(), 1) {
		if err != nil {
			return 0, err
		}
		if want, ok := acked[e.Seq]; ok && want == e.Hash {
			found++
		}
	}
	if found != len(acked) {
		return 0, fmt.Errorf("%d of %d acknowledged events lost", len(acked)-found, len(acked))
	}
	return found, nil
}

// appendUntilDark appends from three goroutines until the disk dies.
func appendUntilDark(l *Log, seed uint64, acked map[uint64]cluster.Hash) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range uint64(3) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, w))
			for {
				drafts := make([]event.Draft, 1+rng.IntN(4))
				for i := range drafts {
					drafts[i] = event.Draft{Kind: event.KindHostStarted, Body: event.HostStarted{
						Version: strings.Repeat("v", rng.IntN(600)), Boot: rng.Uint64(),
					}}
				}
				events, err := l.Append(ctx, drafts)
				if err != nil {
					return
				}
				mu.Lock()
				for _, e := range events {
					acked[e.Seq] = e.Hash
				}
				mu.Unlock()
			}
		})
	}
	err := l.Run(ctx)
	wg.Wait()
	return err
}
