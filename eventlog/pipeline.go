package eventlog

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/store"
)

// markAfter is how long the log must have been idle before the watermark, how far
// the chains are durable, is written.
const markAfter = time.Second

// pipeline is the writer at work. While one batch is written and synced, the
// next one is encoded and hashed, and the one before it answered. On the disk
// nothing overlaps: a batch is written when the one before is durable.
type pipeline struct {
	w      *writer
	next   stage
	flying stage      // being written and synced; no batch: nothing is
	landed []*request // durable and shown, to be answered
	taken  []*request // room for what take takes
	spare  []*request // room for the batch after the next
	quiet  bool       // nothing was asked for while the last batch was in flight
	marked bool       // the watermark is written, and nothing was asked for since
	flush  flusher
	gather gather

	// After an error: what of them is on the disk is not known.
	unknown []*request
	waiting []*request // taken and not staged
}

// stage is a batch on its way to the disk.
type stage struct {
	batch   []*request
	groups  store.Batch
	bytes   int64
	records int
	foreign bool // some of it is of another host's chain, and that host waits for the answer
}

// full says that the batch is as large as one should be.
func (s *stage) full() bool { return s.bytes >= groupBytes || s.records >= groupRecords }

// write is the writer: the only goroutine that touches the chains' own view
// and, with the one that flushes for it, their files. It ends when ctx ends,
// after what was queued is durable, or with the first I/O error.
func (w *writer) write(ctx context.Context) error {
	stop := context.AfterFunc(ctx, w.in.close)
	defer stop()
	p := &pipeline{w: w, flush: newFlusher(w.disk)}
	err := p.run(ctx)
	p.flush.stop()
	w.fold.start()
	if err == nil {
		return nil
	}
	p.answer()
	w.poison(err, p.unknown, append(p.next.batch, p.waiting...))
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
			if err := p.together(); err != nil {
				return err
			}
			if err := p.launch(); err != nil {
				return err
			}
		default:
			p.w.fold.start()
			if p.rest(ctx, idle) {
				return nil
			}
		}
	}
}

// collect waits a moment for appends of the callers that were just answered, and
// stages them: a group costs about the same however many share it, and if the
// first of them got a group of its own the others would wait for two.
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

// together waits a moment until earlier events are stable, if at least as many callers
// wait for that as have staged something, and for what they append then: a way to the
// disks of a majority and back costs about the same however many share it, and without
// this the callers fall into groups of which each goes it by itself.
func (p *pipeline) together() error {
	if p.gather.apart > 0 {
		p.gather.apart--
		return nil
	}
	staged := len(p.next.batch)
	still, left, changed := p.w.stab.Waiting(togetherMax)
	all := max(left, still+staged)
	if staged == all || left == 0 && still < staged || p.next.foreign || p.next.full() {
		return nil
	}
	patience := time.NewTimer(togetherMax)
	defer patience.Stop()
	for {
		select {
		case <-changed:
		case <-p.w.in.wake:
			runtime.Gosched() // other goroutines may have something to append, too
		case <-patience.C:
			p.gather.apart = gatherNot
			return nil
		}
		if err := p.take(); err != nil {
			return err
		}
		staged = len(p.next.batch)
		if still, _, changed = p.w.stab.Waiting(togetherMax); staged >= all || still > 0 && still < staged || p.next.foreign || p.next.full() {
			return nil
		}
	}
}

// rest waits for work. It reports true when ctx has ended and there is none.
func (p *pipeline) rest(ctx context.Context, idle *time.Timer) (done bool) {
	w := p.w
	if ctx.Err() != nil {
		w.in.close()
		if w.in.empty() {
			w.disk.SaveMarks()
			return true
		}
		return false
	}
	var unmarked <-chan time.Time
	if !p.marked {
		idle.Reset(markAfter)
		unmarked = idle.C
	}
	select {
	case <-w.in.wake: // put and close send
		p.marked = false
	case <-unmarked:
		p.marked = w.disk.SaveMarks()
	}
	return false
}

// take stages what is queued. What changes more than the ends of chains is done
// when nothing else is staged or in flight.
func (p *pipeline) take() error {
	p.taken = p.w.in.take(p.taken[:0])
	if len(p.taken) == 0 {
		return nil
	}
	defer clear(p.taken)
	if onlyAdds(p.taken) {
		p.w.stageAll(p.taken, &p.next)
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
	if err := p.w.commit(batch); err != nil {
		p.unknown = batch
		return err
	}
	return nil
}

// onlyAdds says that batch only adds to chains.
func onlyAdds(batch []*request) bool {
	for _, r := range batch {
		if !r.onlyStages() {
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
	case <-p.w.in.wake:
		runtime.Gosched() // other goroutines may have something to append, too
		return nil
	}
}

// land waits for the batch in flight.
func (p *pipeline) land() error { return p.show(<-p.flush.done) }

// show shows the batch that was in flight, unless err ended it.
func (p *pipeline) show(err error) error {
	if err == nil {
		err = p.w.publish(p.flying.groups)
	}
	p.gather.landed()
	p.quiet = len(p.next.batch) == 0 && p.w.in.empty()
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

// launch writes the staged batch; nothing is in flight. Meanwhile it answers the
// requests that are durable.
func (p *pipeline) launch() error {
	s := p.next
	p.next = stage{batch: p.spare}
	p.spare = nil
	if s.groups.Empty() { // refused, or known already
		p.landed = append(p.landed, s.batch...)
		return nil
	}
	if err := p.w.disk.MakeRoom(s.groups); disk.NoRoom(err) {
		p.w.unstage(s)
		p.answer()
		if err = p.w.commitTight(s.batch, err); err != nil {
			p.unknown = s.batch
		}
		return err
	} else if err != nil {
		p.unknown = s.batch
		return err
	}
	p.w.disk.Launch(s.groups)
	p.flying = s
	p.gather.launched = time.Now()
	if p.quiet {
		// There is probably nothing to do in the meantime.
		p.w.disk.Sign(s.groups, p.flush.signed)
		p.w.fold.start()
		return p.show(p.w.disk.Flush(s.groups, p.flush.signed))
	}
	p.flush.work <- s.groups
	p.w.disk.Sign(s.groups, p.flush.signed)
	p.w.fold.start()
	p.answer()
	return nil
}

// answer answers what is durable.
func (p *pipeline) answer() {
	if len(p.landed) == 0 {
		return
	}
	p.w.answer(p.landed)
	clear(p.landed)
	p.landed = p.landed[:0]
}

// gather says how long to wait for the callers that were just answered.
type gather struct {
	launched time.Time
	took     time.Duration // from the launch of the last group to its end
	alone    int           // how many more groups do not wait
	apart    int           // how many more do not wait for a majority
}

const (
	// gatherMax bounds the wait, as does half of what the disk takes.
	gatherMax = time.Millisecond
	// togetherMax bounds the wait for a majority, which may be far.
	togetherMax = 2 * time.Millisecond
	// gatherSteps bounds it where the clock stands still, as in simulations.
	gatherSteps = 1000
	// gatherNot is how many groups do not wait after fewer than half of the
	// callers that were answered came back.
	gatherNot = 16
)

// landed notes that the group in flight is durable.
func (g *gather) landed() { g.took = time.Since(g.launched) }

// flusher writes and syncs for the writer, one batch at a time.
type flusher struct {
	work   chan store.Batch // capacity 1: never full
	signed chan event.Head  // of the own group in work; capacity 1: never full
	done   chan error       // capacity 1: never full
}

func newFlusher(w *store.Writer) flusher {
	f := flusher{work: make(chan store.Batch, 1), signed: make(chan event.Head, 1), done: make(chan error, 1)}
	go func() {
		for groups := range f.work {
			f.done <- w.Flush(groups, f.signed)
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
