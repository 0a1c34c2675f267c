package eventlog

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// pipeline is the writer at work. While one batch is written and synced, the
// next one is encoded and hashed, and the one before it answered. On the disk
// nothing overlaps: a batch is written when the one before is durable.
type pipeline struct {
	l      *Log
	next   stage
	flying stage      // being written and synced; no batch: nothing is
	landed []*request // durable and shown, to be answered
	taken  []*request // room for what take takes
	spare  []*request // room for the batch after the next
	quiet  bool       // nothing was asked for while the last batch was in flight
	flush  flusher
	gather gather

	// After an error: what of them is on the disk is not known.
	unknown []*request
	waiting []*request // taken and not staged
}

// stage is a batch on its way to the disk.
type stage struct {
	batch   []*request
	dirty   []*chain // those with a group of it
	bytes   int64
	records int
}

// full says that the batch is as large as one should be.
func (s *stage) full() bool { return s.bytes >= groupBytes || s.records >= groupRecords }

// mark begins a group of c, unless there is one.
func (s *stage) mark(c *chain) {
	if len(c.buf) == 0 {
		s.dirty = append(s.dirty, c)
	}
	c.begin()
}

// write is the writer: the only goroutine that touches the chains' own view
// and, with the one that flushes for it, their files. It ends when ctx ends,
// after what was queued is durable, or with the first I/O error.
func (l *Log) write(ctx context.Context) error {
	stop := context.AfterFunc(ctx, l.in.close)
	defer stop()
	p := &pipeline{l: l, flush: newFlusher(l)}
	err := p.run(ctx)
	p.flush.stop()
	l.foldPending()
	if err == nil {
		return nil
	}
	p.answer()
	l.poison(err, p.unknown, append(p.next.batch, p.waiting...))
	return fmt.Errorf("%w: %w", ErrPoisoned, err)
}

// run returns nil, or the error that poisons the log; then nothing is in flight.
func (p *pipeline) run(ctx context.Context) error {
	idle := time.NewTimer(markAfter)
	defer idle.Stop()
	for {
		if !p.next.full() {
			if err := p.take(); err != nil {
				return err
			}
		}
		switch {
		case len(p.flying.batch) > 0:
			if err := p.await(); err != nil {
				return err
			}
		case len(p.landed) > 0:
			answered := len(p.landed)
			p.answer()
			if err := p.collect(answered); err != nil {
				return err
			}
		case len(p.next.batch) > 0:
			if err := p.launch(); err != nil {
				return err
			}
		default:
			p.l.foldPending()
			if p.l.rest(ctx, idle) {
				return nil
			}
		}
	}
}

// collect stages what those append who were just answered, as many as there
// are: what a group costs hardly depends on how many share it. Were the first of
// them alone in the next group, the others would wait for two.
func (p *pipeline) collect(answered int) error {
	if p.gather.alone > 0 {
		p.gather.alone--
		runtime.Gosched()
		return nil
	}
	before := len(p.next.batch)
	until := time.Now().Add(min(p.gather.took/2, gatherMax))
	came := 0
	for range gatherSteps {
		runtime.Gosched()
		if err := p.take(); err != nil {
			return err
		}
		if came = len(p.next.batch) - before; came >= answered || p.next.full() {
			return nil
		}
		if !time.Now().Before(until) {
			break
		}
	}
	if 2*came < answered {
		p.gather.alone = gatherNot
	}
	return nil
}

// rest waits for work. It reports true when ctx has ended and there is none.
func (l *Log) rest(ctx context.Context, idle *time.Timer) (done bool) {
	if ctx.Err() != nil {
		l.in.close()
		if l.in.empty() {
			l.watermark.save(l)
			return true
		}
		return false
	}
	idle.Reset(markAfter)
	select {
	case <-l.in.wake: // put and close send
	case <-idle.C:
		l.watermark.save(l)
	}
	return false
}

// take stages what is queued. What changes more than the ends of chains is done
// when nothing else is staged or in flight.
func (p *pipeline) take() error {
	p.taken = p.l.in.take(p.taken[:0])
	if len(p.taken) == 0 {
		return nil
	}
	defer clear(p.taken)
	if onlyAdds(p.taken) {
		p.l.stageAll(p.taken, &p.next)
		return nil
	}
	batch := slices.Clone(p.taken)
	p.waiting = batch
	for len(p.flying.batch)+len(p.next.batch) > 0 {
		step := p.launch
		if len(p.flying.batch) > 0 {
			step = p.land
		}
		if err := step(); err != nil {
			return err
		}
	}
	p.waiting = nil
	p.answer()
	if err := p.l.commit(batch); err != nil {
		p.unknown = batch
		return err
	}
	return nil
}

// onlyAdds says that batch only adds to chains.
func onlyAdds(batch []*request) bool {
	for _, r := range batch {
		if r.swap != nil || r.trim != nil || r.renew != nil || r.fork != nil {
			return false
		}
	}
	return true
}

// await waits for the batch in flight, or for more to stage meanwhile.
func (p *pipeline) await() error {
	if p.next.full() {
		return p.land()
	}
	select {
	case err := <-p.flush.done:
		return p.show(err)
	case <-p.l.in.wake:
		runtime.Gosched() // whoever can run may have something to append, too
		return nil
	}
}

// land waits for the batch in flight.
func (p *pipeline) land() error { return p.show(<-p.flush.done) }

// show shows the batch that was in flight, unless err ended it.
func (p *pipeline) show(err error) error {
	if err == nil {
		err = p.l.publish(p.flying.dirty)
	}
	p.gather.landed()
	p.quiet = len(p.next.batch) == 0 && p.l.in.empty()
	batch := p.flying.batch
	p.flying = stage{}
	if err != nil {
		p.unknown = batch
		return err
	}
	if len(p.landed) == 0 {
		p.landed, p.spare = batch, p.landed
	} else {
		p.landed = append(p.landed, batch...)
	}
	return nil
}

// launch writes the staged batch; nothing is in flight. Then there is time to
// answer those that are durable.
func (p *pipeline) launch() error {
	s := p.next
	p.next = stage{batch: p.spare}
	p.spare = nil
	if len(s.dirty) == 0 { // refused, or known already
		p.landed = append(p.landed, s.batch...)
		return nil
	}
	if err := p.l.makeRoom(s.dirty); noRoom(err) {
		p.l.unstage(s)
		p.answer()
		if err = p.l.commitTight(s.batch, err); err != nil {
			p.unknown = s.batch
		}
		return err
	} else if err != nil {
		p.unknown = s.batch
		return err
	}
	for _, c := range s.dirty {
		c.launch()
	}
	p.flying = s
	p.gather.launched = time.Now()
	if p.quiet {
		// Probably nobody to do anything for in the meantime.
		p.l.vouch(s.dirty, p.flush.signed)
		p.l.foldPending()
		return p.show(p.l.flush(s.dirty, p.flush.signed))
	}
	p.flush.work <- s.dirty
	p.l.vouch(s.dirty, p.flush.signed)
	p.l.foldPending()
	p.answer()
	return nil
}

// answer answers what is durable.
func (p *pipeline) answer() {
	if len(p.landed) == 0 {
		return
	}
	p.l.answer(p.landed)
	clear(p.landed)
	p.landed = p.landed[:0]
}

// gather is how long those are waited for who were just answered.
type gather struct {
	launched time.Time
	took     time.Duration // from the launch of the last group to its end
	alone    int           // for so many groups nobody is waited for
}

const (
	// gatherMax bounds the wait, as does half of what the disk takes.
	gatherMax = time.Millisecond
	// gatherSteps bounds it where the clock stands still, as in simulations.
	gatherSteps = 1000
	// gatherNot is for how many groups nobody is waited for when those who were
	// answered stayed away.
	gatherNot = 16
)

// landed notes that the group in flight is durable.
func (g *gather) landed() { g.took = time.Since(g.launched) }

// flusher writes and syncs for the writer, one batch at a time.
type flusher struct {
	work   chan []*chain     // capacity 1: never full
	signed chan cluster.Head // of the own group in work; capacity 1: never full
	done   chan error        // capacity 1: never full
}

func newFlusher(l *Log) flusher {
	f := flusher{work: make(chan []*chain, 1), signed: make(chan cluster.Head, 1), done: make(chan error, 1)}
	go func() {
		for dirty := range f.work {
			f.done <- l.flush(dirty, f.signed)
		}
		close(f.done)
	}()
	return f
}

// stop ends the goroutine. Nothing is in flight.
func (f flusher) stop() {
	close(f.work)
	for range f.done {
	}
}

// flush makes the groups in flight durable. The events of the own one are
// written while its head is being signed. An error poisons the log: it is
// unknown what of the groups is on the disk.
func (l *Log) flush(dirty []*chain, signed <-chan cluster.Head) error {
	for _, c := range dirty {
		if err := c.write(); err != nil {
			return err
		}
	}
	for _, c := range dirty {
		if c.flight.next.Seq == 0 {
			if err := c.finish(<-signed); err != nil {
				return err
			}
		}
	}
	for _, c := range dirty {
		started := time.Now()
		if err := c.file.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", c.last().path, err)
		}
		l.m.fsync.Observe(time.Since(started).Seconds())
	}
	return nil
}

// vouch signs the head of the own group, if it is one of those that were just
// launched.
func (l *Log) vouch(dirty []*chain, signed chan<- cluster.Head) {
	if c := l.own; slices.Contains(dirty, c) {
		signed <- record.SignHead(l.o.Cluster, cluster.Head{Source: c.src, Seq: c.tail.Seq, Hash: c.tail.Hash}, l.o.Key)
	}
}
