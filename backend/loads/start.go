package loads

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/slice"
)

// start has all slices begin at one instant. A holder that finds some which were told when, by one
// before it, has the others begin then as well: those send what is due from when they were told.
func (d *drive) start(ctx context.Context, extracted [][]byte) error {
	found, kept := d.find(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if extracted == nil { // another holder had them made ready
		extracted = kept
	}
	d.say("clocks are read")
	var asking sync.WaitGroup
	for i, p := range d.parts {
		if found[i].Stage != "" {
			asking.Go(func() { found[i].Clock = d.clockOf(ctx, p, clockAsks) })
		}
	}
	asking.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	at, begun, known := gang.Begun(found)
	if !begun {
		at, known = slice.Clock()+int64(startAhead), true
	}
	if known {
		d.set(func() {
			d.extracted, d.at, d.began = extracted, at, time.Now().Add(time.Duration(at-slice.Clock()))
			for i, p := range d.parts {
				if begun && found[i].Begins != 0 {
					p.begins = found[i].Begins
				} else {
					p.begins = at + found[i].Clock.Ahead
				}
				p.read(found[i].Clock, at, 0)
			}
		})
	}
	for i, p := range d.parts {
		switch f := found[i]; {
		case begun && f.Stage != gang.Ready: // it goes on, or who follows it hears why not
		case !known:
			d.lose(p, "it was not told when to begin, and nobody knows when the others do")
		case d.c.plan.Setup != nil && extracted == nil && (i > 0 || f.Stage != gang.Ready):
			d.lose(p, fmt.Sprintf("what setup left is lost with %s", d.parts[0].host))
		case !f.Clock.OK:
			d.lose(p, "its clock could not be read")
		default:
			asking.Go(func() {
				if err := d.begins(ctx, p, at+f.Clock.Ahead); err != nil {
					d.lose(p, "it was not started: "+err.Error())
				}
			})
		}
	}
	asking.Wait()
	return ctx.Err()
}

// begins tells a slice that is ready when it begins, by its host's clock.
func (d *drive) begins(ctx context.Context, p *part, at int64) error {
	_, err := forward.AskHost(ctx, d.l.o.Remote, forward.LoadStart, p.host, holder, gang.Start{
		Run: d.id, Attempt: uint64(d.term), At: at, Extracted: d.extracted,
	})
	return err
}

// join has a slice begin that is ready, and was not heard of when others were told: it is tried again
// where that does not succeed.
func (d *drive) join(ctx context.Context, p *part) {
	r := d.clockOf(ctx, p, clockAsks)
	d.mu.Lock()
	at := d.at
	d.mu.Unlock()
	if !r.OK || at == 0 || d.begins(ctx, p, at+r.Ahead) != nil {
		return
	}
	d.set(func() {
		p.timed = timed{begins: at + r.Ahead}
		p.read(r, at, time.Duration(slice.Clock()-at))
	})
}

// find asks how far the slices are, for as long as a host may be silent, and what the first of
// them extracted. Where some have begun nobody is waited for long: what those count is to be heard.
func (d *drive) find(ctx context.Context) (out []gang.Found, extracted [][]byte) {
	out = make([]gang.Found, len(d.parts))
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	var asking sync.WaitGroup
	for i, p := range d.parts {
		asking.Go(func() {
			for until := time.Now().Add(lostAfter); p.lost == "" && time.Now().Before(until) && ctx.Err() == nil; _ = wait.For(ctx, askPause) {
				x, err := forward.AskHost(ctx, d.l.o.Remote, forward.LoadCounted, p.host, holder, gang.Ask{Run: d.id})
				if err == nil {
					if out[i] = (gang.Found{Stage: x.Stage, Begins: x.Begins}); i == 0 {
						extracted = x.Extracted
					}
					if x.Begins != 0 {
						time.AfterFunc(askSpare, enough)
					}
					return
				}
			}
		})
	}
	asking.Wait()
	return out, extracted
}

// clockOf reads the clock of a host.
func (d *drive) clockOf(ctx context.Context, p *part, asks int) gang.Reading {
	ctx, cancel := context.WithTimeout(ctx, clockWait)
	defer cancel()
	var samples []gang.Sample
	for range asks {
		asked := slice.Clock()
		said, err := forward.AskHost(forward.OnSend(ctx, func() { asked = slice.Clock() }), d.l.o.Remote, forward.LoadClock, p.host, holder, gang.Named{Run: d.id})
		if err == nil {
			samples = append(samples, gang.Sample{Asked: asked, Heard: said.Now, Said: said.Now, Answered: slice.Clock()})
		}
	}
	return gang.Offset(samples)
}

// readings are what the answers of a host say of its clock since it was read.
type readings struct {
	samples []gang.Sample
	since   time.Time
}

// add takes in when an answer was asked for and came, by the holder's clock. It returns what is read
// where it is time for that.
func (r *readings) add(asked, answered int64, x gang.Counted, now time.Time) (out gang.Reading) {
	if x.Now == 0 {
		return out
	}
	if r.samples = append(r.samples, gang.Sample{Asked: asked, Heard: x.Heard, Said: x.Now, Answered: answered}); now.Sub(r.since) >= clockEvery {
		out = gang.Offset(r.samples)
		r.samples, r.since = r.samples[:0], now
	}
	return out
}

// timed is what is known of the clock of a host that takes part. The drive's mutex guards it.
type timed struct {
	clock  int64 // how uncertain its start is, in nanoseconds
	begins int64 // by its own clock; 0: not known
	slew   int64 // by how much its windows are to end later than that says
	off    int64 // by how much its clock went further than the holder's since the start
	unsure int64 // how uncertain that is
	when   time.Duration
	seen   bool   // it was read
	moved  string // in doubt; empty: nothing is
}

// settling is in how much of a run a reading still tells when it began: clocks are apart by 50
// millionths at most, which is 3 ms by then.
const settling = time.Minute

// read takes in what a reading of the clock says, at a time of a run that began at an instant of the
// holder's.
func (t *timed) read(r gang.Reading, at int64, when time.Duration) {
	if !r.OK || t.begins == 0 {
		return
	}
	off := at + r.Ahead - t.begins
	least := max(off, -off) + r.Uncertain
	switch moved := max(off-t.off, t.off-off); {
	case !t.seen:
		t.clock = least
	case moved > r.Uncertain+t.unsure+int64(clockMost):
		if t.moved == "" {
			t.moved = fmt.Sprintf("its clock moved by %s beside the holder's between second %d and %d", time.Duration(moved).Round(time.Millisecond), int(t.when.Seconds()), int(when.Seconds()))
		}
	case when <= settling && t.moved == "":
		t.clock = min(t.clock, least)
	}
	t.slew = gang.Slew(at, t.begins, r, t.slew)
	t.off, t.unsure, t.when, t.seen = off, r.Uncertain, when, true
}
