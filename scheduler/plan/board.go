package plan

import (
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/trust"
)

// chunk is a part of a job.
type chunk struct {
	state    chunkState
	queued   bool // stands in board.retry
	kept     bool // for members: strangers contradicted each other
	disputed bool // it has a result already, beside others that differ
	counted  bool // an attempt failed that ran beside all that are open: they are no further try
	attempts int32
	failed   int16
	lost     int16
	strange  int16            // attempts that ended badly at strangers
	tries    []*try           // open attempts
	avoid    []cluster.NodeID // where it failed or was lost
	past     trust.Past       // attempts that strangers had
	check    *trust.Check     // results that wait for a second opinion
	wait     *timer           // it may not be tried again before
}

// at returns the chunk's open attempt at w.
func (c *chunk) at(w *worker) *try {
	for _, t := range c.tries {
		if t.worker == w {
			return t
		}
	}
	return nil
}

// ended takes in that an attempt ended without a result: the chunk goes elsewhere if it
// can.
func (c *chunk) ended(t *try) {
	if n := t.worker.node; !slices.Contains(c.avoid, n) {
		c.avoid = append(c.avoid, n)
	}
	if !t.worker.Stranger {
		return
	}
	c.strange = min(c.strange+1, 1<<10)
	c.past.Add(t.ref(), t.started)
	if i := slices.IndexFunc(c.avoid, cluster.IsOutside); i >= 0 && len(c.avoid) > trust.MaxPast+maxHosts {
		c.avoid = slices.Delete(c.avoid, i, i+1)
	}
}

// hosts counts where the chunk failed or was lost, strangers left out.
func (c *chunk) hosts() (n int) {
	for _, a := range c.avoid {
		if !cluster.IsOutside(a) {
			n++
		}
	}
	return n
}

// board is the chunks of one job: the state of each, and which may be given out
// next.
type board struct {
	of      job.ID
	chunks  []chunk
	count   [chunkStates]int // chunks by state
	fresh   int              // chunks from here on may be untried
	retry   []int32          // pending chunks that were tried, in order; some not pending any more
	waiting int              // chunks that may not be tried again yet
}

func newBoard(of job.ID, chunks int) board {
	b := board{of: of, chunks: make([]chunk, chunks)}
	b.count[pending] = chunks
	return b
}

// has reports that there is a chunk of that index.
func (b *board) has(index int) bool { return index >= 0 && index < len(b.chunks) }

// closed reports that nothing is open any more.
func (b *board) closed() bool { return b.count[accepted]+b.count[givenUp] == len(b.chunks) }

// move is the only place where a chunk changes its state, so that the counts
// are always true.
func (b *board) move(index int, to chunkState) {
	c := &b.chunks[index]
	if !chunkMoves[c.state][to] {
		panic(fmt.Sprintf("plan: chunk %s/%d cannot go from %s to %s", b.of, index, c.state, to))
	}
	b.count[c.state]--
	b.count[to]++
	c.state = to
}

// ready reports that there is a chunk to give out now.
func (b *board) ready() bool {
	for len(b.retry) > 0 {
		i := b.retry[0]
		if b.chunks[i].state == pending {
			return true
		}
		b.chunks[i].queued = false
		b.retry = b.retry[1:]
	}
	b.retry = nil
	for b.fresh < len(b.chunks) {
		if c := &b.chunks[b.fresh]; c.state == pending && c.attempts == 0 {
			return true
		}
		b.fresh++
	}
	return false
}

// next lists the chunks of which one may be given out next: the first that were tried
// before, and the first that was not.
func (b *board) next() (out []int) {
	if !b.ready() {
		return nil
	}
	for _, i := range b.retry[:min(scanLimit, len(b.retry))] {
		if b.chunks[i].state == pending {
			out = append(out, int(i))
		}
	}
	for i := b.fresh; i < len(b.chunks); i++ {
		if c := &b.chunks[i]; c.state == pending && c.attempts == 0 {
			return append(out, i)
		}
	}
	return out
}

// requeue puts a chunk that was tried before into line.
func (b *board) requeue(index int) {
	if c := &b.chunks[index]; !c.queued && c.state == pending {
		c.queued = true
		b.retry = append(b.retry, int32(index))
	}
}

// unqueue takes the chunk at that place of the line out, to be given out.
func (b *board) unqueue(place int) {
	b.chunks[b.retry[place]].queued = false
	b.retry = slices.Delete(b.retry, place, place+1)
}

// releasable lists the chunks that were given up, and the highest number that an
// attempt at one of them had, at least 1.
func (b *board) releasable() (spans []job.Span, attempt int) {
	for i := range b.chunks {
		c := &b.chunks[i]
		if c.state != givenUp {
			continue
		}
		attempt = max(attempt, int(c.attempts), 1)
		if n := len(spans); n > 0 && spans[n-1].Last == i-1 {
			spans[n-1].Last = i
		} else {
			spans = append(spans, job.Span{First: i, Last: i})
		}
	}
	return spans, attempt
}

// share says how many of the chunks are in a state.
func (b *board) share(s chunkState) string {
	if b.count[s] == len(b.chunks) {
		return fmt.Sprintf("all %d chunks", len(b.chunks))
	}
	return fmt.Sprintf("%d of %d chunks", b.count[s], len(b.chunks))
}
