package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// write is the writer: the only goroutine that touches the chains' own view
// and their files. It ends when ctx ends, after what was queued is durable,
// or with the first I/O error.
func (l *Log) write(ctx context.Context) error {
	stop := context.AfterFunc(ctx, l.in.close)
	defer stop()
	for {
		batch := l.in.take()
		if len(batch) == 0 {
			if ctx.Err() == nil {
				<-l.in.wake // put and close send
				continue
			}
			l.in.close()
			if batch = l.in.take(); len(batch) == 0 {
				return nil
			}
		}
		if err := l.commit(batch); err != nil {
			l.poison(err, batch)
			return fmt.Errorf("%w: %w", ErrPoisoned, err)
		}
	}
}

// commit makes one batch durable and answers its requests. An error is an I/O
// error: nothing was answered.
func (l *Log) commit(batch []*request) error {
	var dirty []*chain
	mark := func(c *chain) {
		if len(c.buf) == 0 {
			dirty = append(dirty, c)
		}
		c.begin()
	}
	for _, r := range batch { // before anything is staged
		switch {
		case r.swap != nil:
			if err := l.goOnFrom(r); err != nil {
				return err
			}
		case r.trim != nil:
			l.forget(r.trim)
		}
	}
	for _, r := range batch {
		switch {
		case r.swap != nil, r.trim != nil:
		case r.renew > 0:
			r.err = l.renewOwn(r.renew)
		case r.fork != nil:
			if err := l.applyFork(r.fork); err != nil {
				return err
			}
		case r.run != nil:
			r.err = l.stage(r, mark)
		default:
			r.err = l.stageOwn(r, mark)
		}
	}
	dirty = nonEmpty(dirty)
	for _, c := range dirty {
		if c == l.own {
			h := record.SignHead(l.o.Cluster, cluster.Head{Source: c.src, Seq: c.tail.Seq, Hash: c.tail.Hash}, l.o.Key)
			if err := c.end(h); err != nil {
				return err
			}
		}
		if err := c.write(l.fs, l.o); err != nil {
			return err
		}
	}
	for _, c := range dirty {
		started := time.Now()
		if err := c.file.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", c.last().path, err)
		}
		l.m.fsync.Observe(time.Since(started).Seconds())
	}
	if err := l.publish(dirty); err != nil {
		return err
	}
	l.answer(batch)
	return nil
}

func nonEmpty(chains []*chain) []*chain {
	out := chains[:0]
	for _, c := range chains {
		if len(c.buf) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// publish shows the synced groups to readers and wakes who waits. The groups
// are folded while the next ones are written: whoever saw the new heads waits
// in View until that is done. An error is that of the fold before.
func (l *Log) publish(dirty []*chain) error {
	if len(dirty) == 0 {
		return nil
	}
	l.fold.mu.Lock()
	if err := l.fold.err; err != nil {
		l.fold.mu.Unlock()
		return err
	}
	events := l.show(dirty)
	go func() {
		defer l.fold.mu.Unlock()
		l.fold.err = l.foldLocked(events)
	}()
	l.m.records.Add(float64(len(events)))
	l.notify()
	l.advanceStable()
	return nil
}

// show moves the heads of the synced chains and returns the new events.
func (l *Log) show(dirty []*chain) (events []cluster.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range dirty {
		if _, ok := l.chains[c.src]; !ok {
			l.chains[c.src] = c
			delete(l.fresh, c.src)
		}
		l.m.size.Add(float64(len(c.buf)))
		l.snap.grew(int64(len(c.buf)))
		got := c.commit()
		if c == l.own {
			l.unstable = append(l.unstable, terms(got)...)
		} else {
			l.m.received.Add(float64(len(got)))
		}
		events = append(events, got...)
		l.snap.note(got)
		l.m.groups.Inc()
	}
	l.digest = nil
	l.m.durable.Set(float64(l.own.head.Seq))
	l.m.sources.Set(float64(len(l.chains)))
	return events
}

func (l *Log) answer(batch []*request) {
	var weight int64
	for _, r := range batch {
		weight += r.weight
		close(r.done)
	}
	l.in.giveBack(weight)
}

// stageOwn gives drafts their places in the own chain. A refused request
// leaves no trace.
func (l *Log) stageOwn(r *request, mark func(*chain)) error {
	// Stamped before the lease is looked at: were the process stopped after
	// that look, the events would seem to be of a time when it was over.
	at := l.o.Stamp()
	for _, d := range r.drafts {
		if d.Term > 0 && !l.o.MayAct(d.Term) {
			return fmt.Errorf("%w: term %d", ErrFenced, d.Term)
		}
	}
	c := l.own
	mark(c)
	for i, d := range r.drafts {
		e := cluster.Event{
			Source: c.src, Seq: c.tail.Seq + 1, Prev: c.tail.Hash,
			HLC: max(l.hlc, c.hlc).Next(at), Term: d.Term, Kind: d.Kind, Body: r.bodies[i],
		}
		e, err := c.add(e)
		if err != nil {
			// Drafts were checked on entry: this cannot be a caller's fault.
			panic("eventlog: checked draft refused: " + err.Error())
		}
		l.hlc = e.HLC
		r.events = append(r.events, e)
	}
	return nil
}

// stage puts a verified run of another source behind its chain, as far as it
// is new and still fits.
func (l *Log) stage(r *request, mark func(*chain)) error {
	ru := r.run
	if ru.head.Source == l.own.src {
		return fmt.Errorf("%w: run of this host's own chain", ErrPeer)
	}
	c := l.chains[ru.head.Source]
	if c == nil {
		c = l.staged(ru.head.Source)
		if c == nil {
			return fmt.Errorf("%w: more than %d sources", ErrPeer, MaxSources)
		}
	}
	events := ru.events
	for len(events) > 0 && events[0].Seq <= c.tail.Seq {
		if events[0].Seq == c.tail.Seq && events[0].Hash != c.tail.Hash {
			return contradiction(c.src, c.tail.Seq)
		}
		events = events[1:]
	}
	if len(events) == 0 {
		return nil // all of it is here already
	}
	if events[0].Seq != c.tail.Seq+1 {
		if c.tail.Seq == 0 {
			delete(l.fresh, c.src)
		}
		return fmt.Errorf("%w: run of %s starts at seq %d, the chain here ends at %d", errGap, c.src, events[0].Seq, c.tail.Seq)
	}
	if events[0].Prev != c.tail.Hash {
		return contradiction(c.src, c.tail.Seq)
	}
	if err := l.checkFork(events); err != nil {
		return err
	}
	if events[0].HLC <= c.hlc {
		return fmt.Errorf("%w: clock of %s goes back at seq %d", ErrPeer, c.src, events[0].Seq)
	}
	mark(c)
	for i, e := range events {
		c.copy(e, ru.payloads[len(ru.payloads)-len(events)+i])
		l.hlc = max(l.hlc, e.HLC)
	}
	if err := c.end(ru.head); err != nil {
		panic("eventlog: verified head refused: " + err.Error())
	}
	return nil
}

// checkFork refuses events behind a fork, and those that lead to another one
// than is proven.
func (l *Log) checkFork(events []cluster.Event) error {
	f, ok := l.forks[events[0].Source]
	switch {
	case !ok:
		return nil
	case events[0].Seq >= f.Seq:
		return contradiction(f.Source, f.Seq)
	}
	if n := f.Seq - 1 - events[0].Seq; n < uint64(len(events)) && events[n].Hash != f.Prev {
		return contradiction(f.Source, f.Seq-1)
	}
	return nil
}

// errGap says that a run starts beyond the chain's end.
var errGap = errors.New("gap in chain")

// staged returns the chain of a source that is not in the log yet.
func (l *Log) staged(src cluster.SourceID) *chain {
	if c := l.fresh[src]; c != nil {
		return c
	}
	if len(l.chains)+len(l.fresh) >= MaxSources {
		return nil
	}
	c := l.newChain(src)
	l.fresh[src] = c
	return c
}

// renewOwn starts a new incarnation of the own chain.
func (l *Log) renewOwn(inc uint64) error {
	if inc <= l.own.src.Inc || len(l.own.buf) > 0 {
		return fmt.Errorf("%w: incarnation %d after %d", ErrDraft, inc, l.own.src.Inc)
	}
	if f := l.own.file; f != nil {
		if err := f.Close(); err != nil {
			return fmt.Errorf("close segment: %w", err)
		}
		l.own.file = nil
	}
	l.mu.Lock()
	l.own = l.newChain(cluster.SourceID{Node: l.o.Self, Inc: inc})
	l.unstable = nil
	l.mu.Unlock()
	l.resetVoters()
	l.log.Warn().Uint64("incarnation", inc).Msg("own chain continues as a new incarnation")
	l.notify()
	return nil
}

// poison ends writing for good. What was being written is unknown; what was
// still queued is certainly absent.
func (l *Log) poison(err error, batch []*request) {
	l.m.poisoned.Set(1)
	l.log.Error().Err(err).Msg("event log poisoned, nothing is written any more")
	l.mu.Lock()
	l.poisoned = fmt.Errorf("%w: %w", ErrPoisoned, err)
	l.mu.Unlock()
	l.in.close()
	for _, r := range batch {
		if r.err == nil {
			r.err = fmt.Errorf("%w: %w", ErrUnknown, l.poisoned)
		}
	}
	l.answer(batch)
	l.refuseQueued(l.poisoned)
	l.notify()
	l.o.OnPoison(err)
}

// refuseQueued answers everything that the writer will not take.
func (l *Log) refuseQueued(cause error) {
	for batch := l.in.take(); len(batch) > 0; batch = l.in.take() {
		for _, r := range batch {
			r.err = ErrClosed
			if cause != nil {
				r.err = fmt.Errorf("%w: %w", ErrClosed, cause)
			}
		}
		l.answer(batch)
	}
}

func (l *Log) closeFiles() error {
	var errs []error
	for _, m := range []map[cluster.SourceID]*chain{l.chains, l.fresh} {
		for _, c := range m {
			if c.file != nil {
				errs = append(errs, c.file.Close())
				c.file = nil
			}
		}
	}
	if l.own.file != nil {
		errs = append(errs, l.own.file.Close())
		l.own.file = nil
	}
	return errors.Join(errs...)
}
