package publisher

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/publisher/descriptor"
)

// checkMargin is how long the certificates of a descriptor must last when it
// is posted: for the time it is at the directories, and for clocks that are off.
const checkMargin = 12 * time.Hour

// Publisher publishes one address. Its methods may be called from any
// goroutine.
type Publisher struct {
	o       Options
	address descriptor.Address
	status  atomic.Pointer[Status]
	wake    chan struct{} // capacity 1; a full one means that Run will look anyway

	mu    sync.Mutex
	inbox inbox
}

// inbox holds what was set since Run looked last; nil is nothing.
type inbox struct {
	duty    *lease.Duty
	hosts   *[]Host
	network *Network
	solo    *bool
	again   bool
}

// New checks the options. Nothing is published before Run.
func New(o Options) (*Publisher, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Publisher{o: o, address: o.Key.Address(), wake: make(chan struct{}, 1)}
	p.o.Log = o.Log.With().Str("component", "publisher").Logger()
	p.status.Store(&Status{})
	return p, nil
}

// Address returns the address that is published.
func (p *Publisher) Address() descriptor.Address { return p.address }

// Status returns what is going on.
func (p *Publisher) Status() Status { return *p.status.Load() }

// SetDuty passes on a change of the publishing duty. It is by lease if only one
// host can hold that; its term is the last one known if it is not.
func (p *Publisher) SetDuty(d lease.Duty) { p.set(func(b *inbox) { b.duty = &d }) }

// SetHosts says which hosts are alive and what they have. Nobody may modify
// the texts afterwards.
func (p *Publisher) SetHosts(hosts []Host) {
	hosts = slices.Clone(hosts)
	p.set(func(b *inbox) { b.hosts = &hosts })
}

// SetNetwork passes on a new consensus.
func (p *Publisher) SetNetwork(n Network) { p.set(func(b *inbox) { b.network = &n }) }

// SetSolo says whether a tor of this cluster publishes the address by itself,
// with the key of the address, so that nothing needs to be merged. Its revisions
// are below those of this package: periods in which this one has published stay
// its affair, and new ones are left to that tor.
func (p *Publisher) SetSolo(solo bool) { p.set(func(b *inbox) { b.solo = &solo }) }

// Again has new descriptors made and posted, though nothing changed. It does nothing
// where nothing is published.
func (p *Publisher) Again() { p.set(func(b *inbox) { b.again = true }) }

func (p *Publisher) set(put func(*inbox)) {
	p.mu.Lock()
	put(&p.inbox)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Publisher) take() inbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.inbox
	p.inbox = inbox{}
	return b
}

// run is the state of Run's goroutine.
type run struct {
	*Publisher
	ctx     context.Context
	core    *Core
	begin   time.Time
	answers chan Event // unbuffered: Run always reads until it ends
	workers sync.WaitGroup

	term     cluster.Term // the highest one known
	roster   roster
	schedule *descriptor.Schedule
	floors   map[descriptor.Period]uint64
	texts    map[descriptor.Period][][]byte // of the version, one or more
	version  uint64
	state    Status
	solo     bool
	network  *Network // as set last
}

// Run publishes until the context ends.
func (p *Publisher) Run(ctx context.Context) error {
	floors, err := p.o.Floors.Load()
	if err != nil {
		return fmt.Errorf("publish %s: revisions: %w", p.address, err)
	}
	seed, err := p.entropy()
	if err != nil {
		return fmt.Errorf("publish %s: %w", p.address, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &run{
		Publisher: p, ctx: ctx, begin: time.Now(), answers: make(chan Event),
		core:   NewCore(p.o.Timing, binary.BigEndian.Uint64(seed[:]), floors),
		floors: maps.Clone(floors),
	}
	defer r.workers.Wait()
	defer cancel()
	if r.floors == nil {
		r.floors = map[descriptor.Period]uint64{}
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if at, ok := r.core.Deadline(); ok {
			timer.Reset(max(at-time.Since(r.begin), 0))
		} else {
			timer.Reset(time.Hour)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
			r.look(p.take())
		case e := <-r.answers:
			r.step(e)
		case <-timer.C:
			r.step(Tick{})
		}
		state := r.state
		p.status.Store(&state)
	}
}

// look takes in what was set, the network first, since the hosts' descriptors
// are judged by its periods.
func (r *run) look(b inbox) {
	if b.network != nil {
		r.network = b.network
	}
	if b.solo != nil {
		r.solo, r.state.Solo = *b.solo, *b.solo
	}
	if r.network != nil && (b.network != nil || b.solo != nil) {
		r.setNetwork(*r.network)
	}
	if b.hosts != nil {
		r.roster.set(*b.hosts)
	}
	if (b.network != nil || b.hosts != nil) && r.schedule != nil {
		for _, x := range r.roster.open(r.schedule.Periods(), time.Now()) {
			r.o.Log.Warn().Str("node", string(x.Node)).Err(x.Err).Msg("descriptor refused")
			r.report(Report{Refused: &x})
		}
		r.step(SetContent{digest(r.roster.candidates())})
	}
	if b.duty != nil {
		r.term = max(r.term, b.duty.Term)
		r.state.Publishing, r.state.Term = b.duty.Publishing, r.term
		r.step(SetDuty{b.duty.Publishing, r.term, b.duty.Publishing && b.duty.ByLease})
	}
	if b.again {
		r.step(Again{})
	}
}

func (r *run) setNetwork(n Network) {
	sched, targets, err := r.targets(n)
	if err != nil {
		r.o.Log.Warn().Err(err).Msg("consensus cannot be used")
		r.report(Report{Failed: err})
		return
	}
	if r.schedule == nil || r.schedule.Fetched() != sched.Fetched() {
		r.roster.again()
	}
	r.schedule = &sched
	r.step(SetTargets{targets})
}

func (r *run) targets(n Network) (sched descriptor.Schedule, all []Target, err error) {
	if n.Consensus == nil {
		return sched, nil, fmt.Errorf("%w: none", descriptor.ErrConsensus)
	}
	if sched, err = n.Consensus.Schedule(n.Testing); err != nil {
		return sched, nil, err
	}
	for _, s := range []descriptor.Slot{sched.First, sched.Second} {
		ring, err := n.Consensus.Ring(n.Microdescs, s)
		if err != nil {
			return sched, nil, err
		}
		if r.solo && r.floors[s.Period] == 0 {
			continue
		}
		b := r.address.Blind(s.Period)
		all = append(all, Target{Period: s.Period, Store: ring.Store(b), Fetch: ring.Fetch(b), Fetched: s == sched.Fetched()})
	}
	return sched, all, nil
}

// step runs the core and carries out what it wants; builds answer at once.
func (r *run) step(e Event) {
	for queue := []Event{e}; len(queue) > 0; queue = queue[1:] {
		for _, a := range r.core.Step(queue[0], time.Since(r.begin)) {
			r.o.Log.Debug().Stringer("action", a).Msg("publisher decided")
			switch a := a.(type) {
			case Build:
				queue = append(queue, r.build(a))
			case Post:
				r.post(a)
			case Fetch:
				r.fetch(a)
			default:
				r.tell(a)
			}
		}
	}
	r.state.Fenced = r.core.fence.up
}

// tell passes on what an operator should know.
func (r *run) tell(a Action) {
	switch a := a.(type) {
	case Published:
		r.state.Published = time.Now()
		r.report(Report{Published: &a, Next: r.begin.Add(r.core.pace.refresh)})
	case Unpublished:
		r.o.Log.Warn().Stringer("period", a.Period).Int("stored", a.Stored).Int("asked", a.Asked).Msg("too few directories have the descriptor")
		r.report(Report{Unpublished: &a})
	case Fenced:
		r.o.Log.Warn().Uint64("term", uint64(a.Own)).Uint64("later", uint64(a.Later)).Msg("another publisher has a later term")
		r.report(Report{Fenced: &a})
	case Foreign:
		r.state.Foreign = time.Now()
		r.o.Log.Error().Stringer("period", a.Period).Uint64("revision", a.Revision).Msg("somebody else publishes this address: its key is used elsewhere")
		r.report(Report{Foreign: &a})
	}
}

func (r *run) report(x Report) {
	if r.o.Report != nil {
		x.Address = r.address
		r.o.Report(x)
	}
}

// post has a directory take its descriptor. The answer comes as an event, in
// any case.
func (r *run) post(a Post) {
	text := r.textFor(a)
	r.spawn(func(ctx context.Context) Event {
		err := errors.New("no text")
		if text != nil {
			err = r.o.Uploader.Upload(ctx, r.address, a.Dir, text)
		}
		switch {
		case err == nil:
			return Answered{a, Stored}
		case errors.Is(err, ErrRejected):
			return Answered{a, Rejected}
		}
		r.o.Log.Debug().Stringer("dir", a.Dir).Err(err).Msg("directory did not take the descriptor")
		return Answered{a, Failed}
	})
}

func (r *run) fetch(a Fetch) {
	r.spawn(func(ctx context.Context) Event {
		seen := Seen{Fetch: a}
		text, err := r.o.Uploader.Fetch(ctx, r.address, a.Dir)
		if err != nil {
			return seen
		}
		s, err := descriptor.Parse(text, time.Now())
		if err != nil || s.Blinded != r.address.Blind(a.Period) {
			return seen
		}
		seen.OK, seen.Revision = true, s.Revision
		seen.Term, seen.Known = r.o.Key.RevisionTerm(a.Period, s.Revision)
		return seen
	})
}

// spawn runs one exchange with a directory on its own goroutine.
func (r *run) spawn(f func(context.Context) Event) {
	r.workers.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, r.o.Timing.Answer)
		defer cancel()
		e := f(ctx)
		select {
		case r.answers <- e:
		case <-r.ctx.Done():
		}
	})
}

func (p *Publisher) entropy() (seed [32]byte, err error) {
	if _, err = io.ReadFull(p.o.Entropy, seed[:]); err != nil {
		err = fmt.Errorf("random source: %w", err)
	}
	return seed, err
}
