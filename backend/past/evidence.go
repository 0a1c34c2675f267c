package past

import (
	"context"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

// Terms converts the history of the lease, the lowest term first, to the form that
// begins with the newest, with what the chains tell of its gaps. Nobody says that no
// host is known to hold it now.
func (p *Past) Terms(ctx context.Context, terms []state.Term, nobody bool) []api.TermRecord {
	out := convert.Terms(terms)
	if len(out) > 0 && out[0].Cause == "" && nobody {
		out[0].Cause = api.CauseExpired // nobody renews it; when it ended is not known yet
	}
	var held time.Time // until when somebody is known to have
	for i, t := range terms {
		r := &out[len(out)-1-i]
		if !held.IsZero() {
			r.GapSeconds = new(max(0, r.StartedAt.Sub(held).Seconds()))
		}
		switch {
		case r.Cause == "":
		case t.Released != 0 && r.ToldAt == nil:
			r.LastEvidenceAt = r.EndedAt
		default:
			until := ^cluster.HLC(0)
			if r.EndedAt != nil {
				until = cluster.NewHLC(*r.EndedAt, 0xffff)
			}
			for _, later := range terms[i+1:] {
				if later.Holder == t.Holder { // what it wrote then is of that term
					until = min(until, later.Started-1)
				}
			}
			if at, ok := p.lastWord(ctx, t, until); ok {
				r.LastEvidenceAt = new(at.Time())
			}
		}
		if r.LastEvidenceAt != nil && r.LastEvidenceAt.After(held) {
			held = *r.LastEvidenceAt
		}
	}
	return out
}

// words remembers the last events of holders. It may be used from any goroutine.
type words struct {
	mu   sync.Mutex
	list map[span]word
}

// span is what a last event was looked for in.
type span struct {
	host        cluster.NodeID
	from, until cluster.HLC
}

type word struct {
	at cluster.HLC
	// of is up to where the host's chains were known.
	of uint64
	// last: events behind the span are known, so none within it can come any more.
	last bool
}

// maxWords bounds what is remembered: more than a state has terms.
const maxWords = 2 * state.MaxTerms

// lastWord is the clock of the last event that the holder of a term wrote from its
// beginning on, up to until.
func (p *Past) lastWord(ctx context.Context, t state.Term, until cluster.HLC) (cluster.HLC, bool) {
	s := span{t.Holder, t.Started, until}
	heads := p.log.Heads()
	of := uint64(0)
	for _, h := range heads {
		if h.Source.Node == t.Holder {
			of += h.Seq
		}
	}
	p.words.mu.Lock()
	had, ok := p.words.list[s]
	p.words.mu.Unlock()
	if ok && (had.last || had.of == of) {
		return had.at, true
	}
	w := word{at: t.Started, of: of}
	oldest := p.log.Oldest()
	for _, h := range heads {
		if h.Source.Node != t.Holder {
			continue
		}
		seq, err := p.log.LastBefore(h, func(at cluster.HLC) bool { return at <= until })
		if err != nil {
			return 0, false
		}
		w.last = w.last || seq < h.Seq
		if seq <= oldest[h.Source] {
			continue
		}
		at, err := p.clock(ctx, heads, h.Source, seq)
		if err != nil {
			return 0, false
		}
		w.at = max(w.at, at)
	}
	p.words.mu.Lock()
	defer p.words.mu.Unlock()
	if len(p.words.list) >= maxWords {
		clear(p.words.list)
	}
	p.words.list[s] = w
	return w.at, true
}

// clock is that of an event.
func (p *Past) clock(ctx context.Context, heads []event.Head, src event.SourceID, seq uint64) (cluster.HLC, error) {
	at := event.Cursor{}
	for _, h := range heads {
		if h.Source != src {
			at[h.Source] = h.Seq
		}
	}
	if seq > 1 {
		at[src] = seq - 1
	}
	for e, err := range p.log.After(ctx, at, store.Filter{}) {
		if err != nil {
			return 0, err
		}
		if e.Source == src {
			return e.HLC, nil
		}
	}
	return 0, ctx.Err()
}
