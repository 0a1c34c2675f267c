package daemon

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// Times of changing what tor serves.
const (
	reloadGap   = 2 * time.Second // between two changes
	reloadBurst = 8               // as many changes of who finds a service may follow each other
	reloadEvery = time.Minute     // then one comes so often: each ages tor's circuits, and members may change for ever

	maxFormer   = 3           // former instances at a time, each for descriptorLife since the others were last told of it
	removedLife = time.Minute // or this, of one that answers for an address that is removed
)

// instanceDir is where the key of this host's instance for these master
// addresses lies. An instance never changes what it answers for: tor would do
// that only with its next descriptor, up to a day later.
func (o *onions) instanceDir(masters []string) string {
	sum := sha256.Sum256([]byte(*o.generation.Load() + "\n" + strings.Join(masters, "\n")))
	return filepath.Join(o.instancesDir(), hex.EncodeToString(sum[:8]))
}

func (o *onions) instancesDir() string { return filepath.Join(o.dir, "host") }

// generationFile holds what makes the present instance another one than those
// for the same addresses before a rotation.
func (o *onions) generationFile() string { return filepath.Join(o.dir, "generation") }

// rotate gives this host another instance. The wish is on the disk when it
// returns.
func (o *onions) rotate() error {
	next := rand.Text()
	if err := durable.WriteFile(o.generationFile(), []byte(next), 0o600); err != nil {
		return fmt.Errorf("rotate the onion key of this host: %w", err)
	}
	o.generation.Store(&next)
	o.look()
	return nil
}

// services are those that tor should have.
func (o *onions) services(settings []state.Onion, solo bool) []tor.Service {
	node := o.tor.node
	node.Clients = o.admitted()
	list := []tor.Service{node}
	if !o.serves || len(settings) == 0 {
		return list
	}
	ports := []tor.Port{{Virtual: o.n.cfg.Onion.Port, Target: "unix:" + o.socket()}}
	points := o.n.cfg.Onion.Points
	if points == 0 {
		points = min(max(descriptor.MaxPoints/max(len(o.n.memberList()), 1), tor.MinIntroPoints), tor.MaxIntroPoints)
	}
	var masters []string
	for _, s := range settings {
		masters = append(masters, descriptor.Address(s.Key).String())
	}
	slices.Sort(masters)
	list = append(list, tor.Service{Dir: o.instanceDir(masters), Ports: ports, Masters: masters, IntroPoints: points})
	for _, s := range settings {
		if _, ok := o.keys.get(s.Key); !ok || !solo && time.Now().After(o.soloTill) {
			continue
		}
		native := tor.Service{Dir: o.keys.at(s.Key), Ports: ports, IntroPoints: points, Clients: map[string]string{}}
		for _, c := range s.Clients {
			native.Clients[c.Name] = clientEncoding.EncodeToString(c.Key)
		}
		list = append(list, native)
	}
	return list
}

// keepServices has tor serve what it should.
func (o *onions) keepServices(ctx context.Context, settings []state.Onion, solo bool) {
	t := o.tor.tor
	if !t.Own() {
		return
	}
	want, have := o.services(settings, solo), t.Services()
	switch t.Status().State {
	case tor.StateDown, tor.StateFaulty: // the next one reads them; no client knows points of the one before
		o.setServices(want)
		return
	case tor.StateBootstrap, tor.StateReady:
	}
	want = withFormer(want, have, o.shown, time.Now())
	parted := o.part(ctx, want, have)
	same, clients := sameServices(want, have)
	if same && clients || !parted || time.Since(o.changed) < reloadGap || same && !o.reloads.Allow() {
		return
	}
	o.changed = time.Now()
	keepPoints(want, have)
	if !o.setServices(want) {
		return
	}
	reload, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := t.Reload(reload); err != nil {
		if o.first("reload: " + err.Error()) {
			o.log.Error().Err(err).Msg("onion services not changed, again soon")
		}
		return
	}
	o.log.Info().Int("services", len(want)).Int("clients", len(want[0].Clients)).Msg("onion services changed")
	o.dropKeys(want)
}

func (o *onions) setServices(list []tor.Service) (done bool) {
	err := o.tor.tor.SetServices(list)
	if err != nil && o.first("services: "+err.Error()) {
		o.log.Error().Err(err).Msg("onion services not possible, again soon")
	}
	return err == nil
}

// farewell is what an instance has before tor loses it.
type farewell struct {
	since time.Time
	end   context.CancelFunc
}

// part sends clients away at the points of instances that tor is to lose: one
// whose introduction tor took with it would wait for half a minute. It reports
// whether all of them had time for that.
func (o *onions) part(ctx context.Context, want, have []tor.Service) (parted bool) {
	parted = true
	leaving := map[string]farewell{}
	for _, s := range have {
		if !isInstance(s) || slices.ContainsFunc(want, func(w tor.Service) bool { return w.Dir == s.Dir }) {
			continue
		}
		f, known := o.leavings[s.Dir]
		if !known {
			quiet, end := context.WithCancel(ctx)
			f = farewell{time.Now(), end}
			if address, err := s.Address(); err == nil {
				o.wg.Go(func() { o.tor.quiesce(quiet, address) })
			}
		}
		leaving[s.Dir] = f
		parted = parted && time.Since(f.since) >= lastVisits
	}
	for dir, f := range o.leavings {
		if _, still := leaving[dir]; !still {
			f.end()
		}
	}
	o.leavings = leaving
	return parted
}

// proof says that an instance is this host's.
type proof struct {
	address descriptor.Address
	sig     [64]byte
}

// prove signs with the key of an instance that it is this host's.
func (o *onions) prove(dir string, a descriptor.Address) error {
	if o.proof.address == a {
		return nil
	}
	key, err := readOnionKey(filepath.Join(dir, secretFile), a)
	if err != nil {
		return fmt.Errorf("key of this host's onion service: %w", err)
	}
	o.proof = proof{a, [64]byte(key.Sign(publisher.ProofText(o.n.id.Node)))}
	return nil
}

// dropKeys removes the keys of instances that tor has no more, or had when it
// last ran.
func (o *onions) dropKeys(keep []tor.Service) {
	entries, _ := os.ReadDir(o.instancesDir()) // there may be none yet
	for _, e := range entries {
		dir := filepath.Join(o.instancesDir(), e.Name())
		if slices.ContainsFunc(keep, func(s tor.Service) bool { return s.Dir == dir }) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			o.log.Warn().Err(err).Msg("key of a former instance not removed")
		}
		delete(o.shown, dir)
	}
}

// withFormer is want and, behind it, the instances that tor has for other
// addresses than those of now, or had before a rotation, latest first: clients
// know them from descriptors. shown says when the others were last told of one,
// by directory; that which never was no client knows.
func withFormer(want, have []tor.Service, shown map[string]time.Time, now time.Time) []tor.Service {
	i := slices.IndexFunc(want, isInstance)
	if i < 0 {
		return want
	}
	current, kept := want[i], 0
	for _, h := range have {
		last, known := shown[h.Dir]
		if !isInstance(h) || h.Dir == current.Dir || !known || kept == maxFormer {
			continue
		}
		life := descriptorLife
		if slices.ContainsFunc(h.Masters, func(m string) bool { return !slices.Contains(current.Masters, m) }) {
			life = removedLife
		}
		if now.Sub(last) < life {
			kept++
			want = append(want, h)
		}
	}
	return want
}

func isInstance(s tor.Service) bool { return len(s.Masters) > 0 }

// keepPoints leaves the services that stay as many points as they have. A tor
// that is told another number of them at a reload replaces no point and posts
// no descriptor until it has that many.
func keepPoints(want, have []tor.Service) {
	for i, s := range want {
		if k := slices.IndexFunc(have, func(h tor.Service) bool { return h.Dir == s.Dir }); k >= 0 {
			want[i].IntroPoints = have[k].IntroPoints
		}
	}
}

// sameServices compares two lists, and then who finds the services. It ignores
// how many points one keeps: hosts come and go, and a change costs all points.
func sameServices(a, b []tor.Service) (services, clients bool) {
	clients = true
	services = slices.EqualFunc(a, b, func(x, y tor.Service) bool {
		clients = clients && maps.Equal(x.Clients, y.Clients)
		return x.Dir == y.Dir && slices.Equal(x.Masters, y.Masters) && slices.Equal(x.Ports, y.Ports)
	})
	return services, clients
}

// instances are those that tor has, the present one first.
func (o *onions) instances() []tor.Service {
	return slices.DeleteFunc(slices.Clone(o.tor.tor.Services()), func(s tor.Service) bool { return !isInstance(s) })
}

// instanceAddresses are theirs, as far as tor made their keys.
func (o *onions) instanceAddresses() (list []string) {
	for _, s := range o.instances() {
		if a, err := s.Address(); err == nil {
			list = append(list, a)
		}
	}
	return list
}

// instance is what this host is reached by: the first of its instances that has
// points with a circuit, or else a descriptor. ok is false if none has.
func (o *onions) instance() (own tor.Service, seen sight, ok bool) {
	for _, s := range o.instances() {
		address, err := s.Address()
		if err != nil {
			continue // tor makes its key yet
		}
		switch now, fresh := o.sight(address); {
		case fresh && len(now.Relays) > 0:
			return s, now, true
		case fresh && !ok:
			own, seen, ok = s, now, true
		}
	}
	return own, seen, ok
}

// watchServices follows the own services that matter: the instances, and the
// addresses that tor may publish by itself.
func (o *onions) watchServices(ctx context.Context, settings []state.Onion) {
	want := map[string]bool{}
	for _, a := range o.instanceAddresses() {
		want[a] = true
	}
	for _, s := range o.tor.tor.Services() {
		for _, x := range settings {
			if s.Dir == o.keys.at(x.Key) {
				want[descriptor.Address(x.Key).String()] = true
			}
		}
	}
	for a, cancel := range o.watched {
		if !want[a] {
			cancel()
			delete(o.watched, a)
			o.unsee(a)
		}
	}
	for a := range want {
		if o.watched[a] == nil {
			watch, cancel := context.WithCancel(ctx)
			o.watched[a] = cancel
			o.wg.Go(func() { watchService(watch, o.tor.tor, a, func(s sight) { o.see(watch, a, s) }) })
		}
	}
}
