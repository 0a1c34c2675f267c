package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// runWriter writes until ctx ends. After an I/O error it opens the chains again,
// with growing pauses, unless that is switched off or what was durable is gone.
func (l *Log) runWriter(ctx context.Context) error {
	pause := l.o.ReopenAfter
	for {
		started := time.Now()
		err := l.write(ctx)
		if err == nil || l.o.ReopenAfter < 0 {
			return err
		}
		if time.Since(started) > reopenCalm {
			pause = l.o.ReopenAfter
		}
		for {
			if !after(ctx, pause) {
				return err
			}
			pause = min(2*pause, max(reopenMax, l.o.ReopenAfter))
			again := l.reopen()
			if again == nil {
				break
			}
			if _, ok := errors.AsType[*CorruptError](again); ok {
				return errors.Join(err, again)
			}
			l.log.Error().Err(again).Msg("event log not recovered yet")
		}
	}
}

const (
	reopenMax = 30 * time.Second
	// reopenCalm is how long the log must have been sound for an error to count
	// as a new one.
	reopenCalm = time.Minute
)

// commit makes one batch durable and answers its requests; nothing is staged or
// in flight. An error is an I/O error: nothing was answered.
func (l *Log) commit(batch []*request) error {
	err := l.commitOnce(batch)
	if noRoom(err) {
		return l.commitTight(batch, err)
	}
	return err
}

// commitTight is commit of a batch for which the disk had no room, as err says:
// the essential requests get what is held in reserve.
func (l *Log) commitTight(batch []*request, err error) error {
	var must, others []*request
	for _, r := range batch {
		switch {
		case r.err != nil:
			others = append(others, r)
		case r.class == urgent:
			must = append(must, r)
		default:
			r.err = refusedForRoom(err)
			others = append(others, r)
		}
	}
	l.disk.sawFull()
	if len(must) > 0 && l.disk.release() {
		err = l.commitOnce(must)
	}
	if len(must) > 0 && err != nil {
		if !noRoom(err) {
			return err
		}
		l.disk.ranOut()
		for _, r := range must {
			if r.err == nil {
				r.err = refusedForRoom(err)
			}
		}
		others = append(others, must...)
	}
	l.answer(others)
	return nil
}

// commitOnce tries to make one batch durable and answers its requests. If noRoom
// is true of its error the batch left no trace and may be tried again. After
// another error it is unknown what of it is on the disk.
func (l *Log) commitOnce(batch []*request) error {
	var s stage
	for _, r := range batch { // before anything is staged
		switch {
		case r.err != nil || r.did: // in an earlier try
		case r.swap != nil:
			if err := l.goOnFrom(r); err != nil {
				return err
			}
			r.did = true
		case r.trim != nil:
			l.forget(r.trim)
			r.did = true
		case r.renew != nil:
			r.err = l.renewOwn(r, &s)
		case r.fork != nil:
			if err := l.applyFork(r.fork); err != nil {
				return err
			}
		}
	}
	l.stageAll(batch, &s)
	if err := l.makeRoom(s.dirty); err != nil {
		if noRoom(err) {
			l.unstage(s)
		}
		return err
	}
	for _, c := range s.dirty {
		c.launch()
	}
	signed := make(chan cluster.Head, 1)
	l.vouch(s.dirty, signed)
	if err := l.flush(s.dirty, signed); err != nil {
		return err
	}
	if err := l.publish(s.dirty); err != nil {
		return err
	}
	l.answer(batch)
	return nil
}

// stageAll puts what batch adds to chains behind what is staged.
func (l *Log) stageAll(batch []*request, s *stage) {
	// Stamped before the lease is looked at: were the process stopped after
	// that look, the events would seem to be of a time when it was over.
	at := l.o.Stamp()
	for _, r := range batch {
		switch {
		case r.err != nil, r.renew != nil, r.swap != nil, r.trim != nil, r.fork != nil:
		case r.run != nil:
			r.err = l.stage(r, s)
		default:
			r.err = l.stageOwn(r, s, at)
		}
		s.bytes += r.weight
		s.records += r.records
	}
	s.batch = append(s.batch, batch...)
}

// unstage takes back what is staged, of which nothing was written.
func (l *Log) unstage(s stage) {
	for _, c := range s.dirty {
		c.forget()
	}
	for _, r := range s.batch {
		r.events = nil
	}
}

// makeRoom makes room for all groups.
func (l *Log) makeRoom(dirty []*chain) error {
	for _, c := range dirty {
		if err := c.makeRoom(l.fs, l.o); err != nil {
			return err
		}
	}
	return nil
}

// publish shows the synced groups to readers and wakes who waits. The groups
// are folded while the next ones are written, see foldPending: whoever saw the
// new heads waits in View until that is done. An error is that of folding.
func (l *Log) publish(dirty []*chain) error {
	if len(dirty) == 0 {
		return nil
	}
	size := int64(0)
	for _, c := range dirty {
		l.grew(c, int64(len(c.flight.buf)))
		size += int64(len(c.flight.buf))
	}
	if err := l.show(dirty, size); err != nil {
		return err
	}
	l.ownAck()
	l.notify()
	l.advanceStable()
	return nil
}

// show moves the heads of the synced chains and leaves the new events, of which
// size bytes were written, to the fold.
func (l *Log) show(dirty []*chain, size int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fold.err != nil {
		return l.fold.err
	}
	for _, c := range dirty {
		if _, ok := l.chains[c.src]; !ok {
			l.chains[c.src] = c
			delete(l.fresh, c.src)
		}
		got := c.commit()
		if c == l.own {
			l.unstable = addTerms(l.unstable, got)
		} else {
			l.m.received.Add(float64(len(got)))
		}
		if l.fold.pending == nil {
			l.fold.pending = got
		} else {
			l.fold.pending = append(l.fold.pending, got...)
		}
		l.snap.note(got)
		l.m.records.Add(float64(len(got)))
		l.m.groups.Inc()
		l.m.groupRecords.Observe(float64(len(got)))
	}
	l.fold.size += size
	l.digest = nil
	l.m.durable.Set(float64(l.own.head.Seq))
	l.m.sources.Set(float64(len(l.chains)))
	return nil
}

// grew notes that the segments of c have n bytes more.
func (l *Log) grew(c *chain, n int64) {
	l.m.size.Add(float64(n))
	l.snap.grew(n)
	l.disk.grew(n)
	l.quota.grew(c.src.Node, n, time.Now())
}

// answer answers requests. They are no longer the writer's then.
func (l *Log) answer(batch []*request) {
	l.in.giveBack(batch)
	for _, r := range batch {
		r.done <- struct{}{}
	}
}

// stageOwn gives drafts their places in the own chain, at a time before the
// lease is looked at. A refused request leaves no trace.
func (l *Log) stageOwn(r *request, s *stage, at time.Time) error {
	for _, d := range r.drafts {
		if d.Term > 0 && !l.o.MayAct(d.Term) {
			return fmt.Errorf("%w: term %d", ErrFenced, d.Term)
		}
	}
	c := l.own
	var link []byte
	if c.link != nil && c.tail.Seq == 0 {
		var err error
		if link, err = json.Marshal(c.link); err != nil {
			return fmt.Errorf("encode link to %s: %w", c.link.Previous.Source, err)
		}
	}
	s.mark(c)
	if link != nil {
		l.put(c, cluster.Draft{Kind: cluster.KindIncarnation}, link, at)
	}
	first := len(c.events)
	for i, d := range r.drafts {
		l.put(c, d, r.bodies[i], at)
	}
	r.events = slices.Clip(c.events[first:])
	return nil
}

// put adds one checked draft to the own group.
func (l *Log) put(c *chain, d cluster.Draft, body []byte, at time.Time) {
	l.hlc = max(l.hlc, c.hlc).Next(at)
	c.add(cluster.Event{
		Source: c.src, Seq: c.tail.Seq + 1, Prev: c.tail.Hash,
		HLC: l.hlc, Term: d.Term, Kind: d.Kind, Body: body,
	})
}

// stage puts a verified run of another source behind its chain, as far as it
// is new and still fits.
func (l *Log) stage(r *request, s *stage) error {
	ru := r.run
	if ru.head.Source == l.own.src {
		return fmt.Errorf("%w: run of this host's own chain", ErrPeer)
	}
	c := l.chains[ru.head.Source]
	if c == nil {
		c = l.staged(ru.head.Source)
		if c == nil {
			return fmt.Errorf("%w: more than %d chains, or %d of one host", ErrQuota, MaxSources, maxIncarnations)
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
	s.mark(c)
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
	if len(l.chains)+len(l.fresh) >= MaxSources || l.chainsOf(src.Node) >= maxIncarnations {
		return nil
	}
	c := l.newChain(src)
	l.fresh[src] = c
	return c
}

// chainsOf counts the chains of one host.
func (l *Log) chainsOf(node cluster.NodeID) (n int) {
	for _, m := range []map[cluster.SourceID]*chain{l.chains, l.fresh} {
		for src := range m {
			if src.Node == node {
				n++
			}
		}
	}
	return n
}

// renewal asks for a new incarnation of the own chain.
type renewal struct {
	inc    uint64
	reason string
}

// renewOwn starts a new incarnation of the own chain. Its first event names the
// last one of the old chain that is here.
func (l *Log) renewOwn(r *request, s *stage) error {
	old := l.own
	switch {
	case r.renew.inc == old.src.Inc:
		return l.stageOwn(r, s, l.o.Stamp()) // started in an earlier try
	case r.renew.inc < old.src.Inc || len(old.buf) > 0:
		return fmt.Errorf("%w: incarnation %d after %d", ErrDraft, r.renew.inc, old.src.Inc)
	}
	if f := old.file; f != nil {
		if err := f.Close(); err != nil {
			return fmt.Errorf("close segment: %w", err)
		}
		old.file = nil
	}
	next := l.newChain(cluster.SourceID{Node: l.o.Self, Inc: r.renew.inc})
	next.link = &cluster.Incarnation{
		Previous: cluster.SourceMark{Source: old.src, Mark: cluster.Mark{Seq: old.head.Seq, Hash: old.head.Hash}},
		Reason:   r.renew.reason,
	}
	l.mu.Lock()
	l.own = next
	l.unstable = nil
	l.mu.Unlock()
	l.resetVoters(next.src, 0)
	l.log.Warn().Uint64("incarnation", r.renew.inc).Str("reason", r.renew.reason).Msg("own chain continues as a new incarnation")
	l.notify()
	return l.stageOwn(r, s, l.o.Stamp())
}

// poison ends writing for good. What was being written is unknown; what was
// staged, or still queued, is certainly absent.
func (l *Log) poison(err error, written, absent []*request) {
	l.m.poisoned.Set(1)
	l.log.Error().Err(err).Msg("event log poisoned, nothing is written any more")
	l.mu.Lock()
	l.poisoned = fmt.Errorf("%w: %w", ErrPoisoned, err)
	l.mu.Unlock()
	l.in.close()
	for _, r := range written {
		if r.err == nil {
			r.err = fmt.Errorf("%w: %w", ErrUnknown, l.poisoned)
		}
	}
	l.answer(written)
	l.refuse(absent, l.poisoned)
	l.refuseQueued(l.poisoned)
	l.notify()
	l.o.OnPoison(err)
}

// refuseQueued answers everything that the writer will not take.
func (l *Log) refuseQueued(cause error) {
	for batch := l.in.take(nil); len(batch) > 0; batch = l.in.take(nil) {
		l.refuse(batch, cause)
	}
}

// refuse answers what was not written and will not be.
func (l *Log) refuse(batch []*request, cause error) {
	for _, r := range batch {
		switch {
		case r.err != nil: // refused for another reason
		case cause == nil:
			r.err = ErrClosed
		default:
			r.err = fmt.Errorf("%w: %w", ErrClosed, cause)
		}
		r.events = nil
	}
	l.answer(batch)
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
