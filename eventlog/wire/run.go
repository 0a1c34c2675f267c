package wire

import (
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
)

// Run is a piece of a chain: dense events and the signed head after the last
// one. DecodeRun verifies all of it but the signature.
type Run struct {
	Events   []event.Event
	Payloads [][]byte // what the events were decoded from
	Head     event.Head
	Bytes    int
}

// DecodeRun reads the frames of a run and checks everything but the
// signature and the clock. Bodies alias b.
func DecodeRun(b []byte) (*Run, error) {
	ru := &Run{Bytes: len(b)}
	if n := min(countFrames(b), len(b)/leastFrame); n > 1 {
		ru.Events, ru.Payloads = make([]event.Event, 0, n-1), make([][]byte, 0, n-1)
	}
	for len(b) > 0 {
		fr, n, err := record.ParseFrame(b)
		if err != nil {
			return nil, fmt.Errorf("%w: run: %w", ErrPeer, err)
		}
		b = b[n:]
		switch fr.Type {
		case record.TypeEvent:
			if err := ru.add(fr.Payload); err != nil {
				return nil, fmt.Errorf("%w: run: %w", ErrPeer, err)
			}
		case record.TypeHead:
			if ru.Head, err = record.DecodeHead(fr.Payload); err != nil {
				return nil, fmt.Errorf("%w: run: %w", ErrPeer, err)
			}
			if len(b) > 0 || len(ru.Events) == 0 {
				return nil, fmt.Errorf("%w: run: its head is not the last of several frames", ErrPeer)
			}
		default:
			return nil, fmt.Errorf("%w: run with a %s frame", ErrPeer, fr.Type)
		}
	}
	if len(ru.Events) == 0 || ru.Head.Seq == 0 {
		return nil, fmt.Errorf("%w: run without head", ErrPeer)
	}
	last := ru.Events[len(ru.Events)-1]
	if ru.Head.Source != last.Source || ru.Head.Seq != last.Seq || ru.Head.Hash != last.Hash {
		return nil, fmt.Errorf("%w: run of %s: the head is not that of its last event", ErrPeer, last.Source)
	}
	return ru, nil
}

// RunEnd reads only where a run ends: its last frame, a head.
func RunEnd(b []byte) (event.Head, error) {
	for len(b) >= record.FrameHeaderLen {
		n, err := record.FrameLen(b)
		if err != nil || n > len(b) {
			break
		}
		if n == len(b) {
			h, err := record.DecodeHead(b[record.FrameHeaderLen:])
			if err != nil {
				break
			}
			return h, nil
		}
		b = b[n:]
	}
	return event.Head{}, fmt.Errorf("%w: run without head", ErrPeer)
}

// leastFrame is shorter than the frame of any event.
const leastFrame = 80

// countFrames says how many frames b seems to hold.
func countFrames(b []byte) (n int) {
	for len(b) >= record.FrameHeaderLen {
		length, err := record.FrameLen(b)
		if err != nil || length > len(b) {
			break
		}
		b = b[length:]
		n++
	}
	return n
}

func (ru *Run) add(payload []byte) error {
	var node cluster.NodeID
	if n := len(ru.Events); n > 0 {
		node = ru.Events[n-1].Source.Node
	}
	e, err := record.DecodeNext(payload, node)
	if err != nil {
		return err
	}
	if err := record.CheckBody(e); err != nil {
		return err
	}
	if n := len(ru.Events); n > 0 {
		p := ru.Events[n-1]
		switch {
		case e.Source != p.Source:
			return fmt.Errorf("events of %s and %s", p.Source, e.Source)
		case e.Seq != p.Seq+1:
			return fmt.Errorf("%s: seq %d after %d", e.Source, e.Seq, p.Seq)
		case e.Prev != p.Hash:
			return fmt.Errorf("%s: hash chain broken at seq %d", e.Source, e.Seq)
		case e.HLC <= p.HLC:
			return fmt.Errorf("%s: clock goes back at seq %d", e.Source, e.Seq)
		}
	}
	ru.Events, ru.Payloads = append(ru.Events, e), append(ru.Payloads, payload)
	return nil
}

// Encode returns the frames of the events from the i-th on, and the head.
func (ru *Run) Encode(i int) ([]byte, error) {
	var b []byte
	for _, e := range ru.Events[i:] {
		p, err := record.AppendEvent(nil, e)
		if err == nil {
			b, err = record.AppendFrame(b, record.Frame{Type: record.TypeEvent, Base: 1, Payload: p})
		}
		if err != nil {
			return nil, err
		}
	}
	p, err := record.AppendHead(nil, ru.Head)
	if err != nil {
		return nil, err
	}
	return record.AppendFrame(b, record.Frame{Type: record.TypeHead, Base: 1, Payload: p})
}

// MovesCut reports whether the run holds an event that speaks of other chains.
func (ru *Run) MovesCut() bool {
	return slices.ContainsFunc(ru.Events, func(e event.Event) bool {
		return e.Kind == event.KindTermStart || e.Kind == event.KindConfigChanged
	})
}

// Groups yields the runs of readable frames in b that end with a head, whatever
// stands between them.
func Groups(b []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		start := -1 // of the events of this group
		for i := 0; i < len(b); {
			fr, n, err := record.ParseFrame(b[i:])
			switch {
			case err != nil:
				start = -1
				i++
				continue
			case fr.Type == record.TypeEvent && start < 0:
				start = i
			case fr.Type == record.TypeHead && start >= 0:
				if !yield(b[start : i+n]) {
					return
				}
				start = -1
			case fr.Type != record.TypeEvent:
				start = -1
			}
			i += n
		}
	}
}
