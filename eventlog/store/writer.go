package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/wire"
)

// Writer changes a Store. It belongs to one goroutine, except that another one
// may run Flush meanwhile.
//
// What is to be written is staged into a Batch. MakeRoom, Launch, Flush and Show
// then carry the batch to the disk and to the readers; meanwhile the next one
// may be staged, but not launched.
type Writer struct {
	s     *Store
	fresh map[event.SourceID]*chain // chains without events, not yet in Store.chains
	hlc   cluster.HLC               // highest of all events
	link  *event.Incarnation        // what the own chain begins with, if it goes on for another one
	marks watermark
}

// Batch is what is written together: one group of each of some chains.
type Batch struct{ dirty []*chain }

// Empty says that the batch holds no group.
func (b *Batch) Empty() bool { return len(b.dirty) == 0 }

// mark begins a group of c, unless there is one.
func (b *Batch) mark(c *chain) {
	if len(c.buf) == 0 {
		b.dirty = append(b.dirty, c)
	}
	c.begin()
}

// Stage gives drafts, which were checked and whose bodies are encoded, their
// places in the own chain, stamped with the time at.
func (w *Writer) Stage(b *Batch, drafts []event.Draft, bodies [][]byte, at time.Time) ([]event.Event, error) {
	c := w.s.own
	var link []byte
	if w.link != nil && c.tail.Seq == 0 {
		var err error
		if link, err = json.Marshal(w.link); err != nil {
			return nil, fmt.Errorf("encode link to %s: %w", w.link.Previous.Source, err)
		}
	}
	if link == nil && len(drafts) == 0 {
		return nil, nil // a group is at least one event
	}
	b.mark(c)
	if link != nil {
		w.put(c, event.Draft{Kind: event.KindIncarnation}, link, at)
	}
	first := len(c.events)
	for i, d := range drafts {
		w.put(c, d, bodies[i], at)
	}
	return slices.Clip(c.events[first:]), nil
}

// put adds one checked draft to the own group.
func (w *Writer) put(c *chain, d event.Draft, body []byte, at time.Time) {
	w.hlc = max(w.hlc, c.hlc).Next(at)
	c.add(event.Event{
		Source: c.src, Seq: c.tail.Seq + 1, Prev: c.tail.Hash,
		HLC: w.hlc, Term: d.Term, Kind: d.Kind, Body: body,
	})
}

// StageRun puts a verified run of another source behind its chain, as far as it
// is new and fits.
func (w *Writer) StageRun(b *Batch, ru *wire.Run) error {
	if ru.Head.Source == w.s.own.src {
		return fmt.Errorf("%w: run of this host's own chain", wire.ErrPeer)
	}
	c := w.s.chains[ru.Head.Source]
	if c == nil {
		if c = w.chainOf(ru.Head.Source); c == nil {
			return fmt.Errorf("%w: more than %d chains, or %d of one host", disk.ErrQuota, MaxSources, maxIncarnations)
		}
	}
	events := ru.Events
	for len(events) > 0 && events[0].Seq <= c.tail.Seq {
		if events[0].Seq == c.tail.Seq && events[0].Hash != c.tail.Hash {
			return Contradiction(c.src, c.tail.Seq)
		}
		events = events[1:]
	}
	if len(events) == 0 {
		return nil // all of it is here already
	}
	if events[0].Seq != c.tail.Seq+1 {
		if c.tail.Seq == 0 {
			delete(w.fresh, c.src)
		}
		return fmt.Errorf("%w: run of %s starts at seq %d, the chain here ends at %d", ErrGap, c.src, events[0].Seq, c.tail.Seq)
	}
	if events[0].Prev != c.tail.Hash {
		return Contradiction(c.src, c.tail.Seq)
	}
	if err := w.checkFork(events); err != nil {
		return err
	}
	if events[0].HLC <= c.hlc {
		return fmt.Errorf("%w: clock of %s goes back at seq %d", wire.ErrPeer, c.src, events[0].Seq)
	}
	b.mark(c)
	for i, e := range events {
		c.copy(e, ru.Payloads[len(ru.Payloads)-len(events)+i])
		w.hlc = max(w.hlc, e.HLC)
	}
	if err := c.end(ru.Head); err != nil {
		panic("store: verified head refused: " + err.Error())
	}
	return nil
}

// checkFork refuses events behind a fork, and those that lead to another one
// than is proven.
func (w *Writer) checkFork(events []event.Event) error {
	f, ok := w.s.forks[events[0].Source]
	switch {
	case !ok:
		return nil
	case events[0].Seq >= f.Seq:
		return Contradiction(f.Source, f.Seq)
	}
	if n := f.Seq - 1 - events[0].Seq; n < uint64(len(events)) && events[n].Hash != f.Prev {
		return Contradiction(f.Source, f.Seq-1)
	}
	return nil
}

// chainOf returns the chain of a source that has no events yet, nil if there
// are too many.
func (w *Writer) chainOf(src event.SourceID) *chain {
	if c := w.fresh[src]; c != nil {
		return c
	}
	if len(w.s.chains)+len(w.fresh) >= MaxSources || w.chainsOf(src.Node) >= maxIncarnations {
		return nil
	}
	c := w.newChain(src)
	w.fresh[src] = c
	return c
}

// chainsOf counts the chains of one host.
func (w *Writer) chainsOf(node cluster.NodeID) (n int) {
	for _, m := range []map[event.SourceID]*chain{w.s.chains, w.fresh} {
		for src := range m {
			if src.Node == node {
				n++
			}
		}
	}
	return n
}

func (w *Writer) newChain(src event.SourceID) *chain {
	return &chain{src: src, dir: filepath.Join(w.s.o.Dir, segment.SourceDir(src)), mu: &w.s.mu}
}

// Undo takes back what is staged, of which nothing was written.
func (w *Writer) Undo(b Batch) {
	for _, c := range b.dirty {
		c.forget()
	}
}

// MakeRoom makes room for all groups of the batch; none is in flight. After an
// error for which disk.NoRoom is true it may be tried again. Every other one, of
// this and of the other steps, says that it is unknown what is on the disk:
// nothing more may be written until Rescan has found out.
func (w *Writer) MakeRoom(b Batch) error {
	for _, c := range b.dirty {
		if err := c.makeRoom(w.s.o.FS, &w.s.o); err != nil {
			return err
		}
	}
	return nil
}

// Launch makes the staged groups those in flight, which Flush writes.
func (w *Writer) Launch(b Batch) {
	for _, c := range b.dirty {
		c.launch()
	}
}

// Sign signs the head of the own group, if one was just launched.
func (w *Writer) Sign(b Batch, signed chan<- event.Head) {
	if c := w.s.own; slices.Contains(b.dirty, c) {
		signed <- record.SignHead(w.s.o.Cluster, event.Head{Source: c.src, Seq: c.tail.Seq, Hash: c.tail.Hash}, w.s.o.Key)
	}
}

// Flush makes the groups in flight durable. The events of the own one are
// written while its head is being signed.
func (w *Writer) Flush(b Batch, signed <-chan event.Head) error {
	for _, c := range b.dirty {
		if err := c.write(); err != nil {
			return err
		}
	}
	for _, c := range b.dirty {
		if c.flight.next.Seq == 0 {
			if err := c.finish(<-signed); err != nil {
				return err
			}
		}
	}
	for _, c := range b.dirty {
		started := time.Now()
		if err := c.file.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", c.last().path, err)
		}
		w.s.m.fsync.Observe(time.Since(started).Seconds())
	}
	return nil
}

// Show shows the flushed groups to readers, Options.Shown first; Notify wakes
// those who wait for them. The result is how many bytes were written.
func (w *Writer) Show(b Batch) (size int64) {
	for _, c := range b.dirty {
		n := int64(len(c.flight.buf))
		w.s.m.size.Add(float64(n))
		w.s.o.Room.Grew(c.src.Node, n)
		size += n
	}
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range b.dirty {
		if _, ok := s.chains[c.src]; !ok {
			s.chains[c.src] = c
			delete(w.fresh, c.src)
		}
		n := int64(len(c.flight.buf))
		got := c.commit()
		if c != s.own {
			s.m.received.Add(float64(len(got)))
		}
		s.o.Shown(c.src, got, n)
		s.m.records.Add(float64(len(got)))
		s.m.groups.Inc()
		s.m.groupRecords.Observe(float64(len(got)))
	}
	s.digest = nil
	s.m.durable.Set(float64(s.own.head.Seq))
	s.m.sources.Set(float64(len(s.chains)))
	return size
}

// Notify wakes those who wait for a change.
func (w *Writer) Notify() {
	c := &w.s.changes
	c.mu.Lock()
	close(c.ch)
	c.ch = make(chan struct{})
	c.mu.Unlock()
}

// Fail says why nothing more is written; nil: it is again.
func (w *Writer) Fail(err error) {
	c := &w.s.changes
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
}

// Advance makes the clock of later events higher than hlc.
func (w *Writer) Advance(hlc cluster.HLC) { w.hlc = max(w.hlc, hlc) }

// Renew starts a new incarnation of the own chain. Its first event names the
// last one of the old chain that is here. Nothing of the own chain may be staged.
// began is called before anybody can see the new chain, and must not call the
// store.
func (w *Writer) Renew(inc uint64, reason string, began func(event.SourceID)) error {
	old := w.s.own
	if inc <= old.src.Inc || len(old.buf) > 0 {
		return fmt.Errorf("%w: %d after %d", ErrRenewal, inc, old.src.Inc)
	}
	if f := old.file; f != nil {
		if err := f.Close(); err != nil {
			return fmt.Errorf("close segment: %w", err)
		}
		old.file = nil
	}
	next := w.newChain(event.SourceID{Node: w.s.o.Self, Inc: inc})
	w.link = &event.Incarnation{
		Previous: event.SourceMark{Source: old.src, Mark: event.Mark{Seq: old.head.Seq, Hash: old.head.Hash}},
		Reason:   reason,
	}
	w.s.mu.Lock()
	began(next.src)
	w.s.own = next
	w.s.mu.Unlock()
	w.s.log.Warn().Uint64("incarnation", inc).Str("reason", reason).Msg("own chain continues as a new incarnation")
	return nil
}

// AddFork notes a proven fork and keeps the proof. Nothing may be staged. It
// reports whether the fork was not known.
func (w *Writer) AddFork(f wire.Fork, p wire.Proof) bool {
	s := w.s
	if old, ok := s.forks[f.Source]; ok && old.Seq <= f.Seq {
		return false
	}
	if err := saveProof(s.o.Dir, f.Source, p); err != nil {
		s.log.Error().Err(err).Msg("proof of equivocation not kept")
	}
	s.mu.Lock()
	s.forks[f.Source] = f
	s.digest = nil
	s.mu.Unlock()
	s.m.forks.Inc()
	s.log.Error().Str("node", string(f.Source.Node)).Uint64("incarnation", f.Source.Inc).Uint64("seq", f.Seq).
		Str("proof", proofFile(s.o.Dir, f.Source)).Msg("source signed two histories; nothing of it from there on counts")
	return true
}

// StartAt makes a chain begin after h, with nothing before it, as the manifest
// says already. Nothing may be staged. Segments that cannot be removed are left
// to the next Open.
func (w *Writer) StartAt(h event.Head) {
	c := w.s.chains[h.Source]
	if c == nil {
		if c = w.fresh[h.Source]; c == nil {
			c = w.newChain(h.Source)
		}
	}
	s := w.s
	var errs []error
	if c.file != nil {
		errs = append(errs, c.file.Close())
		c.file = nil
	}
	for _, seg := range c.segs {
		errs = append(errs, s.o.FS.Remove(seg.path))
	}
	if len(c.segs) > 0 {
		errs = append(errs, s.o.FS.SyncDir(c.dir))
	}
	if err := errors.Join(errs...); err != nil {
		s.log.Warn().Err(err).Str("source", c.src.String()).Msg("dropped segments not removed yet")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range c.segs {
		s.m.size.Sub(float64(seg.size))
	}
	c.segs, c.head = nil, h
	c.floor = event.Mark{Seq: h.Seq, Hash: h.Hash}
	c.tail, c.alloc = c.floor, 0
	s.chains[c.src] = c
	delete(w.fresh, c.src)
	s.digest = nil
	s.m.sources.Set(float64(len(s.chains)))
}

// Trim drops the segments up to bases from the chains, as the manifest says
// already. The caller removes the files.
func (w *Writer) Trim(bases map[event.SourceID]event.Mark) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for src, base := range bases {
		c := w.s.chains[src]
		n := 0
		for n+1 < len(c.segs) && c.segs[n+1].first <= base.Seq+1 {
			w.s.m.size.Sub(float64(c.segs[n].size))
			n++
		}
		c.segs = append([]*file(nil), c.segs[n:]...)
		c.floor = base
	}
}

// Full says that the log takes in no more chains.
func (w *Writer) Full() bool { return len(w.s.chains)+len(w.fresh) >= MaxSources }

// SaveMarks writes down how far the chains are durable, see watermark. It reports
// whether that is on the disk now.
func (w *Writer) SaveMarks() bool { return w.marks.save(w.s) }

// Close closes all files and gives up the directory.
func (w *Writer) Close() error { return errors.Join(w.closeFiles(), w.s.lock.Close()) }

func (w *Writer) closeFiles() error {
	var errs []error
	for c := range w.all() {
		if c.file != nil {
			errs = append(errs, c.file.Close())
			c.file = nil
		}
	}
	return errors.Join(errs...)
}
