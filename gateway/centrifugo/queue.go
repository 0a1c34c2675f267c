package centrifugo

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/internal/wait"
)

// Bounds of what waits for Centrifugo.
const (
	shards     = 8 // what one worker is told goes by one of them, in its order
	maxWaiting = 4096
	maxEnds    = 8192
	maxBytes   = 64 << 20 // of all pushes
	batchMost  = 256
	batchBytes = 1 << 20
	// pushTime is how old a push may get, endTime the order to disconnect somebody.
	pushTime  = 10 * time.Second
	endTime   = time.Minute
	pauseMost = time.Second
)

// item is a command that waits.
type item struct {
	command
	to    string // the channel, or who is disconnected: what is for one of them stays in order
	size  int
	at    time.Duration
	until time.Duration
}

// queue is what waits for Centrifugo. Its methods may be called from any goroutine. What finds
// no room in a channel is dropped, and counted.
type queue struct {
	seed    maphash.Seed
	pushes  []chan item // one for each shard, of maxWaiting
	ends    chan item   // of maxEnds
	waiting atomic.Int64
	bytes   atomic.Int64
}

func newQueue() *queue {
	q := &queue{seed: maphash.MakeSeed(), ends: make(chan item, maxEnds)}
	for range shards {
		q.pushes = append(q.pushes, make(chan item, maxWaiting))
	}
	return q
}

// add has an item wait; false: there is no room.
func (q *queue) add(x item) bool {
	to := q.ends
	if x.Publish != nil {
		to = q.pushes[maphash.String(q.seed, x.to)%shards]
	}
	q.waiting.Add(1)
	if q.bytes.Add(int64(x.size)) > maxBytes {
		q.done(x)
		return false
	}
	select {
	case to <- x:
		return true
	default:
		q.done(x)
		return false
	}
}

// done takes an item out of what waits.
func (q *queue) done(x item) {
	q.waiting.Add(-1)
	q.bytes.Add(int64(-x.size))
}

// carry carries out what comes from a queue, until ctx ends.
func (n *Node) carry(ctx context.Context, from <-chan item) {
	var batch []item
	for {
		select {
		case <-ctx.Done():
			return
		case x := <-from:
			batch = append(batch[:0], x)
		}
		size := batch[0].size
	fill:
		for len(batch) < batchMost && size < batchBytes {
			select {
			case x := <-from:
				batch = append(batch, x)
				size += x.size
			default:
				break fill
			}
		}
		n.deliver(ctx, batch)
	}
}

// deliver has a batch carried out, as often as it takes, but for what gets too old.
func (n *Node) deliver(ctx context.Context, batch []item) {
	for tries := 0; len(batch) > 0; tries++ {
		if tries > 0 && wait.For(ctx, min(wait.Backoff(tries-1), pauseMost)) != nil {
			return
		}
		now := n.o.Now()
		fresh := batch[:0]
		for _, x := range batch {
			if now < x.until {
				fresh = append(fresh, x)
			} else {
				n.told(x, late)
			}
		}
		if batch = fresh; len(batch) == 0 {
			return
		}
		commands := make([]command, len(batch))
		for i := range batch {
			commands[i] = batch[i].command
		}
		replies, err := n.api.batch(ctx, commands)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			n.complain(err, "Centrifugo does not take what workers are told")
			continue
		}
		batch = n.left(batch, replies)
	}
}

// left is what of a batch is to be tried again: what failed for now, unless the same
// listeners were told something later already, which they then know to be too much.
func (n *Node) left(batch []item, replies []reply) []item {
	last := map[string]int{}
	for i, r := range replies {
		if r.Error == nil {
			last[batch[i].to] = i
		}
	}
	again := batch[:0]
	for i, r := range replies {
		x := batch[i]
		outrun, some := last[x.to]
		switch {
		case r.Error == nil:
			n.told(x, delivered)
		case r.Error.Code == codeInternal && (!some || outrun < i):
			n.complain(r.Error, "Centrifugo cannot tell workers anything now: its log says why")
			again = append(again, x)
		case r.Error.Code == codeInternal:
			n.told(x, late)
		default:
			n.complain(r.Error, "Centrifugo refuses what a worker is told: its configuration must be what `skein gateway centrifugo-config` prints")
			n.told(x, refused)
		}
	}
	return again
}

// told counts what became of an item.
func (n *Node) told(x item, outcome string) {
	n.queue.done(x)
	if x.Publish == nil {
		if outcome == delivered {
			n.metrics.ended.Inc()
		}
		return
	}
	n.metrics.pushes.WithLabelValues(outcome).Inc()
	if outcome == delivered {
		n.metrics.took.Observe((n.o.Now() - x.at).Seconds())
	}
}
