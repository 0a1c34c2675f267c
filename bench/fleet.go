package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/lease"
)

// fleet is a skein cluster of many hosts: the whole of coordination, without
// logs on disk, since the peer has none either.
type fleet struct {
	c    *skeinCluster
	up   map[cluster.NodeID]*fleetHost
	gone *departures
}

type fleetHost struct {
	id     *identity
	svc    *coord.Service
	socks  *sockets
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
	c, err := newSkein(n, profile, 3)
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
	if err := f.start(f.c.hosts[0]); err != nil {
		return err
	}
	first := f.up[f.c.hosts[0].node]
	err := poll(ctx, "the founder holds", 30*time.Second, func() bool { return first.svc.View().Lease.Role == cluster.RoleHolder })
	if err != nil {
		return err
	}
	if err := first.svc.AddRecords(ctx, f.c.records()); err != nil {
		return err
	}
	for _, id := range f.c.hosts[1:] {
		if err := f.start(id); err != nil {
			return err
		}
	}
	err = poll(ctx, fmt.Sprintf("%d hosts of skein see each other", len(f.c.hosts)), 5*time.Minute, f.complete)
	if err != nil {
		return fmt.Errorf("%w: %s", err, f.census())
	}
	return nil
}

func (f *fleet) start(id *identity) error {
	o, socks, err := f.c.options(id, &memoryStore{})
	if err != nil {
		return err
	}
	h := &fleetHost{id: id, socks: socks}
	o.OnHealth = func(node cluster.NodeID, health cluster.Health) {
		// Beyond the profile's suspect and grace a host does not count as
		// present any more: work and lease go elsewhere.
		if health == cluster.Suspect || health == cluster.Dead {
			f.gone.note(string(id.node), string(node))
		}
	}
	if h.svc, err = coord.New(o); err != nil {
		socks.cut()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.work.Go(func() { _ = h.svc.Run(ctx) }) // a host that was cut ends with an error
	h.work.Go(func() { h.follow(ctx) })
	f.up[id.node] = h
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
		if len(v.Members) != len(f.c.hosts) {
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
	want := min(len(f.c.hosts), 5)
	return poll(ctx, "skein's voters are chosen", 3*time.Minute, func() bool {
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
	delete(f.up, h.id.node)
	h.socks.cut()
	h.cancel()
	return h.id.node, h.work.Wait, nil
}

// last is the last host that is up and fits.
func (f *fleet) last(fits func(lease.Status, cluster.NodeID) bool) *fleetHost {
	for _, id := range slices.Backward(f.c.hosts) {
		if h := f.up[id.node]; h != nil && fits(h.svc.View().Lease, id.node) {
			return h
		}
	}
	return nil
}

func (f *fleet) close() {
	for node, h := range f.up {
		delete(f.up, node)
		h.socks.cut()
		h.cancel()
		defer h.work.Wait()
	}
}
