package onion

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// Times of changing what tor serves.
const (
	reloadGap   = 2 * time.Second // between two changes
	reloadBurst = 8               // as many changes of who finds a service may follow each other
	reloadEvery = time.Minute     // then one comes so often: each ages tor's circuits, and members may change for ever
)

// serviceTor is what serves onion services.
type serviceTor interface {
	Own() bool
	Status() tor.Status
	Services() []tor.Service
	SetServices([]tor.Service) error
	Reload(context.Context) error
	Watch(ctx context.Context, address string, tell func(tor.Snapshot)) error
	Quiesce(ctx context.Context, address string) error
}

// services has tor serve this host's onion services: its own one, an instance of
// the cluster's addresses, those instances that clients still know, and on a
// host that is alone the addresses themselves. All but rotate and the readers of
// generation is the loop's.
type services struct {
	tor    serviceTor
	log    zerolog.Logger
	limit  *repeats
	dir    string // of the services
	wake   func()
	group  *sync.WaitGroup
	watch  *watches
	reload *rate.Limiter

	// generation makes the present instance another one than those for the same
	// addresses before a rotation.
	generation atomic.Pointer[string]

	changed    time.Time            // last
	announced  map[string]time.Time // when an instance was last in this host's share, by directory
	departures map[string]departure // of instances that tor is to lose, by directory
}

func newServices(t serviceTor, dir string, log zerolog.Logger, limit *repeats, group *sync.WaitGroup, wake func()) (*services, error) {
	s := &services{
		tor: t, log: log, limit: limit, dir: dir, wake: wake, group: group,
		watch: newWatches(t, group, wake), reload: rate.NewLimiter(rate.Every(reloadEvery), reloadBurst),
		announced: map[string]time.Time{},
	}
	text, _, err := durable.Generation.Read(s.dir)
	generation := strings.TrimSpace(string(text))
	if durable.IsDamaged(err) {
		log.Error().Err(err).Msg("going on with another onion key")
		generation = rand.Text()
		err = durable.Generation.Write(s.dir, []byte(generation))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("generation of the onion key: %w", err)
	}
	s.generation.Store(&generation)
	return s, nil
}

// instanceDir is where the key of this host's instance for these master
// addresses lies. An instance never changes what it answers for: tor would do
// that only with its next descriptor, up to a day later.
func (s *services) instanceDir(masters []string) string {
	sum := sha256.Sum256([]byte(*s.generation.Load() + "\n" + strings.Join(masters, "\n")))
	return filepath.Join(s.instancesDir(), hex.EncodeToString(sum[:8]))
}

func (s *services) instancesDir() string { return filepath.Join(s.dir, "host") }

// rotate gives this host another instance. The wish is on the disk when it
// returns. It may be called from any goroutine.
func (s *services) rotate() error {
	next := rand.Text()
	if err := durable.Generation.Write(s.dir, []byte(next)); err != nil {
		return fmt.Errorf("rotate the onion key of this host: %w", err)
	}
	s.generation.Store(&next)
	s.wake()
	return nil
}

// keep has tor serve what it should.
func (s *services) keep(ctx context.Context, want []tor.Service) {
	if !s.tor.Own() {
		return
	}
	have := s.tor.Services()
	switch s.tor.Status().State {
	case tor.StateDown, tor.StateFaulty: // the next one reads them; no client knows points of the one before
		s.set(want)
		return
	case tor.StateBootstrap, tor.StateReady:
	}
	want = withFormer(want, have, s.announced, time.Now())
	departed := s.depart(ctx, want, have)
	same, clients := sameServices(want, have)
	if same && clients || !departed || time.Since(s.changed) < reloadGap || same && !s.reload.Allow() {
		return
	}
	s.changed = time.Now()
	keepPoints(want, have)
	if !s.set(want) {
		return
	}
	reload, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.tor.Reload(reload); err != nil {
		if s.limit.first("reload: " + err.Error()) {
			s.log.Error().Err(err).Msg("onion services not changed, will retry")
		}
		return
	}
	s.log.Info().Int("services", len(want)).Int("clients", len(want[0].Clients)).Msg("onion services changed")
	s.dropKeys(want)
}

func (s *services) set(list []tor.Service) (done bool) {
	err := s.tor.SetServices(list)
	if err != nil && s.limit.first("services: "+err.Error()) {
		s.log.Error().Err(err).Msg("onion services not possible, will retry")
	}
	return err == nil
}

// departure is the time that an instance has before tor loses it.
type departure struct {
	since time.Time
	end   context.CancelFunc
}

// depart sends clients away at the points of instances that tor is to lose: one
// whose introduction tor took with it would wait for half a minute. It reports
// whether all of them had time for that.
func (s *services) depart(ctx context.Context, want, have []tor.Service) (departed bool) {
	departed = true
	leaving := map[string]departure{}
	for _, h := range have {
		if !isInstance(h) || slices.ContainsFunc(want, func(w tor.Service) bool { return w.Dir == h.Dir }) {
			continue
		}
		d, known := s.departures[h.Dir]
		if !known {
			quiet, end := context.WithCancel(ctx)
			d = departure{time.Now(), end}
			if address, err := h.Address(); err == nil {
				s.group.Go(func() { quiesce(quiet, s.tor, address) })
			}
		}
		leaving[h.Dir] = d
		departed = departed && time.Since(d.since) >= lastVisits
	}
	for dir, d := range s.departures {
		if _, still := leaving[dir]; !still {
			d.end()
		}
	}
	s.departures = leaving
	return departed
}

// dropKeys removes the keys of instances that tor no longer has, or had when it
// last ran.
func (s *services) dropKeys(keep []tor.Service) {
	entries, _ := os.ReadDir(s.instancesDir()) // there may be none yet
	for _, e := range entries {
		dir := filepath.Join(s.instancesDir(), e.Name())
		if slices.ContainsFunc(keep, func(k tor.Service) bool { return k.Dir == dir }) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			s.log.Warn().Err(err).Msg("key of a former instance not removed")
		}
		delete(s.announced, dir)
	}
}

// instances are those that tor has, the present one first.
func (s *services) instances() []tor.Service {
	return slices.DeleteFunc(slices.Clone(s.tor.Services()), func(x tor.Service) bool { return !isInstance(x) })
}

// asked is how many introduction points tor is to keep for the present instance; 0:
// there is none.
func (s *services) asked() int {
	if list := s.instances(); len(list) > 0 {
		return list[0].IntroPoints
	}
	return 0
}

// addresses are those of the instances, as far as tor made their keys.
func (s *services) addresses() (list []string) {
	for _, x := range s.instances() {
		if a, err := x.Address(); err == nil {
			list = append(list, a)
		}
	}
	return list
}

// instance is what this host is reached by: the first of its instances that has
// points with a circuit, or else a descriptor. ok is false if none has.
func (s *services) instance() (own tor.Service, seen tor.Snapshot, ok bool) {
	for _, x := range s.instances() {
		address, err := x.Address()
		if err != nil {
			continue // tor has not made its key yet
		}
		switch now, fresh := s.watch.latest(address); {
		case fresh && len(now.Relays) > 0:
			return x, now, true
		case fresh && !ok:
			own, seen, ok = x, now, true
		}
	}
	return own, seen, ok
}

// follow watches the own services that matter: the instances, and the addresses
// that tor may publish by itself, whose directories are given.
func (s *services) follow(ctx context.Context, natives map[string]descriptor.Address) {
	want := map[string]bool{}
	for _, a := range s.addresses() {
		want[a] = true
	}
	for _, x := range s.tor.Services() {
		if a, ok := natives[x.Dir]; ok {
			want[a.String()] = true
		}
	}
	s.watch.keep(ctx, want)
}

// announce notes that an instance is in this host's share.
func (s *services) announce(dir string) { s.announced[dir] = time.Now() }

// watches follows own services and keeps what tor shows of each.
type watches struct {
	tor     serviceTor
	group   *sync.WaitGroup
	wake    func()
	running map[string]context.CancelFunc // the loop's, by address

	mu   sync.Mutex
	seen map[string]observation // by address
}

// observation is what a tor showed of a service; it counts while that tor lives.
type observation struct {
	pid int
	tor.Snapshot
}

func newWatches(t serviceTor, group *sync.WaitGroup, wake func()) *watches {
	return &watches{tor: t, group: group, wake: wake, running: map[string]context.CancelFunc{}, seen: map[string]observation{}}
}

// keep watches these services and no others.
func (w *watches) keep(ctx context.Context, want map[string]bool) {
	for a, cancel := range w.running {
		if !want[a] {
			cancel()
			delete(w.running, a)
			w.forget(a)
		}
	}
	for a := range want {
		if w.running[a] == nil {
			watch, cancel := context.WithCancel(ctx)
			w.running[a] = cancel
			w.group.Go(func() {
				_ = w.tor.Watch(watch, a, func(s tor.Snapshot) { // the address is tor's own word
					w.see(watch, a, observation{w.tor.Status().Pid, s})
				})
			})
		}
	}
}

// see takes what a watch saw that nobody ended.
func (w *watches) see(watch context.Context, address string, o observation) {
	w.mu.Lock()
	if watch.Err() == nil {
		w.seen[address] = o
	}
	w.mu.Unlock()
	w.wake()
}

func (w *watches) forget(address string) {
	w.mu.Lock()
	delete(w.seen, address)
	w.mu.Unlock()
}

// latest is what the present tor showed of a service last; false if nothing.
func (w *watches) latest(address string) (tor.Snapshot, bool) {
	w.mu.Lock()
	o := w.seen[address]
	w.mu.Unlock()
	st := w.tor.Status()
	fresh := o.Descriptor != "" && o.pid == st.Pid && (st.State == tor.StateReady || st.State == tor.StateBootstrap)
	return o.Snapshot, fresh
}
