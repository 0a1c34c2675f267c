package artefact

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/durable"
)

// DefaultQuota is the size of an artefact store unless set.
const DefaultQuota = int64(4) << 30

const tempPrefix = ".tmp-"

// Options configures a store. Dir is required; without Dial nothing
// is fetched from other hosts.
type Options struct {
	// Dir holds one file per artefact; it is created if missing.
	Dir string
	// Quota bounds the sum of all sizes; default DefaultQuota.
	Quota int64
	// Dial opens a stream of protocol Proto.
	Dial func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	// RTT is the round trip to a host, by which it is waited for longer; 0: not known. nil: of
	// none it is.
	RTT func(cluster.NodeID) time.Duration
	// Peers lists the hosts that Fetch may ask, best first.
	Peers func() []cluster.NodeID
	// Near lists the hosts of this host's zone that live, where there are others; nil or
	// none: zones do not matter.
	Near func() []cluster.NodeID
	// Name is what the metrics call what is stored; default: artefact.
	Name string
	// Beside is another store, what is in which is served as well; nil: there is none.
	Beside *Store
	// Source opens an artefact elsewhere than at a host; nil: there are hosts only.
	Source func(ctx context.Context, h cluster.Hash) (io.ReadCloser, error)

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // may be nil
}

// Store stores modules and config documents by their SHA-256. All methods
// may be called at once from many goroutines.
type Store struct {
	opts Options
	log  zerolog.Logger
	m    *blobMetrics

	serving chan struct{} // capacity maxServing: one token per stream served; when full a stream is refused

	mu      sync.Mutex
	sizes   map[cluster.Hash]int64
	used    int64                          // stored and reserved
	fetches map[cluster.Hash]chan struct{} // closed when the fetch under way ended
	lies    map[lie]bool                   // see Stream
}

// New opens the store in o.Dir and removes what a crash left half
// written. It starts nothing.
func New(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("artefacts: no directory")
	}
	if o.Quota == 0 {
		o.Quota = DefaultQuota
	}
	if o.Quota < 0 {
		return nil, fmt.Errorf("artefacts: quota is %d bytes", o.Quota)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open artefacts: %w", err)
	}
	o.Dir = dir
	if o.Peers == nil {
		o.Peers = func() []cluster.NodeID { return nil }
	}
	a := &Store{
		opts:    o,
		log:     o.Logger.With().Str("component", "artefacts").Logger(),
		serving: make(chan struct{}, maxServing),
		sizes:   map[cluster.Hash]int64{},
		fetches: map[cluster.Hash]chan struct{}{},
		lies:    map[lie]bool{},
	}
	if err := a.scan(); err != nil {
		return nil, err
	}
	if a.m, err = newBlobMetrics(o.Registerer, cmp.Or(o.Name, "artefact"), a); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Store) scan() error {
	if err := os.MkdirAll(a.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("open artefacts: %w", err)
	}
	entries, err := os.ReadDir(a.opts.Dir)
	if err != nil {
		return fmt.Errorf("open artefacts: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			if err := os.Remove(filepath.Join(a.opts.Dir, e.Name())); err != nil {
				return fmt.Errorf("open artefacts: remove half-written file: %w", err)
			}
			continue
		}
		h, err := cluster.ParseHash(e.Name())
		if err != nil {
			continue // not ours
		}
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("open artefacts: %w", err)
		}
		a.sizes[h] = info.Size()
		a.used += info.Size()
	}
	return nil
}

// Path returns where the bytes of h lie if they are stored. Readers verify.
func (a *Store) Path(h cluster.Hash) string { return filepath.Join(a.opts.Dir, h.String()) }

// Has reports whether h is stored, and its size.
func (a *Store) Has(h cluster.Hash) (size int64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	size, ok = a.sizes[h]
	return size, ok
}

// Used returns how many bytes are stored, and the quota.
func (a *Store) Used() (used, quota int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used, a.opts.Quota
}

// Put stores what r yields, at most limit bytes, and returns its digest. When
// it returns nil the bytes survive a power loss. Errors: ErrTooLarge, a
// *QuotaError, or what r or the disk said; then nothing is stored.
func (a *Store) Put(r io.Reader, limit int64) (cluster.Hash, error) {
	return a.store(r, limit, nil)
}

// store writes r; if want is set the digest must be *want.
func (a *Store) store(r io.Reader, limit int64, want *cluster.Hash) (h cluster.Hash, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("store artefact: %w", err)
		}
	}()
	f, err := os.CreateTemp(a.opts.Dir, tempPrefix)
	if err != nil {
		return h, err
	}
	stored := false
	var reserved int64
	defer func() {
		if !stored {
			_ = f.Close()           // already failing, or a duplicate
			_ = os.Remove(f.Name()) // the next start removes it otherwise
			a.reserve(-reserved)    //nolint:errcheck // giving back cannot fail
		}
	}()

	if err := f.Chmod(0o400); err != nil {
		return h, err
	}
	if err := copyAll(f, r, func(n int64) error {
		if reserved+n > limit {
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		}
		err := a.reserve(n)
		if err == nil {
			reserved += n
		}
		return err
	}); err != nil {
		return h, err
	}
	if h, err = digestAndSync(f, reserved); err != nil {
		return h, err
	}
	if want != nil && h != *want {
		return h, fmt.Errorf("%w: want %s, have %s", ErrCorrupt, *want, h)
	}
	if a.renew(h) {
		return h, nil
	}
	if err := a.commit(f, h); err != nil {
		return h, err
	}
	stored = true
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, twice := a.sizes[h]; twice { // another writer was as fast; one file, counted once
		a.used -= reserved
	}
	a.sizes[h] = reserved
	return h, nil
}

// renew has what is stored be stored lately; false: it is not, or has vanished.
func (a *Store) renew(h cluster.Hash) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.sizes[h]
	if !ok {
		return false
	}
	if now := time.Now(); os.Chtimes(a.Path(h), now, now) == nil {
		return true
	}
	a.used -= n
	delete(a.sizes, h)
	return false
}

// commit names f, whose bytes are durable, by its digest.
func (a *Store) commit(f *os.File, h cluster.Hash) error {
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), a.Path(h)); err != nil {
		return err
	}
	return durable.SyncDir(a.opts.Dir)
}

// reserve counts n bytes against the quota.
func (a *Store) reserve(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > 0 && a.used+n > a.opts.Quota {
		return &QuotaError{Need: n, Used: a.used, Quota: a.opts.Quota}
	}
	a.used += n
	return nil
}

// Read returns the bytes of h, at most limit, verified. A file that does not
// match its name is dropped and reported as ErrCorrupt.
func (a *Store) Read(h cluster.Hash, limit int64) ([]byte, error) {
	f, size, err := a.Open(h)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("read artefact %s: %w: %d bytes, at most %d are allowed", h, ErrTooLarge, size, limit)
	}
	var buf bytes.Buffer
	buf.Grow(int(size) + bytes.MinRead)
	if _, err := buf.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, fmt.Errorf("read artefact %s: %w", h, err)
	}
	if sha256.Sum256(buf.Bytes()) != h {
		return nil, errors.Join(fmt.Errorf("read artefact %s: %w", h, ErrCorrupt), a.Remove(h))
	}
	return buf.Bytes(), nil
}

// Open returns the file of h, not verified, and its size.
func (a *Store) Open(h cluster.Hash) (*os.File, int64, error) {
	f, err := os.Open(a.Path(h))
	if errors.Is(err, fs.ErrNotExist) {
		a.forget(h)
		return nil, 0, fmt.Errorf("open artefact %s: %w", h, ErrNotFound)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open artefact: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("open artefact: %w", err)
	}
	return f, info.Size(), nil
}

// forget drops the entry of a file that is not there any more.
func (a *Store) forget(h cluster.Hash) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used -= a.sizes[h]
	delete(a.sizes, h)
}

// Remove drops h; dropping what is not stored is no error.
func (a *Store) Remove(h cluster.Hash) error {
	_, err := a.remove(h, func(os.FileInfo) bool { return true })
	return err
}

// remove drops h if it may. What is stored again meanwhile is not lost: see renew.
func (a *Store) remove(h cluster.Hash, may func(os.FileInfo) bool) (removed bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	info, err := os.Stat(a.Path(h))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, fmt.Errorf("remove artefact: %w", err)
	case !may(info):
		return false, nil
	default:
		if err := os.Remove(a.Path(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("remove artefact: %w", err)
		}
	}
	a.used -= a.sizes[h]
	delete(a.sizes, h)
	return info != nil, nil
}

// Collect removes every artefact that keep does not want and that is older
// than age, and returns how many bytes that freed. The age spares what was
// uploaded for a job that is not submitted yet.
func (a *Store) Collect(keep func(cluster.Hash) bool, age time.Duration) (freed int64, err error) {
	a.mu.Lock()
	all := maps.Clone(a.sizes)
	a.mu.Unlock()
	for h, n := range all {
		if keep(h) {
			continue
		}
		removed, rmErr := a.remove(h, func(info os.FileInfo) bool { return time.Since(info.ModTime()) >= age })
		err = errors.Join(err, rmErr)
		if removed {
			freed += n
		}
	}
	return freed, err
}

// Verify drops h if its bytes do not match. What is not stored is fine.
func (a *Store) Verify(h cluster.Hash) error {
	if _, ok := a.Has(h); !ok {
		return nil
	}
	_, err := a.Read(h, job.MaxModuleBytes)
	if errors.Is(err, ErrNotFound) {
		return a.Remove(h) // somebody removed the file
	}
	if errors.Is(err, ErrCorrupt) {
		a.log.Warn().Str("artefact", h.String()).Msg("artefact does not match its digest, dropped")
		return nil
	}
	return err
}
