package memberbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/lease"
)

// fleet is a skein cluster of many hosts: the whole of coordination, without
// logs on disk, since the peer has none either.
type fleet struct {
	c    *testbed.SkeinCluster
	up   map[cluster.NodeID]*fleetHost
	gone *departures
}

type fleetHost struct {
	id     *testbed.Identity
	svc    *coord.Service
	socks  *testbed.Sockets
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// departures are who took whom out of the cluster, and when. Any goroutine may
// note.
type departures struct {
	mu sync.Mutex
	by map[string]map[string]time.Time // victim -> observer -> first time
}

func newDepartures() *departures { return &departures{by: map[string]map[string]time.Time{}} }

// clear forgets all, before something new is watched.
func (d *departures) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.by)
}

func (d *departures) note(observer, victim string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by[victim] == nil {
		d.by[victim] = map[string]time.Time{}
	}
	if _, ok := d.by[victim][observer]; !ok {
		d.by[victim][observer] = time.Now()
	}
}

// all returns when the last of n observers took victim out.
func (d *departures) all(victim string, n int) (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var last time.Time
	for _, at := range d.by[victim] {
		if at.After(last) {
			last = at
		}
	}
	return last, len(d.by[victim]) >= n
}

// total counts pairs of observer and victim among the victims that live. One
// that was killed before is taken out a second time when it counts as dead.
func (d *departures) total(lives func(victim string) bool) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for victim, observers := range d.by {
		if lives(victim) {
			n += len(observers)
		}
	}
	return n
}

// newFleet starts n hosts and waits until all see each other alive.
func newFleet(ctx context.Context, n int, profile cluster.Profile) (*fleet, error) {
	c, err := testbed.NewSkein(n, profile, 3)
	if err != nil {
		return nil, err
	}
	f := &fleet{c: c, up: map[cluster.NodeID]*fleetHost{}, gone: newDepartures()}
	if err := f.assemble(ctx); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *fleet) assemble(ctx context.Context) error {
	if err := f.start(f.c.Hosts[0]); err != nil {
		return err
	}
	first := f.up[f.c.Hosts[0].Node]
	err := suite.Poll(ctx, "the founder holds", 30*time.Second, func() bool { return first.svc.View().Lease.Role == cluster.RoleHolder })
	if err != nil {
		return err
	}
	if err := first.svc.AddRecords(ctx, f.c.Records()); err != nil {
		return err
	}
	for _, id := range f.c.Hosts[1:] {
		if err := f.start(id); err != nil {
			return err
		}
	}
	err = suite.Poll(ctx, fmt.Sprintf("%d hosts of skein see each other", len(f.c.Hosts)), 5*time.Minute, f.complete)
	if err != nil {
		return fmt.Errorf("%w: %s", err, f.census())
	}
	return nil
}

func (f *fleet) start(id *testbed.Identity) error {
	o, socks, err := f.c.Options(id, &testbed.MemoryStore{})
	if err != nil {
		return err
	}
	h := &fleetHost{id: id, socks: socks}
	o.OnHealth = func(node cluster.NodeID, health cluster.Health, _ bool) {
		// Beyond the profile's suspect and grace a host does not count as
		// present any more: work and lease go elsewhere.
		if health == cluster.Suspect || health == cluster.Dead {
			f.gone.note(string(id.Node), string(node))
		}
	}
	if h.svc, err = coord.New(o); err != nil {
		socks.Cut()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.work.Go(func() { _ = h.svc.Run(ctx) }) // a host that was cut ends with an error
	h.work.Go(func() { h.follow(ctx) })
	f.up[id.Node] = h
	return nil
}

// follow answers the lease as if the log were always complete.
func (h *fleetHost) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case action := <-h.svc.Actions():
			switch a := action.(type) {
			case lease.Acquired:
				h.svc.TermReady(a.Term, a.Config.Epoch)
			case lease.ConfigStable:
				h.svc.TermReady(a.Term, a.Config.Epoch)
			case lease.Quiesce:
				h.svc.Quiesced(a.Term)
			}
		}
	}
}

func (f *fleet) lives(node string) bool { return f.up[cluster.NodeID(node)] != nil }

// complete reports whether every host sees every other alive.
func (f *fleet) complete() bool {
	for _, h := range f.up {
		v := h.svc.View()
		if len(v.Members) != len(f.c.Hosts) {
			return false
		}
		for _, m := range v.Members {
			if _, ok := f.up[m.Node]; ok && m.Health != cluster.Alive {
				return false
			}
		}
	}
	return true
}

// census counts what hosts believe of each other, for errors.
func (f *fleet) census() string {
	counts := map[cluster.Health]int{}
	members := 0
	for _, h := range f.up {
		v := h.svc.View()
		members += len(v.Members)
		for _, m := range v.Members {
			counts[m.Health]++
		}
	}
	return fmt.Sprintf("%d hosts know %d members, %v", len(f.up), members, counts)
}

// calm waits until the voters are chosen, so that what is measured is the
// upkeep.
func (f *fleet) calm(ctx context.Context) error {
	want := min(len(f.c.Hosts), 5)
	return suite.Poll(ctx, "skein's voters are chosen", 3*time.Minute, func() bool {
		for _, h := range f.up {
			if st := h.svc.View().Lease; st.Role == cluster.RoleHolder {
				return len(st.Config.Voters) >= want && !st.Pending
			}
		}
		return false
	})
}

// crash stops an ordinary host, neither holder nor voter if there is one:
// those hear each other more often. It returns when the sockets are gone.
func (f *fleet) crash() (node cluster.NodeID, wait func(), err error) {
	h := f.last(func(st lease.Status, h cluster.NodeID) bool { return !st.Config.Has(h) })
	if h == nil {
		h = f.last(func(st lease.Status, h cluster.NodeID) bool { return st.Holder != h })
	}
	if h == nil {
		return "", nil, errors.New("only the holder is left")
	}
	delete(f.up, h.id.Node)
	h.socks.Cut()
	h.cancel()
	return h.id.Node, h.work.Wait, nil
}

// last is the last host that is up and fits.
func (f *fleet) last(fits func(lease.Status, cluster.NodeID) bool) *fleetHost {
	for _, id := range slices.Backward(f.c.Hosts) {
		if h := f.up[id.Node]; h != nil && fits(h.svc.View().Lease, id.Node) {
			return h
		}
	}
	return nil
}

func (f *fleet) close() {
	for node, h := range f.up {
		delete(f.up, node)
		h.socks.Cut()
		h.cancel()
		defer h.work.Wait()
	}
}
