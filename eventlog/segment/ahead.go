package segment

import (
	"io"
	"runtime"
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
)

const (
	// aheadMin is the length from which on a segment is read ahead.
	aheadMin  = 1 << 20
	aheadStep = 256 << 10
)

// item is a frame of a segment, with what can be computed of it alone.
type item struct {
	fr    record.Frame
	event event.Event // of an event frame, hashed
	head  *event.Head // of a head frame
	sig   error       // of a head frame: its signature is wrong
	err   error       // the payload cannot be decoded
	end   int64       // offset after the frame
}

// judge computes what follows from a frame by itself: a head's signature is
// checked with verify, if that is not nil. Bodies alias the frame.
// The event probably comes from node.
func judge(fr record.Frame, end int64, node cluster.NodeID, verify func(event.Head) error) item {
	it := item{fr: fr, end: end}
	switch fr.Type {
	case record.TypeEvent:
		it.event, it.err = record.DecodeNext(fr.Payload, node)
	case record.TypeHead:
		var h event.Head
		if h, it.err = record.DecodeHead(fr.Payload); it.err == nil && verify != nil {
			it.sig = verify(h)
		}
		it.head = &h
	}
	return it
}

// ahead reads the frames of a segment one after the other. For long segments
// several goroutines compute ahead what needs no other frame: checksums,
// hashes, signatures. Where something is wrong with a frame it reads on by
// itself, so that all errors are those of record.Decoder. They end with stop.
type ahead struct {
	verify func(event.Head) error
	// passing says that what next returned is not looked at after the next call.
	passing bool

	f    io.ReaderAt
	size int64
	off  int64
	rec  int

	pieces chan *piece // in order; closed by the reading goroutine
	spare  chan *piece // that are over, to be used again; full: dropped
	now    *piece
	d      *record.Decoder // once pieces are over
	ended  chan struct{}   // closed by stop
	work   sync.WaitGroup
}

// piece is a part of a segment that starts with a frame.
type piece struct {
	off   int64
	buf   []byte
	bytes []byte // whole frames, in buf
	all   []item // as far as frames are sound
	items []item // of these, what was not returned yet
	done  chan struct{}
}

func readAhead(f io.ReaderAt, off, size int64, passing bool, verify func(event.Head) error) *ahead {
	a := &ahead{verify: verify, passing: passing, f: f, off: off, size: size, ended: make(chan struct{})}
	if size-off < aheadMin {
		return a
	}
	workers := runtime.GOMAXPROCS(0)
	a.pieces = make(chan *piece, 2*workers) // full: the reader waits
	a.spare = make(chan *piece, 2*workers)
	todo := make(chan *piece, 2*workers) // never more than pieces holds, and one
	a.work.Go(func() {
		defer close(a.pieces)
		defer close(todo)
		a.read(todo)
	})
	for range workers {
		a.work.Go(func() {
			for p := range todo {
				p.judge(verify)
				close(p.done)
			}
		})
	}
	return a
}

// stop ends the goroutines and waits for them.
func (a *ahead) stop() {
	close(a.ended)
	a.work.Wait()
}

// read cuts the segment into pieces, until the end, an error, or a frame that
// does not look like one.
func (a *ahead) read(todo chan<- *piece) {
	for off := a.off; off < a.size; {
		p := &piece{}
		select {
		case p = <-a.spare:
		default:
		}
		if p.buf == nil || !a.passing {
			p.buf = make([]byte, aheadStep)
		}
		b := p.buf[:min(aheadStep, a.size-off)]
		n, _ := a.f.ReadAt(b, off) // whoever needs the rest meets the error
		whole := wholeFrames(b[:n])
		if whole == 0 {
			return
		}
		*p = piece{off: off, buf: p.buf, bytes: b[:whole:whole], all: p.all[:0], done: make(chan struct{})}
		off += int64(whole)
		select {
		case a.pieces <- p:
		case <-a.ended:
			return
		}
		select {
		case todo <- p:
		case <-a.ended:
			return
		}
	}
}

// wholeFrames is the length of the frames that lie in b entirely.
func wholeFrames(b []byte) int {
	off := 0
	for len(b)-off >= record.FrameHeaderLen {
		n, err := record.FrameLen(b[off:])
		if err != nil || n > len(b)-off {
			break
		}
		off += n
	}
	return off
}

func (p *piece) judge(verify func(event.Head) error) {
	defer func() { p.items = p.all }()
	var node cluster.NodeID
	for off := 0; off < len(p.bytes); {
		fr, n, err := record.ParseFrame(p.bytes[off:])
		if err != nil {
			return
		}
		off += n
		p.all = append(p.all, judge(fr, p.off+int64(off), node, verify))
		if last := &p.all[len(p.all)-1]; fr.Type == record.TypeEvent && last.err == nil {
			node = last.event.Source.Node
		}
	}
}

// next returns the next frame, or the error of a record.Decoder. What it
// returns stays valid.
func (a *ahead) next() (item, error) {
	for a.d == nil {
		if a.now != nil && len(a.now.items) > 0 {
			it := a.now.items[0]
			a.now.items = a.now.items[1:]
			a.off, a.rec = it.end, a.rec+1
			return it, nil
		}
		if a.now != nil {
			select {
			case a.spare <- a.now:
			default:
			}
		}
		p, ok := a.take()
		if !ok {
			a.d = record.NewDecoder(io.NewSectionReader(a.f, a.off, a.size-a.off), a.off, a.rec)
		}
		a.now = p
	}
	fr, err := a.d.Next()
	if err != nil {
		return item{}, err
	}
	a.off, a.rec = a.d.Offset(), a.d.Record()
	it := judge(fr, a.off, "", a.verify)
	it.event.Body = append([]byte(nil), it.event.Body...) // the decoder's buffer moves on
	return it, nil
}

// take waits for the next piece; ok is false if none follows on what was read.
func (a *ahead) take() (p *piece, ok bool) {
	if a.pieces == nil {
		return nil, false
	}
	if p, ok = <-a.pieces; !ok || p.off != a.off {
		return nil, false // the piece before ended early
	}
	<-p.done
	return p, true
}
