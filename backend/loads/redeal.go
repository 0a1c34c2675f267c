package loads

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/stat"
)

// redealAhead is how far ahead of what was told others take the share of a lost host over.
const redealAhead = 4 * time.Second

// lost is how many hosts are.
func (d *drive) lost() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.parts {
		if p.lost != "" {
			n++
		}
	}
	return n
}

// redistribute has those who go on take over what the lost ones had, from one time of the run
// on. A new holder does it again: whoever was told holds to that.
func (d *drive) redistribute(ctx context.Context, b event.LoadRun, turn int) {
	d.mu.Lock()
	sum := 0
	var going, gone []*part
	for _, p := range d.parts {
		sum += p.share
		if p.lost != "" {
			gone = append(gone, p)
			continue
		}
		if !p.over() {
			going = append(going, p)
		}
	}
	d.mu.Unlock()
	if len(going) == 0 {
		return
	}
	if from, rest, told := d.known(ctx, going, turn, len(d.parts)-len(gone)); told { // by a holder before this one
		d.redealt(from, rest)
		return
	}
	if !d.fenced(ctx, gone) {
		return
	}
	asked := b
	asked.On = nil
	old := make([]int, len(going))
	for i, p := range going {
		asked.On, old[i] = append(asked.On, p.host), p.share
	}
	offers := d.l.offers(ctx, asked, d.c)
	hosts := make([]gang.Host, len(going))
	for i, p := range going {
		hosts[i] = gang.Host{Node: p.host, Offer: gang.Offer{Why: "not heard"}}
		for _, h := range offers {
			if h.Node == p.host {
				hosts[i] = h
			}
		}
	}
	shares, rest := gang.Redistribute(d.c.wants(b), hosts, old, sum)
	d.mu.Lock()
	at := 0
	for _, p := range going {
		at = max(at, p.shelf.At())
	}
	if !d.began.IsZero() { // what was told last may be old
		at = max(at, int(time.Since(d.began)/stat.Step))
	}
	d.mu.Unlock()
	var telling sync.WaitGroup
	defer telling.Wait()
	from := at + int(redealAhead/stat.Step)
	for i, p := range going {
		telling.Go(func() {
			for range 3 {
				_, err := forward.AskHost(ctx, d.l.o.Remote, forward.LoadRedeal, p.host, holder, gang.Redeal{Run: d.id, Turn: turn, From: from, Shares: shares, Index: i})
				if err == nil || wait.For(ctx, askPause) != nil {
					return
				}
			}
		})
	}
	d.redealt(from, rest)
}

// known says what all who go on were told of a turn already, when so many were not lost; false: some
// were not told.
func (d *drive) known(ctx context.Context, going []*part, turn, left int) (from int, rest float64, ok bool) {
	for until := time.Now().Add(askWait + askSpare); ; {
		heard, told := 0, 0
		var x gang.Redeal
		d.mu.Lock()
		for _, p := range going {
			if p.stage != "" {
				heard++
			}
			if p.redealt != nil && p.redealt.Check() == nil && p.redealt.Turn >= turn && p.redealt.From <= p.most {
				told, x = told+1, *p.redealt
			}
		}
		d.mu.Unlock()
		if told == len(going) {
			sum := 0
			for _, s := range x.Shares {
				sum += s
			}
			if len(x.Shares) > left {
				rest = float64(x.Shares[len(x.Shares)-1]) / float64(max(1, sum))
			}
			return x.From, rest, true
		}
		if heard == len(going) || time.Now().After(until) || wait.For(ctx, look) != nil {
			return 0, 0, false
		}
	}
}

// redealt notes from which window on others have the share of whom was lost, but for a part of the plan.
func (d *drive) redealt(from int, rest float64) {
	text := fmt.Sprintf("from %s on the others carry the share of the lost", time.Duration(from)*stat.Step)
	if rest > 0 {
		text += fmt.Sprintf(", but %.3g %% of the plan, which they may not send", rest*100)
	}
	d.set(func() {
		d.notes = append(d.notes, text)
		d.marks = append(d.marks, report.Mark{At: (time.Duration(from) * stat.Step).Seconds(), Text: "others have its share"})
	})
}

// fenced waits until those that are lost send nothing any more: they say so, or have not
// been heard for so long that they hold by themselves.
func (d *drive) fenced(ctx context.Context, gone []*part) bool {
	var telling sync.WaitGroup
	for _, p := range gone {
		d.mu.Lock()
		left := max(askWait, time.Until(p.heard.Add(lostAfter)))
		d.mu.Unlock()
		telling.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, left)
			defer cancel()
			for {
				if _, err := forward.AskHost(ctx, d.l.o.Remote, forward.LoadEnd, p.host, holder, gang.End{Run: d.id}); err == nil || wait.For(ctx, askPause) != nil {
					return
				}
			}
		})
	}
	telling.Wait()
	return ctx.Err() == nil
}
