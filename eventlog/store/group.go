package store

import (
	"slices"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/segment"
)

// begin starts a commit group in buf.
func (c *chain) begin() {
	if len(c.buf) == 0 {
		c.events = make([]event.Event, 0, c.usual+c.usual/4+1) // those of the last group have gone to the fold
		c.base = c.tail.Seq + 1
		c.next = event.Head{}
		c.undo.tail, c.undo.hlc = c.tail, c.hlc
	}
}

// forget takes back the group in buf, of which nothing was written.
func (c *chain) forget() {
	c.tail, c.hlc = c.undo.tail, c.undo.hlc
	c.buf, c.events, c.newIdx, c.next = c.buf[:0], nil, c.newIdx[:0], event.Head{}
}

// add puts e, which was checked and whose position the caller has filled in,
// into the group. Its body is the caller's again then.
func (c *chain) add(e event.Event) {
	start := len(c.buf)
	b := record.AppendChecked(record.BeginFrame(c.buf), &e)
	e.Hash = record.HashEvent(e.Prev, b[start+record.FrameHeaderLen:])
	e.Body = c.keep(e.Body)
	c.grow(&e, b)
}

// keep copies body for an event. Few of them outlive the fold, and each keeps
// no more than bodyRoom with it.
func (c *chain) keep(body []byte) []byte {
	if len(body) > cap(c.bodies)-len(c.bodies) {
		c.bodies = make([]byte, 0, max(len(body), bodyRoom))
	}
	n := len(c.bodies)
	c.bodies = append(c.bodies, body...)
	return slices.Clip(c.bodies[n:])
}

// copy puts e, which was decoded from payload and verified, into the group.
func (c *chain) copy(e event.Event, payload []byte) {
	c.grow(&e, append(record.BeginFrame(c.buf), payload...))
}

// grow makes buf the group up to e, whose frame ends it and is to be finished.
func (c *chain) grow(e *event.Event, buf []byte) {
	start := len(c.buf)
	if err := record.FinishFrame(buf, start, record.TypeEvent, c.base); err != nil {
		// It was checked on entry, or verified: this cannot be a caller's fault.
		panic("store: checked event refused: " + err.Error())
	}
	c.buf = buf
	c.newIdx.Add(segment.Entry{Seq: e.Seq, Off: int64(start)})
	c.tail = event.Mark{Seq: e.Seq, Hash: e.Hash}
	c.hlc = e.HLC
	c.events = append(c.events, *e)
}

// end puts the signed head after the events of the group.
func (g *commitGroup) end(h event.Head) error {
	p, err := record.AppendHead(nil, h)
	if err == nil {
		g.buf, err = record.AppendFrame(g.buf, record.Frame{Type: record.TypeHead, Base: g.base, Payload: p})
	}
	if err != nil {
		return err
	}
	g.next = h
	return nil
}

// size is what the staged group will take with its head.
func (c *chain) size() int64 {
	n := len(c.buf)
	if c.next.Seq == 0 {
		n += record.HeadFrameLen(c.src)
	}
	return int64(n)
}

// commit makes the synced group in flight visible to readers and returns its events.
// The lock of the store is held.
func (c *chain) commit() []event.Event {
	seg := c.last()
	g := &c.flight
	for _, e := range g.newIdx {
		seg.index.Add(segment.Entry{Seq: e.Seq, Off: seg.size + e.Off})
	}
	seg.size += int64(len(g.buf))
	c.head = g.next
	events := g.events
	c.usual = len(events)
	g.buf, g.events, g.newIdx = g.buf[:0], nil, g.newIdx[:0]
	if cap(g.buf) > keepBuffer {
		g.buf = nil
	}
	return events
}
